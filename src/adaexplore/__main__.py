"""Runs the command line: `python -m adaexplore`."""

from adaexplore.cli.main import main

main()
