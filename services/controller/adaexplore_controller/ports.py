"""The other services as the controller sees them: plain Protocols, so that the loop runs without a network in tests.

Every method raises `adaexplore.runtime.errors.ServiceError` when the service, not the kernel, has failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from adaexplore_controller.domain import (
    Candidate,
    Diagnosis,
    Evaluation,
    GenerationEstimate,
    Kernel,
    Proof,
    SearchSpec,
    Skill,
    TaskFacts,
    Usage,
    Violation,
)
from adaexplore_controller.tree import Move

# Told what a peer is doing, in a few words.
Listener = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ShownKernel:
    """A kernel that the generator is shown, with what is known of it; `recipe` is what its provider needs to continue from it."""

    kernel: Kernel
    evaluation: Evaluation | None
    recipe: str


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """All that a generation depends on; the same `request_id` is answered from the generator's store.

    `member` is the index of the model in the search's ensemble, None without one.
    """

    request_id: str
    spec: SearchSpec
    facts: TaskFacts
    move: Move
    seed: int
    context: tuple[ShownKernel, ...] = ()
    pool: tuple[ShownKernel, ...] = ()
    skills: tuple[Skill, ...] = ()
    known_digests: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    max_cost_micro_usd: int | None = None
    member: int | None = None


@dataclass(frozen=True, slots=True)
class Compilation:
    """What compiling a stand-alone kernel showed; `cause` and `diagnosis` are empty if it compiled."""

    compiled: bool
    cause: str
    triton_version: str
    target: str
    diagnosis: Diagnosis = field(default_factory=Diagnosis)


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the memory made of a failure; `skill` is None if it teaches nothing."""

    skill: Skill | None
    created: bool = False
    proof_wanted: bool = False


class GeneratorPeer(Protocol):
    """Writes candidates."""

    async def generate(self, request: GenerationRequest, listener: Listener) -> Candidate:
        """Return one candidate; the listener hears the stages."""
        ...

    async def estimate(self, request: GenerationRequest) -> GenerationEstimate:
        """Return what a generation can use; no model is asked."""
        ...

    async def used(self, request_id: str) -> Usage:
        """Return what a request has used so far, calls whose usage never arrived at their worst case."""
        ...


class EvaluatorPeer(Protocol):
    """Judges candidates."""

    async def describe(self, spec: SearchSpec) -> TaskFacts:
        """Return what there is to know about the task of a search."""
        ...

    async def evaluate(self, request_id: str, spec: SearchSpec, kernel: Kernel, listener: Listener) -> Evaluation:
        """Return the judgement of one candidate; the listener hears the phases."""
        ...

    async def compile_reproducer(self, skill: Skill, target: str) -> Compilation:
        """Compile the smallest kernel that shows a rule's failure."""
        ...

    async def compile_repair(self, skill: Skill, index: int, target: str) -> Compilation:
        """Compile one of the rule's repairs."""
        ...


class MemoryPeer(Protocol):
    """Turns failures into rules and selects what a generation should know."""

    async def select(self, spec: SearchSpec, facts: TaskFacts, move: Move) -> tuple[Skill, ...]:
        """Return the skills to show a generation, the most relevant first."""
        ...

    async def check(self, spec: SearchSpec, facts: TaskFacts, kernel: Kernel) -> tuple[Violation, ...]:
        """Return the places where a source breaks an active rule."""
        ...

    async def record_failure(self, request_id: str, facts: TaskFacts, kernel: Kernel, evaluation: Evaluation) -> Lesson:
        """Record a failed evaluation; one that the memory does not take for a lesson teaches nothing."""
        ...

    async def record_outcome(
        self, request_id: str, shown: tuple[str, ...], respected: tuple[str, ...], evaluation: Evaluation | None
    ) -> None:
        """Record what came of a generation that was shown skills."""
        ...

    async def get(self, name: str) -> Skill:
        """Return one skill as it is now."""
        ...

    async def store_proof(self, skill: Skill, proof: Proof) -> Skill:
        """Attach a proof, which moves the skill's state; AbortedError if the skill changed since it was read."""
        ...
