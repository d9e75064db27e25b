"""What a candidate launched: whether two shapes launch the same, and what the track forbids."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from adaexplore_evaluator.devices.cpu.launches import Launch, MalformedLaunchError, OperatorLaunch, TritonLaunch, parse_launch
from adaexplore_evaluator.devices.cpu.operator_names import words
from adaexplore_evaluator.devices.cpu.operators import Kind, base_name, kind_of
from adaexplore_evaluator.referee.values import MalformedReplyError, objects
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.stragglers import THREADS

# Allocating and filling is what torch may do under every track.
_ALLOCATIONS: Final = words(
    """
    empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full
    fill zero scalar_tensor set resize lift_fresh lift_fresh_copy item _local_scalar_dense is_same_size sym_size sym_stride sym_numel
    """
)
# Estimates end within so many standard errors of the truth.
_STANDARD_ERRORS: Final = 3.0
# Padding of an allocation and partial sectors are below this.
_WHOLE: Final = 0.97
_PARTLY: Final = 0.5
_LIBRARY_KINDS: Final = frozenset({Kind.PRODUCT, Kind.CONVOLUTION, Kind.ATTENTION})


def parsed_launches(reply: JsonObject) -> list[Launch]:
    """The launches of a reply; MalformedReplyError if one has not the form of the protocol."""
    try:
        return [parse_launch(record) for record in objects(reply, "launches")]
    except (MalformedLaunchError, OverflowError) as error:
        raise MalformedReplyError(str(error)) from error


def computes(launch: Launch) -> bool:
    """True for Triton launches and for operators that do more than allocate or view."""
    if isinstance(launch, TritonLaunch):
        return True
    return not (launch.view or kind_of(launch.name) is Kind.VIEW or base_name(launch.name) in _ALLOCATIONS)


def signature_of(launches: Sequence[Launch]) -> list[str]:
    """Names of what computes, in order; a repetition of one name counts once, since loops may turn more often at full shape."""
    names = [launch.name for launch in launches if computes(launch)]
    return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]


Kernel = tuple[str, int, tuple[str, ...]]


def kernels_of(reply: JsonObject) -> set[Kernel]:
    """The Triton kernels launched: name, line of the definition and names of the constexprs, none of which depend on the shape."""
    found = set()
    for record in objects(reply, "launches"):
        constexprs, line = record.get("constexprs") or {}, record.get("line") or 0
        if record.get("kind") == "triton" and isinstance(constexprs, dict) and isinstance(line, int):
            found.add((str(record.get("name")), line, tuple(sorted(constexprs))))
    return found


Writer = tuple[str, int, str]
Coverages = dict[Writer, "Coverage"]


@dataclass(frozen=True)
class Coverage:
    """Part of its allocation that a kernel writes through one argument, at least and at most, as far as sampled programs tell."""

    low: float
    high: float


_UNKNOWN: Final = Coverage(0.0, math.inf)


def coverage_of(reply: JsonObject) -> Coverages:
    """Coverage by kernel, line and argument; MalformedReplyError if it has another form.

    Every Triton kernel of the reply has at least one entry: without an argument, where it stores nothing or could not be sampled.
    """
    found: Coverages = {}
    for item in objects(reply, "coverage"):
        record: dict[str, Any] = item
        try:
            share, error, line = float(record["coverage"]), float(record["error"]), int(record["line"])
        except (KeyError, TypeError, ValueError, OverflowError) as wrong:
            raise MalformedReplyError("coverage has another form") from wrong
        if not (math.isfinite(share) and math.isfinite(error)):
            raise MalformedReplyError("coverage is not finite")
        spread = _STANDARD_ERRORS * abs(error)
        known = record.get("known") is not False
        writer = str(record.get("kernel_name")), line, str(record.get("argument"))
        found[writer] = Coverage(share - spread, share + spread) if known else _UNKNOWN
    storing = {(name, line) for name, line, _ in found}
    idle = [(name, line, "") for name, line, _ in kernels_of(reply) if (name, line) not in storing]
    return found | dict.fromkeys(idle, Coverage(0.0, 0.0))


def leaves_gaps(coverages: Coverages) -> bool:
    """True if some kernel may not write all of what it is given to write."""
    return any(item is not _UNKNOWN and item.low < _WHOLE for item in coverages.values())


def written_less(full: Coverages, judged: Coverages) -> list[Writer]:
    """What covers less of its allocation at full shape than at the judged one, beyond what sampling and partial tiles explain.

    What covers all at the judged shape must cover all. What covers a part there (a triangle, a slice) covers less where tiles are small
    compared with the whole.
    """
    unknown = {(name, line) for side in (full, judged) for (name, line, _), item in side.items() if item is _UNKNOWN}
    nothing = Coverage(0.0, 0.0)
    return [
        writer
        for writer, item in judged.items()
        if (writer[0], writer[1]) not in unknown and full.get(writer, nothing).high < _demanded(item)
    ]


def _demanded(judged: Coverage) -> float:
    return _WHOLE if judged.low >= _WHOLE else _PARTLY * max(judged.low, 0.0)


def triton_names(launches: Sequence[Launch]) -> list[str]:
    """Names of the Triton kernels launched, in order of first occurrence."""
    return list(dict.fromkeys(launch.name for launch in launches if isinstance(launch, TritonLaunch)))


def forbidden(launches: Sequence[Launch], track: str) -> list[str]:
    """Names of operators that the track forbids, in order of first occurrence."""
    operators = [launch for launch in launches if isinstance(launch, OperatorLaunch) and computes(launch)]
    if track == "triton_only":
        return list(dict.fromkeys(launch.name for launch in operators))
    if track == "no_vendor_library":
        unseen = [launch.name for launch in operators if kind_of(launch.name) in _LIBRARY_KINDS or launch.name == THREADS]
        return list(dict.fromkeys(unseen))
    return []


def defines_kernels(source: str) -> bool:
    """Whether a file, which parses, decorates a function with Triton's `jit`."""
    decorators = [item for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) for item in node.decorator_list]
    called = [item.func if isinstance(item, ast.Call) else item for item in decorators]
    return any((item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "")) == "jit" for item in called)
