"""What a search would use and cost, before anything is paid for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from adaexplore.runtime.errors import FailedPreconditionError
from adaexplore_controller.domain import (
    Evaluation,
    GenerationEstimate,
    Kernel,
    SearchEstimate,
    SearchSpec,
    TaskFacts,
    Usage,
    Verdict,
)
from adaexplore_controller.engine.context import Peers
from adaexplore_controller.engine.treasury import Treasury, worst_of
from adaexplore_controller.policies import AdaExploreSettings
from adaexplore_controller.ports import GenerationRequest, ShownKernel
from adaexplore_controller.tree import Move


@dataclass(frozen=True, slots=True)
class Estimator:
    """Asks the generator what generations would use.

    Args:
        peers: The other services.
        treasury: Knows what limits searches.

    """

    peers: Peers
    treasury: Treasury

    async def refuse_unpriced(self, spec: SearchSpec) -> None:
        """Refuse a search whose money is limited and whose model has no known price.

        Raises:
            FailedPreconditionError: That is so (PRICE_UNKNOWN).
            ServiceError: The generator cannot be asked.

        """
        if self.treasury.caps(spec.max_cost_micro_usd).any:
            unknown = TaskFacts(b"", valid=True, task_digest="")
            for member in _members(spec):
                worst_of(await self.peers.generator.estimate(_request(spec, unknown, Move.STRUCTURAL, member)))

    async def estimate(self, spec: SearchSpec) -> SearchEstimate:
        """Return what a search would use.

        Raises:
            FailedPreconditionError: The task cannot judge candidates (TASK_INVALID).
            ServiceError: Evaluator or generator cannot be asked.

        """
        facts = await self.peers.evaluator.describe(spec)
        if not facts.valid:
            raise FailedPreconditionError(f"the task cannot judge candidates: {facts.message}", reason="TASK_INVALID")
        found = {move: await self._dearest(spec, facts, move) for move in Move}
        share = (
            AdaExploreSettings().structural_probability
            if spec.policy.structural_probability is None
            else spec.policy.structural_probability
        )
        dearest = max(found.values(), key=_dearness).worst_case
        steps = spec.max_steps
        expected = _sum((steps * share, found[Move.STRUCTURAL].expected), (steps * (1 - share), found[Move.LOCAL].expected))
        return SearchEstimate(found, expected, _sum((steps, dearest)), _affordable(spec, expected, dearest))

    async def _dearest(self, spec: SearchSpec, facts: TaskFacts, move: Move) -> GenerationEstimate:
        each = [await self.peers.generator.estimate(_request(spec, facts, move, member)) for member in _members(spec)]
        return max(each, key=_dearness)


def _members(spec: SearchSpec) -> Sequence[int | None]:
    return range(len(spec.ensemble.weights)) if spec.ensemble else [None]


def _dearness(estimate: GenerationEstimate) -> tuple[float, int]:
    cost = estimate.worst_case.cost_micro_usd
    return (math.inf if cost is None else cost, estimate.worst_case.output_tokens)


def _request(spec: SearchSpec, facts: TaskFacts, move: Move, member: int | None) -> GenerationRequest:
    # A kernel that is right is reviewed before it is edited, which costs a call more.
    shown = (ShownKernel(Kernel(spec.task_source), Evaluation(b"", Verdict.PASSED), ""),) if move is Move.LOCAL else ()
    return GenerationRequest("", spec, facts, move, seed=0, context=shown, member=member)


def _sum(*parts: tuple[float, Usage]) -> Usage:
    """Return so many times each usage together; its cost is unknown as soon as one is."""
    names = [item.name for item in fields(Usage) if item.name != "cost_micro_usd"]
    values = {name: round(sum(times * getattr(usage, name) for times, usage in parts)) for name in names}
    costs = [times * usage.cost_micro_usd for times, usage in parts if usage.cost_micro_usd is not None]
    return Usage(**values, cost_micro_usd=round(sum(costs)) if len(costs) == len(parts) else None)


def _affordable(spec: SearchSpec, expected: Usage, dearest: Usage) -> int | None:
    """Return the steps until what is left may not cover another generation."""
    if spec.max_cost_micro_usd is None or not expected.cost_micro_usd or dearest.cost_micro_usd is None:
        return None
    left = spec.max_cost_micro_usd - dearest.cost_micro_usd
    return min(spec.max_steps, left * spec.max_steps // expected.cost_micro_usd + 1) if left >= 0 else 0
