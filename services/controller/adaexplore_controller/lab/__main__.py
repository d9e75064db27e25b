"""Runs `python -m adaexplore_controller.lab replay FILE [--json]`.

Exit codes: 0 every step agrees, 1 a step differs, 2 the file or a flag cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from adaexplore_controller.lab import replay
from adaexplore_controller.lab.traces import TraceError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one laboratory command and return its exit code."""
    parser = argparse.ArgumentParser(prog="adaexplore lab", description="Questions about policies that need no evaluator.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    summary = "compare the paper's policy with recorded searches"
    replay.add_arguments(commands.add_parser("replay", help=summary, description=summary))
    options = parser.parse_args(argv)
    try:
        text, code = replay.run(options)
    except TraceError as error:
        print(f"error: {error}", file=sys.stderr)
        if options.json:
            print(json.dumps({"error": {"reason": error.reason, "message": error.message}}))
        return 2
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
