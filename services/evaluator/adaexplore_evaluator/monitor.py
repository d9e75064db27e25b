"""Watches one started runner: its output, its memory, its end."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from adaexplore_evaluator.folders import folder_bytes, remove_folder
from adaexplore_evaluator.processes import kill_tree, paused_tree, resident_bytes, share_bytes, tree_of
from adaexplore_evaluator.sandbox import Launch, Limits

_LOG_BYTES = 64 * 1024
_BUSY_POLL_S = 0.2
_IDLE_POLL_S = 1.0
_FOLDER_POLL_S = 1.0
_PRINTED_BYTES = 256
_PRIORITY = -10


class KillReason(Enum):
    """Why a runner was killed by us."""

    MEMORY = "memory"
    SCRATCH = "scratch"
    PROCESSES = "processes"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    CLOSED = "closed"


@dataclass(frozen=True)
class ProcessEnd:
    """How a runner ended.

    Attributes:
        killed: Our reason for killing it; None if it ended by itself.
        exit_code: Exit code of its main process; None if a signal ended it.
        signal: Number of that signal; None if it exited.

    """

    killed: KillReason | None
    exit_code: int | None
    signal: int | None


class Monitor:
    """A thread that drains a runner's output and kills the whole tree when it takes too much.

    Args:
        launch: The runner; the monitor owns its process from now on.
        limits: What it may use.
        sweep: Called after the end to kill what escaped the tree.

    """

    def __init__(self, launch: Launch, limits: Limits, sweep: Callable[[Launch], None]) -> None:
        self._launch = launch
        self._limits = limits
        self._sweep = sweep
        self._log = b""
        self._printed = b""
        self._reading = threading.Lock()
        self._reason: KillReason | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._busy = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"monitor-{launch.process.pid}", daemon=True)
        self._thread.start()

    @property
    def log(self) -> str:
        """The last 64 KiB that the runner wrote to its output and error streams."""
        return self._log.decode(errors="replace")

    def printed(self) -> str:
        """The beginning of what the runner has written to its output stream until now, since `forget_printed`."""
        fd = self._output_fds()[0]
        with self._reading:
            while not self._ended.is_set() and _waiting_bytes(fd) and len(self._printed) < _PRINTED_BYTES:
                self._keep(fd, os.read(fd, 1 << 16))
            return self._printed.decode(errors="replace")

    def forget_printed(self) -> None:
        """Let `printed` begin anew."""
        self.printed()
        with self._reading:
            self._printed = b""

    def watch_closely(self, busy: bool) -> None:
        """Look often while a command runs, seldom while the runner waits for one."""
        if busy:
            self._busy.set()
        else:
            self._busy.clear()

    @property
    def swarms(self) -> bool:
        """Whether it runs more processes than it may."""
        return self.overflowed or len(self._processes()) > self._limits.processes

    @property
    def overflowed(self) -> bool:
        """Whether the kernel has refused it one more process or thread than its group may have."""
        return self._launch.group is not None and self._launch.group.was_full

    def _processes(self) -> list[int]:
        """The runner's processes; its group knows them at once, else the whole of /proc is read."""
        known = self._launch.group.processes() if self._launch.group is not None else []
        return known or tree_of(self._launch.process.pid)

    def kill(self, reason: KillReason) -> None:
        """Kill the whole tree; the first reason stays."""
        self._blame(reason)
        self._kill_all()

    def _blame(self, reason: KillReason) -> None:
        with self._lock:
            if self._reason is None and not self._ended.is_set():
                self._reason = reason

    def _kill_all(self) -> None:
        if self._launch.group is not None:
            self._launch.group.kill()
        kill_tree(self._launch.process.pid)

    def end(self, timeout_s: float) -> ProcessEnd | None:
        """How the runner ended; None if it has not within the time."""
        if not self._ended.wait(timeout_s):
            return None
        code = self._launch.process.returncode
        signal = -code if code < 0 else code - 128 if 128 < code < 192 else None
        return ProcessEnd(self._reason, None if signal is not None else code, signal)

    def close(self) -> None:
        """Kill what is left and remove the private folder."""
        self.kill(KillReason.CLOSED)
        self._thread.join(timeout=30)
        for stream in (self._launch.process.stdout, self._launch.process.stderr):
            if stream is not None:
                stream.close()
        for fd in (self._launch.command_fd, self._launch.reply_fd):
            os.close(fd)
        if self._launch.group is not None:
            self._launch.group.remove()
        remove_folder(self._launch.folder)

    def _watch(self) -> None:
        with suppress(OSError):  # only a privileged user may; a swarm of processes must not keep this thread from its turn
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PRIORITY)
        process = self._launch.process
        fds, next_look_s, next_folder_s = self._output_fds(), 0.0, 0.0
        while process.poll() is None:
            self._drain(fds, _BUSY_POLL_S)
            now_s = time.monotonic()
            if now_s >= next_look_s:
                reason = self._excess(with_folder=now_s >= next_folder_s)
                if reason is not None:
                    self.kill(reason)
                next_look_s = now_s + (_BUSY_POLL_S if self._busy.is_set() else _IDLE_POLL_S)
                next_folder_s = now_s + _FOLDER_POLL_S if now_s >= next_folder_s else next_folder_s
            if not fds:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_BUSY_POLL_S)
        if self.overflowed:  # it may have ended before anyone looked
            self._blame(KillReason.PROCESSES)
        self._kill_all()
        self._sweep(self._launch)
        # What escaped the kill may hold a pipe open, so the rest is read only as far as it is there.
        while self._drain(fds, 0.0):
            pass
        self._ended.set()

    def _output_fds(self) -> list[int]:
        """Its output stream and, where that is a stream of its own, its error stream."""
        return [stream.fileno() for stream in (self._launch.process.stdout, self._launch.process.stderr) if stream is not None]

    def _drain(self, fds: list[int], wait_s: float) -> bool:
        """Wait a moment for output and read what is there, dropping streams without more to come; False if nothing was there."""
        ready = select.select(fds, [], [], wait_s)[0]
        for fd in ready:
            if not self._take(fd):
                fds.remove(fd)
        return bool(ready)

    def _take(self, fd: int) -> bool:
        """Read what is there; False at the stream's end."""
        with self._reading:
            if not select.select([fd], [], [], 0.0)[0]:
                return True
            chunk = os.read(fd, 1 << 16)
            self._keep(fd, chunk)
            return bool(chunk)

    def _keep(self, fd: int, chunk: bytes) -> None:
        self._log = (self._log + chunk)[-_LOG_BYTES:]
        if fd == self._output_fds()[0]:
            self._printed = (self._printed + chunk)[:_PRINTED_BYTES]

    def _excess(self, with_folder: bool) -> KillReason | None:
        if self.swarms:
            return KillReason.PROCESSES
        if resident_bytes(self._processes()) > self._limits.memory_bytes:
            # Not only what it holds, but also what its processes share, which counts once. A fork bomb would outrun the reading.
            with paused_tree(self._launch.process.pid, self._limits.processes) as pids:
                if len(pids) > self._limits.processes:
                    return KillReason.PROCESSES
                if sum(map(share_bytes, pids)) > self._limits.memory_bytes:
                    return KillReason.MEMORY
        if with_folder and folder_bytes(self._launch.folder) > self._limits.scratch_bytes:
            return KillReason.SCRATCH
        return None


def _waiting_bytes(fd: int) -> int:
    """Bytes that a pipe holds and nobody has read."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)
