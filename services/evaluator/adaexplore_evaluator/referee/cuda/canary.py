"""A drift canary: two known pieces of work of the referee's own, which tell whether the GPU is still as fast as it was.

One counts cycles of one thread, so that it draws little power: a product that keeps all cores busy lowers the clocks by itself, by up to a
tenth from one reading to the next on an H200, and would tell of nothing else.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

# A GPU whose clocks hold stays well within this.
_DRIFT = 0.05
# Two readings of clocks that have settled.
_SETTLED = 0.01
_ATTEMPTS = 10
_SAMPLES = 15
_WARM_UPS = 3
# An idle GPU lowers its clocks, and takes some milliseconds of work to raise them.
_AWAKE_S = 0.05
_CYCLES = 200_000
_COPIED_BYTES = 1 << 28


@dataclass(frozen=True)
class Reading:
    """Microseconds of a copy, bound by memory, and of a known number of clock cycles."""

    copy_us: float
    cycles_us: float

    def drifted_from(self, other: Reading, allowed: float = _DRIFT) -> str:
        """What changed by more than is allowed, in words; empty if nothing did."""
        pairs = {"copying memory": (other.copy_us, self.copy_us), "a clock cycle": (other.cycles_us, self.cycles_us)}
        name, (before, after) = max(pairs.items(), key=lambda item: abs(item[1][1] / item[1][0] - 1.0))
        change = after / before - 1.0
        return "" if abs(change) <= allowed else f"{name} takes {change:+.0%} of what it took"


class Canary:
    """Reads the canary on the current GPU; its memory is kept, and small beside the GPU's.

    Args:
        now_s: A monotonic clock in seconds.

    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        size = min(_COPIED_BYTES, torch.cuda.get_device_properties(0).total_memory // 64)
        self._source = torch.zeros(size, dtype=torch.uint8, device="cuda")
        self._target = torch.empty_like(self._source)

    def read(self) -> Reading:
        """Time both, some 60 ms with what wakes the GPU, longer where its clocks still rise; it must be held and idle."""
        self._wake(_AWAKE_S)
        found = self._reading()
        for _attempt in range(_ATTEMPTS):
            before, found = found, self._reading()
            if not found.drifted_from(before, _SETTLED):
                break
            self._wake(_AWAKE_S)
        return found

    def _reading(self) -> Reading:
        return Reading(self._median_us(lambda: self._target.copy_(self._source)), self._median_us(_count_cycles))

    def _wake(self, seconds: float) -> None:
        end_s = self._now_s() + seconds
        while self._now_s() < end_s:
            _count_cycles()
            torch.cuda.synchronize()

    def _median_us(self, work: Callable[[], object]) -> float:
        for _ in range(_WARM_UPS):
            work()
        return statistics.median(event_us(work) for _ in range(_SAMPLES))


def _count_cycles() -> object:
    return torch.cuda._sleep(_CYCLES)  # type: ignore[no-untyped-call]


def event_us(work: Callable[[], object]) -> float:
    """Microseconds that work takes on the GPU, by events around it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    work()
    end.record()
    end.synchronize()
    return 1e3 * float(start.elapsed_time(end))
