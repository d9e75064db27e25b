"""Latency of a call whose inputs come from device memory, and of one whose inputs were just used: both by replays of graphs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

_REPEATS = 5
_MOST_FLUSHED = 128
# Writing twice the cache leaves nothing of what was in it.
_FLUSHED_CACHES = 2


@dataclass(frozen=True)
class CacheTimes:
    """Microseconds of a call, None where it cannot be told.

    Attributes:
        cold_us: Inputs come from device memory.
        warm_us: The call before had the same inputs.

    """

    cold_us: float | None = None
    warm_us: float | None = None


@dataclass(frozen=True)
class Replays:
    """What a clock lends.

    Attributes:
        capture: Captures slots from 0: how many, calls of each in a row, bytes flushed before each; a graph's number, -1 if it fails.
        capture_flushes: Captures flushes alone: how many, bytes of each; a graph's number.
        seconds: Replays a graph, checks that its last output is fresh, and answers at random if asked; its time.

    """

    capture: Callable[[int, int, int], int]
    capture_flushes: Callable[[int, int], int]
    seconds: Callable[[int, bool], float]


def cache_times(
    replays: Replays, once: int, count: int, rotating_us: float, is_cold: bool, call_bytes: int, cache_bytes: int, repeats: bool = True
) -> CacheTimes:
    """Cold and warm latency of a captured subject.

    Args:
        replays: Captures and replays.
        once: Number of the graph that calls each of `count` slots once.
        count: Slots of that graph.
        rotating_us: Latency over slots in turn.
        is_cold: Whether those exceed the caches.
        call_bytes: Size of one call's inputs and outputs.
        cache_bytes: Size of the largest cache.
        repeats: Whether a slot may be called twice in a row.

    """
    cold_us = rotating_us if is_cold else _flushed_us(replays, count, rotating_us, cache_bytes)
    # What does not fit into the cache twice is never warm.
    return CacheTimes(cold_us, _repeated_us(replays, once, count) if repeats and 2 * call_bytes <= cache_bytes else None)


def _repeated_us(replays: Replays, once: int, count: int) -> float | None:
    twice = replays.capture(count, 2, 0)
    return _difference_us(replays, once, twice, count) if twice >= 0 else None


def _flushed_us(replays: Replays, count: int, rotating_us: float, cache_bytes: int) -> float | None:
    number, size = min(count, _MOST_FLUSHED), _FLUSHED_CACHES * cache_bytes
    called = replays.capture(number, 1, size)
    if called < 0:
        return None
    found = _difference_us(replays, replays.capture_flushes(number, size), called, number)
    # A runner that flushes less than it says, or dawdles where it flushes alone, must not make cold faster than warm.
    return None if found is None else max(found, rotating_us)


def _difference_us(replays: Replays, short: int, long: int, calls: int) -> float | None:
    differences = [replays.seconds(long, at == _REPEATS - 1) - replays.seconds(short, False) for at in range(_REPEATS)]
    median_s = statistics.median(differences)
    return 1e6 * median_s / calls if median_s > 0 else None
