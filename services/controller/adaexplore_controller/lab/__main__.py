"""Runs `python -m adaexplore_controller.lab replay FILE [--json]`, and `compare`.

Exit codes: 0 all is well, 1 a replayed step differs, 2 the file or a flag cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from adaexplore_controller.lab import compare, replay
from adaexplore_controller.lab.traces import TraceError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one laboratory command and return its exit code."""
    parser = argparse.ArgumentParser(prog="adaexplore lab", description="Questions about policies that need no evaluator.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command, summary in (
        (replay, "compare the paper's policy with recorded searches, step by step"),
        (compare, "compare policies on recorded searches whose steps are drawn anew"),
    ):
        name = command.__name__.rpartition(".")[2]
        added = commands.add_parser(name, help=summary, description=summary)
        command.add_arguments(added)
        added.set_defaults(run=command.run)
    options = parser.parse_args(argv)
    try:
        text, code = options.run(options)
        exit_code = int(code)
    except TraceError as error:
        print(f"error: {error}", file=sys.stderr)
        if options.json:
            print(json.dumps({"error": {"reason": error.reason, "message": error.message}}))
        return 2
    print(text)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
