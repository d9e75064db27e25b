"""Bytes and operations that were counted without a GPU, given to the launches that were measured on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaexplore_evaluator.profiles.calls import JsonObject, profiled

_WORK = ("dram_bytes", "flops", "product_flops")


def with_work(evaluation: Mapping[str, Any], counted: Mapping[str, Any]) -> JsonObject:
    """The Evaluation of a GPU, profiled with the work of its kernels; where that could not be counted, its profile says why.

    Kernels are the same by name. Of library kernels, whose names are not those of operators, the longest has the work of the only operator.

    Args:
        evaluation: JSON of the measured Evaluation.
        counted: JSON of an Evaluation of the same candidate that compiled and sampled it for the same target.

    """
    found = dict(evaluation)
    measured = [dict(item) for item in found.get("launches") or []]
    problem = _problem(counted)
    if not problem:
        launches: list[JsonObject] = counted.get("launches") or []
        own = [item for item in launches if item.get("registers") is not None]
        for item in measured:
            item.update(_mean_work([other for other in own if other["name"] == item.get("name")]))
        problem = _given_to_library(measured, [item for item in launches if item.get("registers") is None and item.get("dram_bytes")])
    found["launches"] = measured
    found["profile"] = {**(found.get("profile") or {}), **({"work_message": problem} if problem else {})}
    return profiled(found)


def _mean_work(launches: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Work of one of these launches, in the mean: a measured latency is one, too."""
    count = sum(item.get("count", 1) for item in launches)
    return {name: sum(item.get("count", 1) * item.get(name, 0.0) for item in launches) / count for name in _WORK} if count else {}


def _problem(counted: Mapping[str, Any]) -> str:
    if counted.get("verdict") == "VERDICT_PASSED":
        return ""
    failure = counted.get("failure")
    message = failure.get("message", "") if isinstance(failure, dict) else ""
    return f"not counted, since without a GPU it does not run: {message or counted.get('cause', 'no reason is given')}"[:300]


def _given_to_library(measured: Sequence[JsonObject], operators: Sequence[JsonObject]) -> str:
    """Give the work of the only operator to the longest library kernel; why not, in words, if that is not clear."""
    library = [item for item in measured if item.get("registers") is None and item.get("latency_us")]
    if not library:
        return ""
    if len(operators) == 1 and operators[0].get("count", 1) == 1:
        longest = max(library, key=lambda item: item["latency_us"] * item.get("count", 1))
        longest.update({name: operators[0].get(name, 0.0) for name in _WORK})
        return ""
    return f"not told apart for {len(library)} library kernels of {len(operators)} operators"
