"""Stops a file that starts ever more processes: each that would start one too many falls asleep until the monitor ends them all.

A fork bomb doubles while the monitor waits for its turn on the processor, and thousands of processes leave it none. Processes that are
asleep take nothing. What starts processes without Python is left to the monitor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any, Final

_STARTS: Final = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"})
_ASLEEP_S: Final = 60.0
_PROC: Final = Path("/proc")


class Brake:
    """Hears the audited calls of a process and of all that it forks.

    Args:
        most: Processes of one session that may be.
        wait: Waits so many seconds.

    """

    def __init__(self, most: int, wait: Callable[[float], None] = sleep) -> None:
        self._most = most
        self._wait = wait

    def heard(self, event: str, _arguments: tuple[Any, ...] = ()) -> None:
        """Never return where a process is about to be started and more than `most` are there."""
        while event in _STARTS and _is_crowded(self._most):
            self._wait(_ASLEEP_S)


def _is_crowded(most: int) -> bool:
    """Whether more processes than `most` belong to this session; a few others may be visible too."""
    own = os.getsid(0)
    if own == 0:  # its leader lives outside this namespace, and so do the leaders of kernel threads: all would be counted as one
        return False
    pids = [entry.name for entry in _PROC.iterdir() if entry.name.isdigit()]
    return len(pids) > most and sum(_session_of(pid) == own for pid in pids) > most


def _session_of(pid: str) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int((_PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()[3])
    return -1
