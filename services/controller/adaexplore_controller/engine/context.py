"""What the phases of a step share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from adaexplore_controller.domain import SearchSpec, StepState, TaskFacts
from adaexplore_controller.engine.journal import Journal
from adaexplore_controller.engine.patience import Patient
from adaexplore_controller.engine.treasury import Payment
from adaexplore_controller.ensemble import Contributions
from adaexplore_controller.events import StepProgress
from adaexplore_controller.policies import PaperReward, Policy
from adaexplore_controller.ports import EvaluatorPeer, GeneratorPeer, Listener, MemoryPeer
from adaexplore_controller.store import Change, History
from adaexplore_controller.tree import Tree

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Peers:
    """The services that a search works with."""

    generator: GeneratorPeer
    evaluator: EvaluatorPeer
    memory: MemoryPeer


@dataclass(slots=True)
class SearchContext:
    """A running search: where it stands and whom it works with.

    `digests` are those of all recorded kernels, the oldest first; with the tree they are all that is kept in memory of the nodes. `claimed`
    are those of steps in flight.
    """

    journal: Journal
    history: History
    peers: Peers
    patient: Patient
    policy: Policy
    facts: TaskFacts
    tree: Tree
    now: Callable[[], datetime]
    payment: Payment
    contributions: Contributions
    digests: list[str] = field(default_factory=list)
    claimed: dict[int, str] = field(default_factory=dict)
    reward: PaperReward = field(default_factory=PaperReward)

    @property
    def spec(self) -> SearchSpec:
        """All that defines the search."""
        return self.journal.search.spec

    @property
    def memory(self) -> MemoryPeer | None:
        """The memory, None if the search runs without it."""
        return None if self.spec.memory_off else self.peers.memory

    def claim(self, state: StepState) -> bool:
        """Keep the kernel that a step has for that step; False if another step came up with the same one while this one was in flight.

        Where one step is made at a time the generator knows all others' kernels.
        """
        kernel = state.candidate.kernel if state.candidate else None
        if kernel is None or not kernel.digest or self.spec.max_in_flight == 1:
            return True
        others = {digest for step, digest in self.claimed.items() if step != state.step}
        if kernel.digest in others or kernel.digest in self.digests:
            return False
        self.claimed[state.step] = kernel.digest
        return True

    def request_id(self, step: int, purpose: str) -> str:
        """Return the name of a request, the same whenever the step is repeated."""
        return f"{self.journal.search.name}/steps/{step}/{purpose}"

    def listener(self, step: int, stage: str) -> Listener:
        """Return a listener that writes what it hears as events, each message once in a row."""
        last = ""

        async def hear(message: str) -> None:
            """Write a message unless it is the last one again."""
            nonlocal last
            if message != last:
                last = message
                await self.journal.write(Change(events=(StepProgress(step, stage, message),)))

        return hear

    async def ask(self, service: str, step: int, stage: str, operation: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Return a peer's answer, waiting while it is out of reach; PeerFailedError if it refuses or stays away."""
        return await self.patient.call(service, operation, self.listener(step, stage))
