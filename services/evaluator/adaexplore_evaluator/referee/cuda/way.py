"""Gives the GPU to whoever waits to be alone on it, once what a stopped runner has sent to it is done."""

from __future__ import annotations

import fcntl
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from adaexplore_evaluator.referee.cuda.canary import event_us
from adaexplore_evaluator.referee.cuda.turns import GpuTurns, opened

# Several slices of time that the GPU gives to each process that uses it: beside another one it takes twice as long.
_SPUN_CYCLES = 20_000_000
_QUIET = 1.3
_LOOKS = 5
# What has been sent to the GPU takes so long at most, unless it never ends.
_DRAINED_S = 1.0


class Quiet:
    """Tells whether anything else computes on the GPU, by how long one thread takes to count cycles.

    Args:
        uuid: The GPU.
        spin_us: Counts, and says how many microseconds that took; on the current GPU by default.
        folder: Where the lock lies that keeps one from counting beside another; the host's folder for temporary files by default.

    """

    def __init__(self, uuid: str, spin_us: Callable[[], float] | None = None, folder: Path | None = None) -> None:
        self._path = (folder or Path(tempfile.gettempdir())) / f"adaexplore-{uuid}.spin"
        self._spin_us = spin_us or _spin_us
        self._alone_us = math.inf

    @property
    def is_known(self) -> bool:
        """Whether it was learnt what counting takes on a quiet GPU."""
        return math.isfinite(self._alone_us)

    def learn(self) -> None:
        """Learn what counting takes; the GPU must be held alone."""
        self._alone_us = min(self._spun_us() for _ in range(_LOOKS))

    def reached(self, within_s: float = _DRAINED_S) -> bool:
        """True as soon as nothing else computes; False if something still does after so many seconds, or if it was never learnt."""
        end_s = time.monotonic() + within_s
        while self.is_known:
            if self._spun_us() <= _QUIET * self._alone_us:
                return True
            if time.monotonic() >= end_s:
                break
        return False

    def _spun_us(self) -> float:
        fd = opened(self._path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # for some milliseconds: two that count would each take the other for work
            return self._spin_us()
        finally:
            os.close(fd)


class Way:
    """Lets others pass while a runner is waited for.

    Args:
        turns: Turns on the GPU.
        quiet: Tells when the GPU is done with what a stopped runner has sent.

    """

    def __init__(self, turns: GpuTurns, quiet: Quiet) -> None:
        self._turns = turns
        self._quiet = quiet

    def learn(self) -> None:
        """Learn once what a quiet GPU is like, alone on it; nobody passes before. To be called within a job."""
        if not self._quiet.is_known:
            with self._turns.alone():
                self._quiet.learn()

    def is_asked_for(self) -> bool:
        """True if somebody waits to be alone for whom a shared turn may be given up."""
        return self._quiet.is_known and self._turns.in_the_way()

    def give(self) -> None:
        """Let those pass who wait; the runner must stand still. What keeps the GPU busy nevertheless keeps the turn."""
        if self._quiet.reached():
            self._turns.give_way()
        else:
            self._turns.stay()


def _spin_us() -> float:
    return event_us(lambda: torch.cuda._sleep(_SPUN_CYCLES))  # type: ignore[no-untyped-call]
