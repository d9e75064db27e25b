"""What the profiler in a runner's own process says; evidence, and no clock."""

from __future__ import annotations

import math

from adaexplore_evaluator.referee.values import MalformedReplyError
from adaexplore_evaluator.runner.frames import JsonObject

# Name, calls and total microseconds.
Kernel = tuple[str, int, float]


def parsed_profile(reply: JsonObject, calls: int) -> tuple[float, tuple[Kernel, ...]]:
    """Span of one call in microseconds, and the kernels of all calls; MalformedReplyError if they have another form."""
    kernels = reply.get("kernels")
    if not isinstance(kernels, list):
        raise MalformedReplyError("kernels is no list")
    try:
        found = tuple((str(item["name"])[:200], _count(item["count"]), _time_us(item["total_us"])) for item in kernels)
        return _time_us(reply.get("span_us")) / calls, found
    except (KeyError, TypeError) as error:
        raise MalformedReplyError("the profile has another form") from error


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise MalformedReplyError("a number of calls is none")
    return value


def _time_us(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise MalformedReplyError("a time is none")
    return float(value)
