"""Turns on one GPU: many referees prepare and check at a time, one alone times; across all evaluators of this host.

A turn is held only while the GPU is used: who starts a process, compiles or waits keeps nobody from timing. A shared turn that lasts is
given up in between to whoever wants to be alone, while its runner stands still. Beside the turn there is the room: every job holds a share
of it from its beginning to its end, so that whoever has all of it is the only one with tensors on the GPU.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

from adaexplore_evaluator.referee.tasks import JobCancelledError

_POLL_S = 0.005
# A shared turn is not given up again before it has lasted so long.
_LEAST_S = 0.5


class Turns(Protocol):
    """What a referee asks of turns."""

    def using(self) -> AbstractContextManager[None]:
        """Use the GPU beside others for the body."""

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else uses the GPU for the body."""


class FreeTurns:
    """Turns of one that shares a GPU with nobody."""

    def using(self) -> AbstractContextManager[None]:
        """At once."""
        return nullcontext()

    def alone(self) -> AbstractContextManager[None]:
        """At once."""
        return nullcontext()


class GpuTurns:
    """The turns of one referee.

    Whoever waits to be alone keeps later ones from sharing, so that it is not put off for ever. A process that dies loses its turn.

    Args:
        uuid: The GPU.
        folder: Where the locks lie; the host's folder for temporary files by default.

    """

    def __init__(self, uuid: str, folder: Path | None = None) -> None:
        place = folder or Path(tempfile.gettempdir())
        self._turn = _Lock(place / f"adaexplore-{uuid}.gate", place / f"adaexplore-{uuid}.lock")
        self._room = _Lock(place / f"adaexplore-{uuid}.room-gate", place / f"adaexplore-{uuid}.room")
        self._holds = self._is_alone = self._is_whole = False
        self._since_s = 0.0
        self._cancelled: Callable[[], bool] = lambda: False

    @contextmanager
    def job(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """The body is a job, which may use the GPU; JobCancelledError, here and in all below, if its caller gives up while it waits."""
        self._cancelled = cancelled
        with self._room.opened(), self._turn.opened():
            self._room.take(fcntl.LOCK_SH, cancelled)
            yield

    @contextmanager
    def using(self) -> Iterator[None]:
        """Within a job: use the GPU beside others for the body. What is within it, or within `alone`, is the same turn."""
        if self._holds:
            yield
            return
        self._turn.take(fcntl.LOCK_SH, self._cancelled)
        self._holds, self._since_s = True, time.monotonic()
        try:
            yield
        finally:
            self._holds = False
            self._turn.leave()

    def in_the_way(self) -> bool:
        """True if a shared turn has lasted a while and somebody waits to be alone."""
        return self._holds and not self._is_alone and time.monotonic() - self._since_s >= _LEAST_S and self._turn.is_waited_for()

    def give_way(self) -> None:
        """Give up a shared turn, during which nothing of this referee may use the GPU, and take it again after whoever waits for it."""
        self._turn.leave()
        self.stay()
        self._turn.take(fcntl.LOCK_SH, self._cancelled)
        self.stay()

    def stay(self) -> None:
        """Keep the turn for another while."""
        self._since_s = time.monotonic()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within a job: nobody else uses the GPU for the body; a shared turn around it is given up meanwhile."""
        if self._is_alone:
            yield
            return
        shared = self._holds
        if shared:
            self._turn.leave()
        self._turn.take(fcntl.LOCK_EX, self._cancelled)
        self._holds = self._is_alone = True
        try:
            yield
        finally:
            self._holds, self._is_alone = shared, False
            self._turn.leave()
            if shared:
                self._turn.take(fcntl.LOCK_SH, lambda: False)
                self.stay()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within a job, but not within `using`: no other job has tensors on the GPU for the body, nor uses it."""
        if self._is_whole:
            yield
            return
        self._room.leave()
        self._room.take(fcntl.LOCK_EX, self._cancelled)
        with self.alone():
            self._is_whole = True
            try:
                yield
            finally:
                self._is_whole = False
                self._room.share()

    def room_is_wanted(self) -> bool:
        """True if another job has all of the room or waits for it, so that what is kept between jobs should go."""
        return not self._is_whole and self._room.is_wanted()


class _Lock:
    """A lock on a file, shared or exclusive, behind a gate that keeps later sharers back while one waits for all of it."""

    def __init__(self, gate: Path, path: Path) -> None:
        self._gate = gate
        self._path = path
        self._fd = -1

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The file is open for the body; its end gives up what was taken."""
        self._fd = opened(self._path)
        try:
            yield
        finally:
            os.close(self._fd)
            self._fd = -1

    def take(self, kind: int, cancelled: Callable[[], bool]) -> None:
        gate = opened(self._gate)
        try:
            _wait(gate, fcntl.LOCK_EX, cancelled)
            _wait(self._fd, kind, cancelled)
        finally:
            os.close(gate)

    def is_wanted(self) -> bool:
        """True if all of it is taken or waited for by another."""
        return self.is_waited_for() or _is_exclusive(self._path)

    def is_waited_for(self) -> bool:
        """True if somebody is at the gate: whoever waits for all of it, or for a moment whoever comes to share it."""
        return _is_exclusive(self._gate)

    def leave(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def share(self) -> None:
        """A share instead of all of it."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)


def _wait(fd: int, kind: int, cancelled: Callable[[], bool]) -> None:
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if cancelled():
                raise JobCancelledError from None
            time.sleep(_POLL_S)
        else:
            return


def _is_exclusive(path: Path) -> bool:
    fd = opened(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def opened(path: Path) -> int:
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
