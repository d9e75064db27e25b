"""Work besides the call: threads and timers that go on after it has returned, and threads whose operators no recorder sees."""

from __future__ import annotations

import _thread
import functools
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import torch

from adaexplore_evaluator.runner.outputs import digest

# The record that stands among the launches for whatever threads of the file compute.
THREADS = "threading.Thread"
_LOOKS = 15
_LOOK_S = 0.02
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Stragglers:
    """Compares outputs while threads that the file started are alive; made before any file is imported.

    Args:
        count: Counts the threads of this process.
        wait: Waits so many seconds.
        listen: Has a function called at each start of a thread.

    Attributes:
        started: Threads that were started since.

    """

    def __init__(
        self,
        count: Callable[[], int] | None = None,
        wait: Callable[[float], None] = sleep,
        listen: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._count = count or _threads
        self._wait = wait
        self._own = self._count()
        self._own_timers = _timers()
        self.started = 0
        (listen or _hear_of_threads)(self._heard)

    def change(self, outputs: Sequence[torch.Tensor]) -> bool:
        """True if outputs change within 0.3 s, or until only the runner's own threads are left, or if a timer is still to go off."""
        if _timers() - self._own_timers:
            return True
        if self._count() <= self._own:
            return False
        before = [digest(tensor) for tensor in outputs]
        for _ in range(_LOOKS):
            self._wait(_LOOK_S)
            if self._count() <= self._own:
                break
        return [digest(tensor) for tensor in outputs] != before

    def records(self) -> list[dict[str, object]]:
        """A launch record for what threads compute, if the file ever started one."""
        nothing = {"line": 0, "bytes_read": 0, "bytes_written": 0, "flops": 0.0, "view": False, "count": 1}
        return [{"kind": "operator", "name": THREADS, **nothing}] if self.started else []

    def _heard(self) -> None:
        self.started += 1


def _hear_of_threads(heard: Callable[[], None]) -> None:
    """Let the functions that start threads, under the names of several versions of Python, tell of it."""
    for module in (_thread, threading):
        for name in ("start_new_thread", "_start_new_thread", "start_joinable_thread", "_start_joinable_thread"):
            if hasattr(module, name):
                setattr(module, name, _telling(getattr(module, name), heard))


def _telling(start: Callable[..., Any], heard: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(start)
    def started(*args: Any, **kwargs: Any) -> Any:
        heard()
        return start(*args, **kwargs)

    return started


def _timers() -> set[int]:
    """Timers that are still to go off."""
    return {timer for timer in _TIMERS if signal.getitimer(timer)[0]}


def _threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())
