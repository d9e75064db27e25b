"""Writes kernels, rules and tasks with a model: which prompts are asked in which order, and what becomes of the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Literal

from adaexplore.runtime.sources import kernel_digest
from adaexplore_generator.answers import read_rule, read_verdict
from adaexplore_generator.asking import Prompts, PromptWriter, Repetition
from adaexplore_generator.domain import (
    Candidate,
    DistilledRule,
    DistillRequest,
    GenerateRequest,
    Judgement,
    JudgeRequest,
    ModelInfo,
    ModelRequest,
    Move,
    Outcome,
    Progress,
    Prompt,
    Reply,
    SynthesizedTask,
    SynthesizeRequest,
    Task,
    Usage,
    UsageEstimate,
)
from adaexplore_generator.edits import Misfit
from adaexplore_generator.estimates import PlannedCall, estimate
from adaexplore_generator.extract import Extraction, extract_code, one_line, visible_text
from adaexplore_generator.paid import CostLimitError, PaidCalls, PaidSession
from adaexplore_generator.pricing import Prices
from adaexplore_generator.prompting import Budgets
from adaexplore_generator.providers import ChatEndpoint, ProgressSink
from adaexplore_generator.replies import ReplyStore
from adaexplore_generator.revision import MOST_REPAIRED, revise
from adaexplore_generator.sections import entry_points

__all__ = ["ModelWriter", "Prompts", "repetition"]

_Render = Callable[[Budgets], Prompt]
_TASK_NAMES = ("Model", "get_inputs", "get_init_inputs")
# Most tokens of the words around a section that an earlier reply fills.
_TITLES = 100


class ModelWriter:
    """A provider over a chat endpoint; see `Provider`.

    Args:
        endpoint: The model.
        store: Where paid replies are kept.
        prompts: The prompt files.
        prices: What calls cost.
        local_calls: Whether LOCAL takes a review and then edits, or both in one reply.
        log_prompts: Whether prompts and replies go into the log whole.

    """

    def __init__(
        self,
        endpoint: ChatEndpoint,
        store: ReplyStore,
        prompts: Prompts,
        prices: Prices,
        local_calls: Literal["two", "one"] = "two",
        *,
        log_prompts: bool = False,
    ) -> None:
        self._endpoint, self._local_calls = endpoint, local_calls
        self._prompts = PromptWriter(prompts)
        manner = "" if local_calls == "two" else f"local_calls={local_calls}"
        self._calls = PaidCalls(endpoint, store, prices, manner, log_prompts=log_prompts)

    @property
    def name(self) -> str:
        """Name of the endpoint's provider."""
        return self._endpoint.name

    async def generate(self, request: GenerateRequest, report: ProgressSink) -> Candidate:
        """Write one candidate.

        STRUCTURAL takes one call. LOCAL takes a review (unless all versions are wrong) and edits, or one call for both; edits that do not
        fit are asked for again once. An answer that repeats a known source is asked for again once.
        """
        async with self._calls.session(request, report) as session:
            try:
                found = await (self._propose(session, request) if request.move is Move.STRUCTURAL else self._tune(session, request))
            except CostLimitError as stop:
                found = Extraction(Outcome.COST_LIMIT, message=one_line(stop.message))
            return self._candidate(session, request, found)

    def most_calls(self, request: GenerateRequest) -> int:
        """Return how many calls a generation makes at most."""
        return len(self._planned(request))

    def estimate(self, request: GenerateRequest) -> UsageEstimate:
        """Say what a generation can use at most and what it will probably use."""
        return estimate(self._calls.tariff(request.sampling.model), request.sampling, self._planned(request))

    async def distill(self, request: DistillRequest) -> DistilledRule:
        """Word a rule from one failure; the rule is empty if it teaches nothing."""
        reply, usage = await self._ask_once(request, "distilling", lambda budgets: self._prompts.distilling(request, budgets))
        rule = read_rule(reply.text)
        return DistilledRule(rule.rule, rule.instead, usage)

    async def judge(self, request: JudgeRequest) -> Judgement:
        """Say whether a rule repeats a known one; with no known rule there is nothing to ask."""
        if not request.known_rules:
            return Judgement(None, 1.0, Usage())
        reply, usage = await self._ask_once(request, "judging", lambda budgets: self._prompts.judging(request, budgets))
        verdict = read_verdict(reply.text, len(request.known_rules))
        return Judgement(verdict.duplicate_of, verdict.confidence, usage)

    async def synthesize(self, request: SynthesizeRequest) -> SynthesizedTask:
        """Write a new task; None if the reply holds no file with the three names that a task needs."""
        reply, usage = await self._ask_once(request, "synthesizing", lambda budgets: self._prompts.synthesizing(request, budgets))
        found = extract_code(reply, ("Model",))
        usable = found.outcome is Outcome.KERNEL and all(name in found.source for name in _TASK_NAMES)
        task = Task(f"synthetic_{kernel_digest(found.source)[:12]}", found.source, "module") if usable else None
        return SynthesizedTask(task, usage)

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """List the endpoint's models with their prices."""
        models = await self._endpoint.list_models()
        return tuple(replace(item, price=self._calls.tariff(item.model).listed) for item in models)

    async def close(self) -> None:
        """Release the endpoint's connections."""
        await self._endpoint.close()

    async def _ask_once(self, request: ModelRequest, stage: str, render: _Render) -> tuple[Reply, Usage]:
        async with self._calls.session(request, _ignore) as session:
            return await session.ask(stage, render), session.usage

    async def _propose(self, session: PaidSession, request: GenerateRequest) -> Extraction:
        repeated: Repetition | None = None
        for _ in range(2):
            reply = await session.ask("proposing", partial(self._prompts.proposing, request, repeated=repeated))
            found = extract_code(reply, entry_points(request.description))
            repeated = repetition(request, found)
            if repeated is None:
                break
        return found

    async def _tune(self, session: PaidSession, request: GenerateRequest) -> Extraction:
        improvements = await self._review(session, request) if self._reviews(request) else ""
        found, repaired = await self._edit(session, request, improvements, None, may_repair=True)
        if (repeated := repetition(request, found)) is not None:
            found, _ = await self._edit(session, request, improvements, repeated, may_repair=not repaired)
        return found

    async def _edit(
        self, session: PaidSession, request: GenerateRequest, improvements: str, repeated: Repetition | None, *, may_repair: bool
    ) -> tuple[Extraction, bool]:
        """Return what the edits make of the newest version, and whether they had to be asked for again."""
        source, names = request.context[-1].source, entry_points(request.description)
        reply = await session.ask("editing", lambda budgets: self._editing(request, budgets, improvements, repeated))
        # A large kernel with many edits takes a while, and other requests must not wait for it.
        first = await asyncio.to_thread(revise, reply, source, names)
        if not first.repairable or not may_repair:
            return first.found, False
        said = visible_text(reply.text)
        mended = await session.ask("repairing", lambda budgets: self._prompts.repairing(request, budgets, first.misfits, said))
        second = await asyncio.to_thread(revise, mended, source, names, first.fitting)
        return replace(second.found, prose=first.found.prose), True

    async def _review(self, session: PaidSession, request: GenerateRequest) -> str:
        reply = await session.ask("reviewing", lambda budgets: self._prompts.reviewing(request, budgets))
        return visible_text(reply.text)

    def _editing(self, request: GenerateRequest, budgets: Budgets, improvements: str, repeated: Repetition | None) -> Prompt:
        if self._local_calls == "one":
            return self._prompts.combined(request, budgets, repeated)
        return self._prompts.editing(request, budgets, improvements, repeated)

    def _reviews(self, request: GenerateRequest) -> bool:
        """With nothing right to improve, what to change is plain: the failure."""
        passed = (item.feedback is not None and item.feedback.passed for item in request.context)
        return self._local_calls == "two" and any(passed)

    def _planned(self, request: GenerateRequest) -> list[PlannedCall]:
        """Return all calls that a generation may make, at full budgets."""
        budgets = Budgets()
        if request.move is Move.STRUCTURAL:
            prompt = self._prompts.proposing(request, budgets)
            return [PlannedCall(prompt), PlannedCall(prompt, budgets.repeated + _TITLES, usual=False)]
        reviews = self._reviews(request)
        review = [PlannedCall(self._prompts.reviewing(request, budgets))] if reviews else []
        improvements = budgets.improvements + _TITLES if reviews else 0
        edit, repair = self._editing(request, budgets, "", None), self._prompts.repairing(request, budgets, [Misfit(0, "")])
        return [
            *review,
            PlannedCall(edit, improvements),
            PlannedCall(repair, budgets.failed_edits + (1 + MOST_REPAIRED) * _TITLES, usual=False),
            PlannedCall(edit, improvements + _TITLES, usual=False),
        ]

    def _candidate(self, session: PaidSession, request: GenerateRequest, found: Extraction) -> Candidate:
        if (repeated := repetition(request, found)) is not None:
            found = replace(found, outcome=Outcome.DUPLICATE, message=f"asked twice, the model made {repeated.what}")
        return Candidate(
            outcome=found.outcome,
            provider=self.name,
            source=found.source,
            digest=_digest_of(found.source) if found.source else "",
            summary=found.prose,
            usage=session.usage,
            model=session.model,
            prompt_digest=session.prompt_digest,
            message=found.message,
        )


@lru_cache(maxsize=16)
def _digest_of(source: str) -> str:
    """Return the digest of a kernel, which one generation asks for three times, each time as long as it takes to parse it."""
    return kernel_digest(source)


def repetition(request: GenerateRequest, found: Extraction) -> Repetition | None:
    """Return what a kernel repeats, comments and layout apart; None if it is new, or no kernel."""
    if found.outcome is not Outcome.KERNEL:
        return None
    identity = _digest_of(found.source)
    window, pool = ([item.digest or kernel_digest(item.source) for item in shown] for shown in (request.context, request.pool))
    if window and identity == window[-1]:
        return Repetition("the newest version again, so it changes nothing")
    if identity in window:
        return Repetition(f"version {window.index(identity) + 1} again")
    if identity in pool:
        return Repetition(f"kernel {pool.index(identity) + 1} of those shown again")
    if identity in request.known_digests:
        # The source is shown where nothing else tells the model what it wrote.
        return Repetition("a kernel again that was judged before", "" if window else found.source)
    return None


def _ignore(_progress: Progress) -> None:
    """Take no notice of progress."""
