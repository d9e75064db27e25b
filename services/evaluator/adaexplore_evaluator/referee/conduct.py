"""What a candidate must not do besides computing: write to standard output, and leave processes running."""

from __future__ import annotations

from adaexplore_evaluator.referee.runners import Runner
from adaexplore_evaluator.referee.verdicts import FAILED, REJECTED, stop
from adaexplore_evaluator.runner.frames import JsonObject

_SHOWN_CHARS = 60


def demand_quiet(runner: Runner, reply: JsonObject, phase: str) -> None:
    """StopError if the candidate wrote to standard output until it gave this reply."""
    text = runner.printed
    if not text:
        return
    line = reply.get("printed_line")
    number = line if isinstance(line, int) and 0 < line < 2**31 else 0
    shown = f"{text[:_SHOWN_CHARS]!r}{'…' if len(text) > _SHOWN_CHARS else ''}"
    remedy = f"remove the print at line {number}" if number else "remove what prints"
    raise stop(FAILED, "CONTRACT", phase, f"the candidate writes to standard output ({shown}); {remedy}", number)


def demand_alone(runner: Runner, phase: str) -> None:
    """StopError if the candidate left processes running."""
    count = runner.started_processes()
    if count:
        what = "a process" if count == 1 else f"{count} processes"
        raise stop(REJECTED, "HIDDEN_WORK", phase, f"the candidate leaves {what} running; do all work in the call")
