"""Launches and violations in the protocol's form."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict

from adaexplore_evaluator.runner.errors import MAX_MESSAGE_CHARS, clean
from adaexplore_evaluator.runner.recording import OperatorCall
from adaexplore_evaluator.runner.triton_cpu import Launch, Violation

Record = dict[str, object]
MAX_VIOLATIONS = 20


def launch_records(launches: Sequence[Launch], calls: Sequence[OperatorCall]) -> list[Record]:
    """Triton launches and operator calls of one run in their order; identical ones in a row become one with a count."""
    return merged_records([_triton(launch) for launch in launches], calls)


def merged_records(launches: Sequence[Record], calls: Sequence[OperatorCall]) -> list[Record]:
    """As `launch_records`, for Triton launches that are records already."""
    ordered: list[Record] = []
    remaining = list(calls)
    for number, launch in enumerate(launches):
        while remaining and remaining[0].position <= number:
            ordered.append(_operator(remaining.pop(0)))
        ordered.append(launch)
    ordered += [_operator(call) for call in remaining]
    return [record | {"count": sum(1 for _ in same)} for record, same in itertools.groupby(ordered)]


def violation_records(violations: Sequence[Violation]) -> list[Record]:
    """The first violations of one run."""
    return [asdict(violation) | {"message": clean(violation.message, MAX_MESSAGE_CHARS)} for violation in violations[:MAX_VIOLATIONS]]


def _triton(launch: Launch) -> Record:
    return {"kind": "triton", **asdict(launch), "grid": list(launch.grid)}


def _operator(call: OperatorCall) -> Record:
    return {
        "kind": "operator",
        "name": call.name,
        "line": call.line,
        "bytes_read": call.bytes_read,
        "bytes_written": call.bytes_written,
        "flops": call.flops,
        "view": False,
    }
