"""Who gets a worker when: a bounded fair queue, a cache of results, and callers that share work."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from adaexplore.runtime.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from adaexplore.runtime.sources import kernel_digest
from adaexplore_evaluator.devices.cpu.datasheet import known_targets
from adaexplore_evaluator.domain import CompileJob, DescribeJob, EvaluateJob, JsonObject
from adaexplore_evaluator.profiles import with_work

_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")
_ARTIFACT_CHUNK_BYTES = 512 * 1024
# A verdict that a busy machine may have caused must not stick.
_FLEETING_CAUSES = frozenset({"CAUSE_TIMEOUT", "CAUSE_OUT_OF_MEMORY"})


@dataclass(frozen=True)
class Stage:
    """A stage that an evaluation has reached."""

    phase: str
    message: str


class Workers(Protocol):
    """What admission needs of the pool of referees."""

    @property
    def size(self) -> int:
        """Jobs that are done at one time."""
        ...

    async def do(self, job: JsonObject, task: str, progress: Callable[[str, str], None]) -> JsonObject:
        """Do one job."""
        ...


class Recent(Generic[_KeyT, _ValueT]):
    """The most recently used entries, up to a total weight."""

    def __init__(self, most: int, weight: Callable[[_ValueT], int] = lambda _value: 1) -> None:
        self._most = most
        self._weight = weight
        self._entries: OrderedDict[_KeyT, _ValueT] = OrderedDict()
        self._total = 0

    def get(self, key: _KeyT) -> _ValueT | None:
        """The entry, now the newest; None if there is none."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: _KeyT, value: _ValueT) -> None:
        """Keep an entry and drop the oldest ones that are too much."""
        previous = self._entries.pop(key, None)
        self._total += self._weight(value) - (self._weight(previous) if previous is not None else 0)
        self._entries[key] = value
        while self._total > self._most:
            _, dropped = self._entries.popitem(last=False)
            self._total -= self._weight(dropped)


@dataclass
class _Work:
    """One evaluation with everyone who waits for it."""

    identity: tuple[str, ...]
    task: asyncio.Task[JsonObject] | None = None
    listeners: list[asyncio.Queue[Stage | None]] = field(default_factory=list)
    last: Stage | None = None

    def tell(self, stage: Stage | None) -> None:
        self.last = stage or self.last
        for listener in self.listeners:
            listener.put_nowait(stage)


