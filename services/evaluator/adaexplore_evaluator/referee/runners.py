"""One runner as the referee sees it: commands out, replies in, and nothing believed on the way."""

from __future__ import annotations

import errno
import os
import secrets
import select
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from adaexplore_evaluator.monitor import KillReason, Monitor, ProcessEnd
from adaexplore_evaluator.processes import carries, running_below
from adaexplore_evaluator.referee.clock import PhaseClock
from adaexplore_evaluator.runner.frames import HEADER_BYTES, FrameError, JsonObject, decode_payload, encode_frame, payload_length
from adaexplore_evaluator.runner.wire import BufferFolder, Tree, Value
from adaexplore_evaluator.sandbox import Attended, Launch, Role, Sandbox, SandboxError

# A process that has crashed may need seconds to go where many others wait for the processor.
_GRACE_S = 20.0
# Processes that are about to end when they are counted get this long.
_ENDING_S = 0.5
# A process whose parent ends while the table is read belongs to nobody for that look, so that one alone proves nothing.
_LOOKS = 2
_HELLO = "hello"
_POLL_S = 0.5


class RunnerFailureError(Exception):
    """A command was answered with an error of the protocol; `error` is its ERROR, bounded and typed."""

    def __init__(self, error: RunnerErrorReport) -> None:
        super().__init__(error.message)
        self.error = error


class RunnerEndedError(Exception):
    """The runner ended before it answered.

    Args:
        end: How.
        log: The last lines it wrote.

    """

    def __init__(self, end: ProcessEnd, log: str) -> None:
        super().__init__(str(end))
        self.end = end
        self.log = log


class RunnerKilledError(Exception):
    """SIGKILL ended the runner and it was not ours: whoever rules the host, most often for want of memory, took it."""


class RunnerForgedError(Exception):
    """What arrived, or lies in the shared folder, is nothing that the runner's own code can have left."""


class RunnerTimeoutError(Exception):
    """The current phase used up its time; the runner has been killed."""


@dataclass(frozen=True)
class RunnerErrorReport:
    """ERROR of the protocol, with every field checked and cut."""

    kind: str
    exception_type: str = ""
    message: str = ""
    detail: str = ""
    line: int = 0
    excerpt: str = ""
    kernel_name: str = ""


