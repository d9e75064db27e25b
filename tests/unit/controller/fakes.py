"""Deterministic peers that remember what they were asked, and a controller that can be killed at any instant."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from adaexplore_controller.domain import (
    Candidate,
    Diagnosis,
    Evaluation,
    GenerationEstimate,
    Kernel,
    Node,
    Outcome,
    Proof,
    Search,
    SearchSpec,
    Skill,
    TaskFacts,
    Usage,
    Verdict,
    Violation,
)
from adaexplore_controller.engine.context import Peers
from adaexplore_controller.engine.estimator import Estimator
from adaexplore_controller.engine.patience import Patience, Patient
from adaexplore_controller.engine.run import SearchRunner
from adaexplore_controller.engine.treasury import Treasury
from adaexplore_controller.ports import Compilation, GenerationRequest, Lesson, Listener
from adaexplore_controller.store import Caps, Change, Database, Grant, History, Lease, LeaseHolder, Ledger, SearchStore
from adaexplore_controller.tree import Move
from sqlalchemy import event

from adaexplore.runtime.errors import AbortedError, DeadlineError, ServiceError
from adaexplore.runtime.sql import sqlite_engine

START = datetime(2026, 1, 1, tzinfo=UTC)
FORBIDDEN = "tl.forbidden"
FACTS = TaskFacts(b"facts", True, "task", triton_version="3.7.1", target="sm_90")
RULE = "You cannot use tl.forbidden."
WORST_CALL = 60
MISSING = Diagnosis("AttributeError", "module 'triton.language' has no attribute 'forbidden'")


class Killed(BaseException):
    """The controller's process is gone."""


@dataclass
class Fuse:
    """Counts the instants at which a controller can die, and kills it at one of them."""

    kill_at: int | None = None
    instants: int = 0

    def instant(self) -> None:
        self.instants += 1
        if self.instants == self.kill_at:
            raise Killed


def digest_of(*parts: object) -> str:
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).hexdigest()


def kernel(text: str) -> Candidate:
    """Return a candidate that one paid call wrote."""
    return Candidate(Outcome.KERNEL, Kernel(text, digest_of(text)), usage=Usage(1, 0, 1, 0, 1, 1))


