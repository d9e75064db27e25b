"""The provider without a model: free, and the same request always gets the same answer."""

from __future__ import annotations

import asyncio
import hashlib

from adaexplore.runtime.errors import FailedPreconditionError
from adaexplore.runtime.sources import kernel_digest
from adaexplore_generator import templates
from adaexplore_generator.domain import (
    Candidate,
    DistilledRule,
    DistillRequest,
    GenerateRequest,
    Judgement,
    JudgeRequest,
    ModelInfo,
    Move,
    Progress,
    SynthesizedTask,
    SynthesizeRequest,
    Task,
    Usage,
    UsageEstimate,
)
from adaexplore_generator.errors import model_required
from adaexplore_generator.providers import ProgressSink
from adaexplore_generator.synthesis import compose


class TemplatesProvider:
    """Builds kernels from the task's graph; see `Provider`. It costs nothing, so any limit on cost is kept."""

    name = "templates"

    async def generate(self, request: GenerateRequest, report: ProgressSink) -> Candidate:
        """Draw one candidate.

        Raises:
            FailedPreconditionError: The task has no graph (GRAPH_REQUIRED).

        """
        if request.description.graph is None:
            reason = request.description.graph_absent_reason or "the description holds none"
            raise FailedPreconditionError(
                f"templates needs an operator graph and this task has none: {reason}; name a model with --generator openai",
                reason="GRAPH_REQUIRED",
            )
        report(Progress("proposing"))
        # Drawing takes tens of milliseconds of pure Python: not on the event loop, which other calls share.
        proposal = await asyncio.to_thread(templates.propose, _to_templates(request))
        return Candidate(
            outcome=proposal.outcome,
            provider=self.name,
            source=proposal.source,
            digest=kernel_digest(proposal.source) if proposal.source else "",
            recipe=proposal.recipe,
            summary=proposal.summary,
            respected_skills=proposal.respected_skills,
            usage=Usage(),
            message=proposal.message,
        )

    def estimate(self, request: GenerateRequest) -> UsageEstimate:
        """Say that nothing is used."""
        return UsageEstimate(self.name, self.name)

    async def distill(self, request: DistillRequest) -> DistilledRule:
        """Refuse: rules are worded by a model."""
        raise model_required("DistillSkill")

    async def judge(self, request: JudgeRequest) -> Judgement:
        """Refuse: rules are compared by a model."""
        raise model_required("JudgeDuplicate")

    async def synthesize(self, request: SynthesizeRequest) -> SynthesizedTask:
        """Compose a task; the seed tasks are not looked at, and another `request_id` gives another task.

        Raises:
            InvalidArgumentError: An operator is not known, or those named allow no task (REQUEST_INVALID).

        """
        seed = int.from_bytes(hashlib.sha256(request.request_id.encode()).digest()[:8])
        made = await asyncio.to_thread(compose, seed, request.operators)
        return SynthesizedTask(Task(f"synthetic_{made.digest[:12]}", made.source, "module"), Usage())

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return the one entry that stands for this provider."""
        return (ModelInfo(self.name, self.name, free=True),)

    async def close(self) -> None:
        """Do nothing; there is nothing to release."""


def _to_templates(request: GenerateRequest) -> templates.TemplateRequest:
    return templates.TemplateRequest(
        task_source=request.task.source,
        task_name=request.task.name,
        description=request.description,
        move=request.move,
        precision=request.task.precision,
        track=request.task.track,
        parents=request.context if request.move is Move.LOCAL else request.pool,
        skills=request.skills,
        known_digests=frozenset(request.known_digests),
        violations=request.violations,
        seed=request.sampling.seed,
    )