class Runner:
    """A started runner; a context manager that leaves neither process nor file.

    Args:
        sandbox: Starts it.
        role: What it runs.
        sweep: Kills what escaped the runner's process tree; called once after its end.
        attended: The tool under which it does one order and ends; None for a dialogue.

    """

    def __init__(self, sandbox: Sandbox, role: Role, sweep: Callable[[Launch], None], attended: Attended | None = None) -> None:
        self.role = role
        self._launch = sandbox.start(role, attended) if attended else sandbox.start(role)
        self.pid = self._launch.process.pid
        self._monitor = Monitor(self._launch, sandbox.limits, sweep)
        self.buffers = BufferFolder(self._launch.shared, f"r{secrets.token_hex(4)}-")
        self._inbox = bytearray()
        self._closed = False
        self._poll_s = _POLL_S
        self._has_run_code = False
        self._own_processes: set[int] = set()
        os.set_blocking(self._launch.command_fd, False)
        os.set_blocking(self._launch.reply_fd, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        """The last 64 KiB that it printed."""
        return self._monitor.log

    @property
    def alive(self) -> bool:
        """True until its process has ended."""
        return self._monitor.end(0.0) is None

    def ended(self, timeout_s: float) -> ProcessEnd | None:
        """How it ended, for one that does an order; None if it has not within the time."""
        self._has_run_code = True
        self._monitor.watch_closely(True)
        return self._monitor.end(timeout_s)

    def place(self, name: str, text: str) -> str:
        """Write a source file for it and return the path it sees; raises as `encode` does."""
        with self._shared_files():
            return self._launch.place(name, text)

    def encode(self, value: Value) -> Tree:
        """Tree of a value whose tensors are written to the shared folder.

        Raises:
            RunnerForgedError: What it ran has put the folder into a state that refuses the files.
            RunnerEndedError: What it ran has filled the disk; the runner has been killed.
            SandboxError: The folder refuses the files before it ran anything.

        """
        with self._shared_files():
            return self.buffers.encode(value)

    def decode(self, tree: object) -> Value:
        """Value of a tree that it sent, its buffers copied; WireError if they do not fit the tree, and as `encode` does."""
        with self._shared_files():
            return self.buffers.decode(tree, shared=False)

    def forget_buffers(self) -> None:
        """Delete every buffer of both sides; called between commands, when none is needed any more. Raises as `encode` does."""
        with self._shared_files():
            for entry in Path(self._launch.shared).iterdir():
                entry.unlink(missing_ok=True)

    def read_file(self, name: str, limit_bytes: int) -> bytes:
        """A file that it wrote to the shared folder; RunnerForgedError for a name that leads out of it, no plain file, or one too large."""
        if not name or "/" in name or name.startswith("."):
            raise RunnerForgedError("a file name leads out of the shared folder")
        with self._shared_files():
            data = _read_plain_file(self._launch.shared / name, limit_bytes + 1)
        if len(data) > limit_bytes:
            raise RunnerForgedError("a file of the shared folder is too large")
        return data

    @contextmanager
    def _shared_files(self) -> Iterator[None]:
        """Who is to blame for an error of the file system: what the runner ran, if it ran anything yet."""
        try:
            yield
        except OSError as error:
            if not self._has_run_code:
                raise SandboxError(f"the runner's folder cannot be used: {error.strerror or error}; free some space or memory") from error
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise RunnerForgedError(f"the shared folder was tampered with: {error.strerror or error}") from error
            # Others may share the disk, so this is lack of room and no proof of a forgery.
            self._monitor.kill(KillReason.SCRATCH)
            raise self._ended() from error

    def kill(self, reason: KillReason) -> None:
        """Kill it from any thread."""
        self._monitor.kill(reason)

    def close(self) -> None:
        """Kill it if it is alive, and remove its files."""
        if not self._closed:
            self._closed = True
            self._monitor.close()

    def wait_until_ready(self, clock: PhaseClock) -> None:
        """Wait until its imports are done; raises as `command` does, but for errors that it reports."""
        with suppress(RunnerFailureError):
            self.command(_HELLO, clock)
        self._monitor.forget_printed()
        self._own_processes = running_below(os.getpid())

    @property
    def printed(self) -> str:
        """The beginning of what was written to standard output since `wait_until_ready`; empty if nothing was."""
        return self._monitor.printed()

    def started_processes(self) -> int:
        """How many processes that it started since `wait_until_ready` run on, orphans that kept its environment included.

        Raises:
            RunnerEndedError: Its process has ended.
            RunnerKilledError: The host killed it.

        """
        deadline_s = time.monotonic() + _ENDING_S
        started: set[int] = set()
        looks_left = _LOOKS
        while True:
            running = running_below(os.getpid())
            if self.pid not in running and not started:
                raise self._ended()
            if self.pid not in running:  # what it started ends with it
                return len(started)
            below = running_below(self.pid)
            started = {pid for pid in running - self._own_processes if pid in below or carries(pid, self._launch.marker)}
            looks_left = _LOOKS if started else looks_left - 1
            if not looks_left or time.monotonic() >= deadline_s:
                return len(started)
            time.sleep(0.05 if started else 0.01)

    def command(self, name: str, clock: PhaseClock, /, **arguments: object) -> JsonObject:
        """Send a command and wait for its reply; progress frames switch the clock's phase.

        Raises:
            RunnerFailureError: The runner reports an error.
            RunnerEndedError: Its process ended.
            RunnerKilledError: The host killed it.
            RunnerForgedError: A frame that breaks the protocol arrived.
            RunnerTimeoutError: The phase's time is used up.

        """
        self._has_run_code |= name != _HELLO
        if self._inbox or self._readable(0.0):
            self._take()
            if self._inbox:
                raise RunnerForgedError("a frame arrived before it was asked for")
        self._monitor.watch_closely(True)
        try:
            return self._converse(name, clock, arguments)
        finally:
            self._monitor.watch_closely(False)

    def _converse(self, name: str, clock: PhaseClock, arguments: dict[str, object]) -> JsonObject:
        number = secrets.randbits(53)
        self._send(encode_frame({"id": number, "command": name, **arguments}), clock)
        while True:
            frame = self._receive(clock)
            if frame.get("id") != number:
                raise RunnerForgedError("a reply bears the id of no command")
            if self._monitor.overflowed:  # whatever it answers
                self._monitor.kill(KillReason.PROCESSES)
                raise self._ended()
            progress = frame.get("progress")
            if isinstance(progress, dict):
                clock.enter(progress.get("phase"), progress.get("message"))
            elif frame.get("ok") is True:
                return frame
            elif frame.get("ok") is False:
                raise RunnerFailureError(_report(frame.get("error")))
            else:
                raise RunnerForgedError("a frame is neither progress nor a reply")

    def _send(self, data: bytes, clock: PhaseClock) -> None:
        rest = memoryview(data)
        while rest:
            left_s = clock.left_s()
            if left_s <= 0:
                self._time_out()
            _, ready, _ = select.select([], [self._launch.command_fd], [], min(left_s, 0.5))
            try:
                rest = rest[os.write(self._launch.command_fd, rest) :] if ready else rest
            except BrokenPipeError:
                raise self._ended() from None

    def _receive(self, clock: PhaseClock) -> JsonObject:
        try:
            header = self._exactly(HEADER_BYTES, clock)
            return decode_payload(self._exactly(payload_length(header), clock))
        except FrameError as error:
            raise RunnerForgedError(str(error)) from error

    def _exactly(self, size: int, clock: PhaseClock) -> bytes:
        while len(self._inbox) < size:
            left_s = clock.left_s()
            if left_s <= 0:
                self._time_out()
            if self._readable(min(left_s, self._poll_s)) and not self._take():
                raise self._ended()
            if not self._inbox and self._monitor.end(0.0) is not None and not self._readable(0.0):
                raise self._ended()
            if len(self._inbox) < size:
                self._meanwhile(clock)
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        return data

    def _meanwhile(self, clock: PhaseClock) -> None:
        """What is done now and then while a reply is awaited: nothing on this device."""

    def _readable(self, timeout_s: float) -> bool:
        return bool(select.select([self._launch.reply_fd], [], [], timeout_s)[0])

    def _take(self) -> bool:
        chunk = os.read(self._launch.reply_fd, 1 << 20)
        self._inbox += chunk
        return bool(chunk)

    def _time_out(self) -> None:
        # A swarm of processes may leave the monitor no time to find it.
        self._monitor.kill(KillReason.PROCESSES if self._monitor.swarms else KillReason.TIMEOUT)
        end = self._monitor.end(_GRACE_S)
        if end is not None and end.killed is not KillReason.TIMEOUT:
            raise self._ended()
        raise RunnerTimeoutError

    def _ended(self) -> RunnerEndedError | RunnerKilledError:
        end = self._monitor.end(_GRACE_S)
        if end is None:
            # It closed its reply pipe yet lives on: no runner of ours does.
            self._monitor.kill(KillReason.CLOSED)
            raise RunnerForgedError("the reply pipe was closed")
        if end.killed is None and end.signal == signal.SIGKILL:
            return RunnerKilledError(f"the host killed the {self.role.value} runner; last output: {self.log[-300:]}")
        return RunnerEndedError(end, self.log)


def _read_plain_file(path: Path, most_bytes: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise RunnerForgedError("a file of the shared folder is no plain file")
        with open(fd, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(fd)


def _report(error: object) -> RunnerErrorReport:
    if not isinstance(error, dict) or not isinstance(error.get("kind"), str):
        raise RunnerForgedError("an error without a kind")

    def text(name: str, limit: int) -> str:
        value = error.get(name)
        return value[-limit:] if isinstance(value, str) else ""

    line = error.get("line")
    return RunnerErrorReport(
        kind=error["kind"],
        exception_type=text("exception_type", 200),
        message=text("message", 600),
        detail=text("detail", 4000),
        line=line if isinstance(line, int) and 0 <= line < 2**31 else 0,
        excerpt=text("excerpt", 4000),
        kernel_name=text("kernel_name", 200),
    )