@dataclass
class FakeGenerator:
    """Writes a kernel that depends on nothing but the request; replies are kept by request id, as the real one does."""

    fuse: Fuse = field(default_factory=Fuse)
    script: dict[str, list[Candidate | ServiceError]] = field(default_factory=dict)
    replies: dict[str, Candidate] = field(default_factory=dict)
    requests: list[GenerationRequest] = field(default_factory=list)
    paid: Counter[str] = field(default_factory=Counter)
    exhausted: frozenset[Move] = frozenset()
    worst: int | None = 100
    broken: Counter[str] = field(default_factory=Counter)

    async def estimate(self, request: GenerationRequest) -> GenerationEstimate:
        self.fuse.instant()
        most = Usage(1000, output_tokens=500, calls=2, cost_micro_usd=self.worst)
        usual = Usage(100, output_tokens=50, calls=1, cost_micro_usd=None if self.worst is None else self.worst // 10)
        return GenerationEstimate(b"", most, usual)

    async def used(self, request_id: str) -> Usage:
        self.fuse.instant()
        known = self.replies.get(request_id)
        total = known.usage if known else Usage(cost_micro_usd=0)
        for _ in range(self.broken[request_id]):
            total = total.plus(Usage(calls=1, cost_micro_usd=WORST_CALL, unconfirmed_calls=1, unconfirmed_cost_micro_usd=WORST_CALL))
        return total

    async def generate(self, request: GenerationRequest, listener: Listener) -> Candidate:
        self.fuse.instant()
        self.requests.append(request)
        tail = "/".join(request.request_id.split("/")[2:])
        planned = self.script.get(tail, [])
        if planned:
            step = planned.pop(0)
            if isinstance(step, ServiceError):
                if isinstance(step, (AbortedError, DeadlineError)):
                    self.broken[request.request_id] += 1
                raise step
            self.replies[request.request_id] = step
            self.paid[tail] += 1
        await listener("proposing")
        if request.request_id not in self.replies:
            self.paid[tail] += 1
            self.replies[request.request_id] = self._write(request)
        self.fuse.instant()
        return self.replies[request.request_id]

    def _write(self, request: GenerationRequest) -> Candidate:
        if request.move in self.exhausted:
            return Candidate(Outcome.EXHAUSTED, message="nothing left")
        shown = [kernel.kernel.source for kernel in (*request.context, *request.pool)]
        code = digest_of(request.move, request.seed, *shown, *(v.rule for v in request.violations))
        luck = int(code[:8], 16) % 16
        if luck == 0:
            return Candidate(Outcome.NO_CODE, usage=Usage(10, 0, 1, 0, 1, 7), message="no code")
        if luck == 1 and request.known_digests:
            return Candidate(Outcome.DUPLICATE, Kernel("# again"), usage=Usage(10, 0, 1, 0, 1, 7))
        knows_rule = any(skill.rule == RULE for skill in request.skills) or request.violations
        source = f"# {code}" if luck > 6 or (knows_rule and luck > 3) else f"# {FORBIDDEN} {code}"
        respected = ("skills/1",) if knows_rule and 3 < luck <= 6 else ()
        return Candidate(Outcome.KERNEL, Kernel(source, digest_of(source)), code[:6], "why", respected, Usage(10, 0, 5, 0, 1, 7))


@dataclass
class FakeEvaluator:
    """Judges a source by its digest alone."""

    fuse: Fuse = field(default_factory=Fuse)
    facts: TaskFacts = FACTS
    script: dict[str, list[Evaluation | ServiceError]] = field(default_factory=dict)
    evaluated: Counter[str] = field(default_factory=Counter)
    compiled: list[str] = field(default_factory=list)
    described: int = 0
    reproduced: Compilation | None = None
    hold: asyncio.Event | None = None
    busy: asyncio.Event = field(default_factory=asyncio.Event)

    async def describe(self, spec: SearchSpec) -> TaskFacts:
        self.fuse.instant()
        self.described += 1
        return self.facts

    async def evaluate(self, request_id: str, spec: SearchSpec, kernel: Kernel, listener: Listener) -> Evaluation:
        self.fuse.instant()
        tail = "/".join(request_id.split("/")[2:])
        self.evaluated[tail] += 1
        planned = self.script.get(tail, [])
        if planned:
            step = planned.pop(0)
            if isinstance(step, ServiceError):
                raise step
            return step
        await listener("compiling")
        self.busy.set()
        if self.hold:
            await self.hold.wait()
        self.fuse.instant()
        return self.judge(kernel)

    def judge(self, kernel: Kernel) -> Evaluation:
        digest = digest_of(kernel.source)
        if FORBIDDEN in kernel.source:
            return Evaluation(b"e", Verdict.FAILED, "COMPILE", "COMPILE", "tl.forbidden is no attribute", digest, diagnosis=MISSING)
        luck = int(digest[:8], 16)
        if luck % 5 == 0:
            return Evaluation(b"e", Verdict.FAILED, "NUMERIC", "CHECK", "values differ", digest)
        speedup = 0.5 + luck % 300 / 100
        return Evaluation(b"e", Verdict.PASSED, "", "TIMING", "", digest, 100 / speedup, speedup)

    async def compile_reproducer(self, skill: Skill, target: str) -> Compilation:
        self.fuse.instant()
        self.compiled.append("reproducer")
        return self.reproduced or Compilation(False, "COMPILE", "3.7.1", target, MISSING)

    async def compile_repair(self, skill: Skill, index: int, target: str) -> Compilation:
        self.fuse.instant()
        self.compiled.append(f"repair {index}")
        return Compilation(index == 1, "" if index == 1 else "COMPILE", "3.7.1", target)


@dataclass
class FakeMemory:
    """Learns one rule from the first compile failure; it is active once it is proven."""

    fuse: Fuse = field(default_factory=Fuse)
    skill: Skill | None = None
    proof: Proof | None = None
    failures: dict[str, Lesson] = field(default_factory=dict)
    outcomes: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    conflicts: int = 0

    async def select(self, spec: SearchSpec, facts: TaskFacts, move: Move) -> tuple[Skill, ...]:
        self.fuse.instant()
        return (self.skill,) if self.skill and self.skill.active else ()

    async def check(self, spec: SearchSpec, facts: TaskFacts, kernel: Kernel) -> tuple[Violation, ...]:
        self.fuse.instant()
        active = self.skill and self.skill.active
        return (Violation("skills/1", RULE, 1),) if active and FORBIDDEN in kernel.source else ()

    async def record_failure(self, request_id: str, facts: TaskFacts, kernel: Kernel, evaluation: Evaluation) -> Lesson:
        self.fuse.instant()
        if request_id not in self.failures:
            created = evaluation.cause == "COMPILE" and self.skill is None
            if created:
                self.skill = Skill(b"s", "skills/1", RULE, has_reproducer=True, repairs=3)
            taught = self.skill if evaluation.cause == "COMPILE" else None
            self.failures[request_id] = Lesson(taught, created, proof_wanted=taught is not None and self.proof is None)
        self.fuse.instant()
        return self.failures[request_id]

    async def record_outcome(
        self, request_id: str, shown: tuple[str, ...], respected: tuple[str, ...], evaluation: Evaluation | None
    ) -> None:
        self.fuse.instant()
        self.outcomes[request_id] = (shown, respected)

    async def get(self, name: str) -> Skill:
        assert self.skill
        return self.skill

    async def store_proof(self, skill: Skill, proof: Proof) -> Skill:
        self.fuse.instant()
        if self.conflicts:
            self.conflicts -= 1
            raise AbortedError("changed meanwhile", reason="ETAG_MISMATCH")
        self.proof, self.skill = proof, replace(skill, active=proof.repair_index is not None)
        self.fuse.instant()
        return self.skill


class MortalStore(SearchStore):
    """A store whose process can die before and after every write."""

    fuse: Fuse = Fuse()

    async def commit(self, search_id: str, owner: str, change: Change) -> Search:
        self.fuse.instant()
        search = await super().commit(search_id, owner, change)
        self.fuse.instant()
        return search


class MortalLedger(Ledger):
    """A ledger whose process can die before and after every write."""

    fuse: Fuse = Fuse()

    async def reserve(self, search_id: str, request_id: str, amount: int, caps: Caps) -> Grant:
        self.fuse.instant()
        grant = await super().reserve(search_id, request_id, amount, caps)
        self.fuse.instant()
        return grant

    async def settle(self, search_id: str, request_id: str, spent: int, unconfirmed: int) -> None:
        self.fuse.instant()
        await super().settle(search_id, request_id, spent, unconfirmed)
        self.fuse.instant()


@dataclass
class World:
    """Peers and a database that outlive every controller."""

    path: Path
    generator: FakeGenerator = field(default_factory=FakeGenerator)
    evaluator: FakeEvaluator = field(default_factory=FakeEvaluator)
    memory: FakeMemory = field(default_factory=FakeMemory)
    fuse: Fuse = field(default_factory=Fuse)
    time: datetime = START
    monotonic_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)
    patience: Patience = field(default_factory=Patience)
    day_cap: int | None = None

    def __post_init__(self) -> None:
        engine = sqlite_engine(self.path)
        # These tests kill controllers, not machines.
        event.listen(engine.sync_engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
        self.database = Database(engine)
        self.store = MortalStore(self.database, self.now, alive=lambda holder: None)
        self.ledger = MortalLedger(self.database, self.now)
        self.history = History(self.database)
        self.set_fuse(self.fuse)

    def set_fuse(self, fuse: Fuse) -> None:
        self.fuse = self.store.fuse = self.ledger.fuse = self.generator.fuse = self.evaluator.fuse = self.memory.fuse = fuse

    def now(self) -> datetime:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        await asyncio.sleep(0)

    def lease(self, owner: str = "one") -> Lease:
        return Lease(LeaseHolder(owner), self.time.timestamp() + 10)

    def runner(self, owner: str = "one") -> SearchRunner:
        patient = Patient(self.patience, self.sleep)
        return SearchRunner(self.store, self.history, self.peers, patient, self.treasury, owner, self.now, lambda: self.monotonic_s)

    @property
    def peers(self) -> Peers:
        return Peers(self.generator, self.evaluator, self.memory)

    @property
    def treasury(self) -> Treasury:
        return Treasury(self.ledger, self.day_cap, self.sleep)

    @property
    def estimator(self) -> Estimator:
        return Estimator(self.peers, self.treasury)

    async def start(self, **spec: object) -> None:
        fields = {"payload": b"spec", "seed": 13, "max_steps": 12} | spec
        await self.store.create("s", SearchSpec(**fields), "", self.lease())  # type: ignore[arg-type]

    async def run(self, **spec: object) -> Search:
        await self.database.open()
        await self.start(**spec)
        await self.runner().run("s")
        return await self.store.get("s")

    async def take_over(self, owner: str) -> None:
        self.time += timedelta(seconds=11)
        assert await self.store.adopt("s", self.lease(owner))

    async def bodies(self) -> list[object]:
        return [event.body for event in await self.history.events("s", 0, 100_000)]


def comparable(nodes: tuple[Node, ...]) -> list[Node]:
    """Return nodes without the instant at which they were recorded."""
    return [replace(node, create_time=START) for node in nodes]
