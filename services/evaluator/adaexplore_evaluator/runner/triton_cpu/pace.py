"""How long interpreting takes, against what it may take.

A kernel that the interpreter is too slow for is no kernel that hangs. What tells them apart is progress: programs that end one after
another, and iterations of loops whose number is known. A `while` loop may run for ever, so that nothing inside of it counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from .model import TooSlow

# The part of the limit after which the rest is foretold from the programs that have ended.
_TELLING_SHARE = 0.25


class Pace:
    """Seconds that the launches of one call have taken.

    Args:
        limit_s: Seconds that they may take together.
        clock: A monotonic clock in seconds.

    """

    def __init__(self, limit_s: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._before_s = 0.0
        self._start_s = 0.0
        self._first_s = 0.0
        self._name = ""
        self._line = 0
        self._bounded = True
        self._programs = 0
        self._done = 0

    def begin(self, name: str, line: int, programs: int, bounded: bool) -> None:
        """A launch begins; `bounded` if all of its loops end after a known number of iterations."""
        self._name, self._line, self._programs, self._bounded = name, line, programs, bounded
        self._done, self._start_s = 0, self._clock()

    def end(self) -> None:
        """The launch has ended, in whatever way."""
        self._before_s += self._clock() - self._start_s
        self._programs = 0

    def program_ended(self) -> None:
        """One program more has ended; TooSlow if all of them would take too long."""
        self._done += 1
        elapsed_s = self._clock() - self._start_s
        if self._done == 1:
            self._first_s = elapsed_s
        if elapsed_s > _TELLING_SHARE * self._limit_s:
            # The first program also pays for what all of them need.
            each_s = (elapsed_s - self._first_s) / max(self._done - 1, 1)
            self._demand(self._before_s + elapsed_s + (self._programs - self._done) * each_s)

    def iteration_ended(self) -> None:
        """One iteration more of a loop whose length is known has ended; TooSlow if the time is used up."""
        if self._bounded and self._programs:
            self._demand(self._before_s + self._clock() - self._start_s)

    def _demand(self, expected_s: float) -> None:
        if expected_s > self._limit_s:
            message = (
                f"interpreting takes more than {self._limit_s:.1f} s a call ({self._programs} programs in this launch, about "
                f"{expected_s:.0f} s); only a real device can judge it, or fewer programs that do more each"
            )
            raise TooSlow(self._name, self._line, message)
