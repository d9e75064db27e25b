"""Referees as the server sees them: processes that take one job at a time, replaced when they die."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from adaexplore.runtime.errors import UnavailableError
from adaexplore_evaluator.domain import JsonObject
from adaexplore_evaluator.sandbox import remove_stale

Progress = Callable[[str, str], None]

_LINE_BYTES = 256 * 1024 * 1024
_START_S = 240.0
_CANCEL_S = 15.0
_PASSED_ON = ("PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR", "COVERAGE_PROCESS_START")


class RefereeLostError(Exception):
    """A referee died or answered nonsense; the message says what it wrote last."""


@dataclass(frozen=True)
class RefereeError(Exception):
    """A referee's own error: `kind` is `worker_lost`, `host_unfit`, `cancelled` or `internal`."""

    kind: str
    message: str


class Referee:
    """One referee process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._errors: deque[str] = deque(maxlen=40)
        self._settled = False
        self._drain = asyncio.create_task(self._read_errors())
        self.platform: JsonObject = {}

    @classmethod
    async def start(cls, settings: JsonObject) -> Referee:
        """Start a referee and wait until it is ready.

        Raises:
            RefereeLostError: It did not become ready.

        """
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"OMP_NUM_THREADS": "1"}
        gpu = settings.get("gpu")
        if isinstance(gpu, dict):
            environment["CUDA_VISIBLE_DEVICES"] = str(gpu["uuid"])
        arguments = json.dumps({**settings, "parent": os.getpid()})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "adaexplore_evaluator.referee", arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            env=environment,
        )
        referee = cls(process)
        try:
            async with asyncio.timeout(_START_S):
                ready = await referee._event()
            referee.platform = _object(ready, "ready")
        except BaseException as error:
            await referee.stop()
            if isinstance(error, TimeoutError):
                raise RefereeLostError(f"a referee did not start within {_START_S:g} s") from error
            raise
        return referee

    @property
    def alive(self) -> bool:
        """True until the process has ended."""
        return self._process.returncode is None

    async def do(self, job: JsonObject, progress: Progress) -> JsonObject:
        """Do one job; if this call is cancelled the job is too.

        Raises:
            RefereeLostError: The process died.
            RefereeError: It reports an error of its own.

        """
        number = next(self._numbers)
        self._send({"id": number, **job})
        try:
            return await self._result(number, progress)
        except asyncio.CancelledError:
            self._send({"cancel": number})
            with suppress(RefereeError, RefereeLostError, TimeoutError):
                async with asyncio.timeout(_CANCEL_S):
                    await self._result(number, lambda _phase, _message: None)
                    raise
            if self.alive and not self._settled:
                await self.stop()
            raise

    async def stop(self) -> None:
        """End the process and everything it started."""
        if self.alive:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(10):
                    await self._process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        await self._drain
        # Only after the transport is closed are its pipes; the loop would warn about them at exit.
        self._process._transport.close()  # type: ignore[attr-defined]

    async def _result(self, number: int, progress: Progress) -> JsonObject:
        self._settled = False
        while True:
            event = await self._event()
            if event.get("id") != number:
                raise RefereeLostError("a referee answered another job than it was given")
            if "progress" in event:
                stage = _object(event, "progress")
                progress(str(stage.get("phase")), str(stage.get("message")))
                continue
            self._settled = True
            if "error" in event:
                error = _object(event, "error")
                raise RefereeError(str(error.get("kind")), str(error.get("message")))
            return _object(event, "result")

    async def _event(self) -> JsonObject:
        assert self._process.stdout is not None  # noqa: S101 - started with a pipe
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            await self._drain
            raise RefereeLostError(
                f"a referee ended with code {self._process.returncode}: {self._errors[-1] if self._errors else 'it wrote nothing'}"
            )
        event = json.loads(line)
        return event if isinstance(event, dict) else {}

    def _send(self, message: JsonObject) -> None:
        assert self._process.stdin is not None  # noqa: S101 - started with a pipe
        with suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 - started with a pipe
        while line := await self._process.stderr.readline():
            self._errors.append(line.decode(errors="replace").strip()[:500])


@dataclass
class _Seat:
    """Place of one referee; `task` is the digest it prepared last."""

    referee: Referee | None = None
    task: str = ""
    busy: bool = False


class Pool:
    """Referees behind a fair queue; a job goes to an idle referee that knows its task, if there is one.

    Args:
        settings: Settings of each referee, as JSON.
        size: How many.
        scratch_root: Folder of the runners' private folders; None for the default.

    """

    def __init__(self, settings: JsonObject, size: int, scratch_root: Path | None) -> None:
        self._settings = settings
        self._seats = [_Seat() for _ in range(size)]
        self._waiters: deque[tuple[str, asyncio.Future[_Seat]]] = deque()
        self._scratch_root = scratch_root
        self._log = structlog.get_logger()
        self.platform: JsonObject = {}
        self.problem = ""

    @property
    def size(self) -> int:
        """Jobs that are done at one time."""
        return len(self._seats)

    @property
    def load(self) -> int:
        """Jobs at work and waiting."""
        return sum(1 for seat in self._seats if seat.busy) + len(self._waiters)

    def knows(self, task: str) -> bool:
        """True if some referee prepared this task last."""
        return any(seat.task == task for seat in self._seats)

    async def start(self) -> None:
        """Start every referee.

        Raises:
            UnavailableError: One does not start; the message says why.

        """
        remove_stale(self._scratch_root)
        try:
            async with asyncio.TaskGroup() as group:
                for seat in self._seats:
                    group.create_task(self._fill(seat))
        except* RefereeLostError as errors:
            await self.stop()
            first = errors.exceptions[0]
            raise UnavailableError(str(first), reason="HOST_UNFIT") from first

    async def stop(self) -> None:
        """End every referee with everything they started."""
        await asyncio.gather(*(seat.referee.stop() for seat in self._seats if seat.referee is not None))
        remove_stale(self._scratch_root)

    async def do(self, job: JsonObject, task: str, progress: Progress) -> JsonObject:
        """Do a job on some referee; one that is lost is replaced and the job repeated once.

        Raises:
            UnavailableError: Lost twice (WORKER_LOST), or the host lacks something (HOST_UNFIT).

        """
        async with self._seat(task) as seat:
            for attempt in range(2):
                try:
                    referee = await self._fill(seat)
                    seat.task = task
                    return await referee.do(job, progress)
                except RefereeLostError as error:
                    message = str(error)
                except RefereeError as error:
                    if error.kind == "host_unfit":
                        raise UnavailableError(error.message, reason="HOST_UNFIT", retry_after_s=30.0) from error
                    message = error.message
                    if error.kind == "worker_lost":
                        break
                self._log.warning("referee lost", attempt=attempt, problem=message)
                await self._empty(seat)
                self.problem = message if attempt else self.problem
            raise UnavailableError(f"a worker was lost twice on this request: {message}", reason="WORKER_LOST", retry_after_s=1.0)

    async def _fill(self, seat: _Seat) -> Referee:
        if seat.referee is not None and seat.referee.alive:
            return seat.referee
        await self._empty(seat)
        try:
            seat.referee = await Referee.start(self._settings)
        except RefereeLostError as error:
            self.problem = str(error)
            raise
        self.platform, self.problem = seat.referee.platform, ""
        return seat.referee

    async def _empty(self, seat: _Seat) -> None:
        referee, seat.referee, seat.task = seat.referee, None, ""
        if referee is not None:
            await referee.stop()
            remove_stale(self._scratch_root)

    @asynccontextmanager
    async def _seat(self, task: str) -> AsyncIterator[_Seat]:
        seat = await self._take(task)
        try:
            yield seat
        finally:
            self._give(seat)

    async def _take(self, task: str) -> _Seat:
        idle = [seat for seat in self._seats if not seat.busy]
        if idle:
            return _claimed(_fitting(idle, task))
        future: asyncio.Future[_Seat] = asyncio.get_running_loop().create_future()
        entry = (task, future)
        self._waiters.append(entry)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._give(future.result())
            elif entry in self._waiters:
                self._waiters.remove(entry)
            raise

    def _give(self, seat: _Seat) -> None:
        seat.busy = False
        while self._waiters:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_result(_claimed(seat))
                return


def _claimed(seat: _Seat) -> _Seat:
    seat.busy = True
    return seat


def _fitting(seats: Iterable[_Seat], task: str) -> _Seat:
    return max(seats, key=lambda seat: seat.task == task)


def _object(event: JsonObject, name: str) -> dict[str, Any]:
    value = event.get(name)
    if not isinstance(value, dict):
        raise RefereeLostError(f"a referee's event lacks {name}: {str(event)[:300]}")
    return value