class Admission:
    """The evaluator without its network.

    Args:
        workers: Referees.
        most_waiting: Jobs that may wait; one more is refused.
        cached_results: Results kept.
        artifact_bytes: Size of artefacts kept.

    """

    def __init__(self, workers: Workers, most_waiting: int, cached_results: int, artifact_bytes: int) -> None:
        self._workers = workers
        self._most_waiting = most_waiting
        self._results: Recent[tuple[str, ...], JsonObject] = Recent(cached_results)
        self._answered: Recent[str, tuple[tuple[str, ...], JsonObject]] = Recent(cached_results)
        self._artifacts: Recent[str, bytes] = Recent(artifact_bytes, len)
        self._in_flight: dict[str, _Work] = {}
        self._admitted = 0

    async def evaluate(self, job: EvaluateJob) -> AsyncIterator[Stage | JsonObject]:
        """Stages, then the JSON of one Evaluation; the work ends when its last caller is gone.

        Raises:
            InvalidArgumentError: The request id names other work (REQUEST_INVALID).
            ResourceExhaustedError: The queue is full (QUEUE_FULL).
            UnavailableError: As the pool says.

        """
        known = self._known(job)
        if known is not None:
            yield known
            return
        work = self._join(job)
        listener: asyncio.Queue[Stage | None] = asyncio.Queue()
        if work.last is not None:
            listener.put_nowait(work.last)
        work.listeners.append(listener)
        assert work.task is not None  # noqa: S101 - `_join` started it
        if work.task.done():
            listener.put_nowait(None)
        try:
            while (stage := await listener.get()) is not None:
                yield stage
            yield await asyncio.shield(work.task)
        finally:
            work.listeners.remove(listener)
            if not work.listeners and not work.task.done():
                # Forgotten at once: who comes back with this request id while the work is ending gets work of its own.
                self._forget(job, work)
                work.task.cancel()

    async def describe(self, job: DescribeJob) -> JsonObject:
        """JSON of a DescribeTaskResponse; raises as `evaluate` does."""
        self._admit()
        try:
            return await self._workers.do(job.to_json(), job.task.digest, lambda _phase, _message: None)
        finally:
            self._leave()

    async def compile(self, job: CompileJob) -> JsonObject:
        """JSON of a CompileKernelResponse, its artefacts kept for `artifact`; raises as `evaluate` does."""
        self._admit()
        try:
            found = dict(await self._workers.do(job.to_json(), "", lambda _phase, _message: None))
        finally:
            self._leave()
        contents = found.pop("contents", {})
        for digest, data in contents.items() if isinstance(contents, dict) else ():
            self._artifacts.put(digest, base64.b64decode(data))
        return found

    def artifact(self, digest: str) -> list[bytes]:
        """The chunks of an artefact; NotFoundError (ARTIFACT_NOT_FOUND) if it is not kept."""
        data = self._artifacts.get(digest)
        if data is None:
            raise NotFoundError(
                f"no artefact {digest[:80]} (any more); compile the kernel again", reason="ARTIFACT_NOT_FOUND", resource=digest[:80]
            )
        return [data[start : start + _ARTIFACT_CHUNK_BYTES] for start in range(0, max(len(data), 1), _ARTIFACT_CHUNK_BYTES)]

    def _known(self, job: EvaluateJob) -> JsonObject | None:
        answered = self._answered.get(job.request_id) if job.request_id else None
        if answered is not None:
            identity, result = answered
            _demand_same(identity, job)
            return result
        cached = self._results.get(job.key) if job.use_cache else None
        return None if cached is None else {**cached, "cached": True}

    def _join(self, job: EvaluateJob) -> _Work:
        running = self._in_flight.get(job.request_id) if job.request_id else None
        if running is not None:
            _demand_same(running.identity, job)
            return running
        ahead = self._admit()
        work = _Work(_identity(job))
        if job.request_id:
            self._in_flight[job.request_id] = work
        work.tell(Stage("QUEUED", f"{ahead} ahead"))
        work.task = asyncio.create_task(self._work(job, work))
        # A callback, since a task that is cancelled before its first step runs no `finally`.
        work.task.add_done_callback(lambda _task: self._leave())
        return work

    def _admit(self) -> int:
        """Count a job in, here and not where it starts, so that a burst is counted too; how many wait before it."""
        waiting = max(0, self._admitted - self._workers.size)
        if self._admitted >= self._workers.size + self._most_waiting:
            raise ResourceExhaustedError(
                f"every worker is busy and {waiting} jobs wait; come back later", reason="QUEUE_FULL", retry_after_s=5.0
            )
        self._admitted += 1
        return waiting

    def _leave(self) -> None:
        self._admitted -= 1

    async def _work(self, job: EvaluateJob, work: _Work) -> JsonObject:
        try:
            found = await self._workers.do(job.to_json(), job.task.digest, lambda phase, message: work.tell(Stage(phase, message)))
            if job.profile and found.get("verdict") == "VERDICT_PASSED":
                found = await self._with_work(job, found, work)
            result: JsonObject = {**found, "kernel_digest": kernel_digest(job.kernel)}
            if _lasting(result):
                self._results.put(job.key, result)
            if job.request_id:
                self._answered.put(job.request_id, (work.identity, result))
            return result
        finally:
            self._forget(job, work)
            work.tell(None)

    async def _with_work(self, job: EvaluateJob, found: JsonObject, work: _Work) -> JsonObject:
        """A measured Evaluation with the bytes and operations of its kernels, which the cpu device counts."""
        if job.place.target not in known_targets():
            return with_work(found, {"cause": f"there is no datasheet of {job.place.target}"})
        work.tell(Stage("COMPILE", "counting the work of its kernels"))
        return with_work(found, await self._workers.do(job.to_counting_json(), job.task.digest, lambda _phase, _message: None))

    def _forget(self, job: EvaluateJob, work: _Work) -> None:
        if self._in_flight.get(job.request_id) is work:
            del self._in_flight[job.request_id]


def _identity(job: EvaluateJob) -> tuple[str, ...]:
    return (*job.key, str(job.use_cache))


def _demand_same(identity: tuple[str, ...], job: EvaluateJob) -> None:
    if identity != _identity(job):
        raise InvalidArgumentError("request_id names other work; use a fresh one for each request", reason="REQUEST_INVALID")


def _lasting(result: JsonObject) -> bool:
    timing = result.get("timing")
    known = not isinstance(timing, dict) or timing.get("status") != "TIMING_STATUS_INCONCLUSIVE"
    return known and result.get("verdict") != "VERDICT_INCONCLUSIVE" and result.get("cause") not in _FLEETING_CAUSES
