"""Turns on one GPU: many referees prepare and check at a time, one alone times; across all evaluators of this host."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from adaexplore_evaluator.referee.tasks import JobCancelledError

_POLL_S = 0.005


class GpuTurns:
    """The turns of one referee.

    Whoever waits to be alone keeps later ones from sharing, so that it is not put off for ever. A process that dies loses its turn.

    Args:
        uuid: The GPU.
        folder: Where the locks lie; the host's folder for temporary files by default.

    """

    def __init__(self, uuid: str, folder: Path | None = None) -> None:
        place = folder or Path(tempfile.gettempdir())
        self._gate, self._turn = place / f"adaexplore-{uuid}.gate", place / f"adaexplore-{uuid}.lock"
        self._fd = -1
        self._is_alone = False
        self._cancelled: Callable[[], bool] = lambda: False

    @contextmanager
    def shared(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Use the GPU beside others for the body; JobCancelledError if the caller gives up first."""
        self._cancelled = cancelled
        self._fd = _opened(self._turn)
        try:
            self._take(fcntl.LOCK_SH)
            yield
        finally:
            os.close(self._fd)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within a shared turn: nobody else uses the GPU for the body; JobCancelledError if the caller gives up first."""
        if self._is_alone:
            yield
            return
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._take(fcntl.LOCK_EX)
        self._is_alone = True
        try:
            yield
        finally:
            self._is_alone = False
            fcntl.flock(self._fd, fcntl.LOCK_SH)

    def _take(self, kind: int) -> None:
        gate = _opened(self._gate)
        try:
            self._wait(gate, fcntl.LOCK_EX)
            self._wait(self._fd, kind)
        finally:
            os.close(gate)

    def _wait(self, fd: int, kind: int) -> None:
        while True:
            try:
                fcntl.flock(fd, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._cancelled():
                    raise JobCancelledError from None
                time.sleep(_POLL_S)
            else:
                return


def _opened(path: Path) -> int:
    """The file of a lock, made where it is absent; other users of this host may lock it too."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Without O_CREAT, which the kernel refuses for another user's file in a folder that all may write to.
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(fd, 0o666)
    return fd
