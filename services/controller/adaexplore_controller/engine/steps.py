"""One step of a search as phases, each stored before the next begins, so that any controller continues from the last one stored."""

from __future__ import annotations

from dataclasses import replace

from adaexplore_controller.domain import (
    Attempt,
    Candidate,
    Evaluation,
    Node,
    Outcome,
    Progress,
    SearchState,
    Selection,
    Skill,
    StepPhase,
    StepState,
    StopReason,
    Usage,
    Verdict,
    Violation,
)
from adaexplore_controller.engine.context import SearchContext
from adaexplore_controller.engine.fallback import next_expansion
from adaexplore_controller.engine.generation import MOST_LOST_IN_A_ROW, lost_too_often
from adaexplore_controller.engine.journal import SearchStoppedError
from adaexplore_controller.engine.learning import has_news, learn, prove
from adaexplore_controller.engine.treasury import GenerationFailedError
from adaexplore_controller.events import EventBody, NodeRecorded, SkillRespected, StepProgress, StepStarted
from adaexplore_controller.ports import GenerationRequest, ShownKernel
from adaexplore_controller.randomness import seed_for
from adaexplore_controller.store import Change
from adaexplore_controller.tree import ROOT_STEP, Move

MOST_SENT_BACK = 2
_MOST_KNOWN_DIGESTS = 10_000
_NOTHING_NEW = frozenset({Outcome.DUPLICATE, Outcome.EXHAUSTED})


class Steps:
    """Makes the steps of one search."""

    def __init__(self, search: SearchContext) -> None:
        self._search = search

    def take_up(self, state: StepState) -> None:
        """Count a step that was in flight when its controller left; it can be continued then."""
        search = self._search
        if state.step not in search.tree:
            search.tree.begin(state.step, state.selection.parent_step, state.selection.move)
            search.claim(state)

    async def begin(self, step: int) -> StepState:
        """Plan a step and store the plan: a seed kernel while there are any, else what the policy selects."""
        search, seeds = self._search, self._search.spec.seed_kernels
        if step <= len(seeds):
            selection = Selection(ROOT_STEP, Move.STRUCTURAL)
            seed = Candidate(Outcome.KERNEL, seeds[step - 1], summary="a kernel to start from", provider="seed")
            state = StepState(step, StepPhase.CHECKED, selection, attempt=0, candidate=seed)
            stage = "evaluating"
        else:
            selection = search.policy.select(search.tree, step)
            search.tree.begin(step, selection.parent_step, selection.move)  # before anything is waited for: the next step sees it
            ensemble = search.spec.ensemble
            member = search.contributions.choose(ensemble, search.spec.seed, step) if ensemble else None
            state = StepState(step, StepPhase.PLANNED, selection, skills=await self._skills(step, selection.move), member=member)
            stage = "generating"
        events = (StepStarted(step, selection.parent_step, selection.move), StepProgress(step, stage))
        await search.journal.write(Change(events=events, step=state))
        return state

    async def advance(self, state: StepState) -> StepState | None:
        """Make and store the next phase of a step; None if it was the last one.

        Raises:
            SearchStoppedError: The search ends with this step.
            PeerFailedError: A service refused or stayed out of reach; the step can be continued from `state`.

        """
        memory = self._search.memory
        if state.phase is StepPhase.PLANNED:
            return await self._generate(state)
        if state.phase is StepPhase.GENERATED:
            return await self._check(state)
        if state.phase is StepPhase.CHECKED:
            return await self._evaluate(state)
        if memory and state.phase is StepPhase.LEARNING:
            return await learn(self._search, memory, state)
        if memory and state.phase is StepPhase.PROVING:
            await prove(self._search, memory, state)
        return None

    async def _skills(self, step: int, move: Move) -> tuple[Skill, ...]:
        search, memory = self._search, self._search.memory
        if memory is None:
            return ()
        return await search.ask("memory", step, "generating", lambda: memory.select(search.spec, search.facts, move))

    async def _generate(self, state: StepState) -> StepState | None:
        search = self._search
        request = await self._request(state)
        listener = search.listener(state.step, "generating")
        try:
            candidate = await search.payment.generate(
                request, listener, lambda call: search.ask("generator", state.step, "generating", call), listener
            )
        except GenerationFailedError as failure:
            await search.journal.write(Change(step=replace(state, usage=state.usage.plus(failure.usage))))
            raise
        generated = replace(state, phase=StepPhase.GENERATED, candidate=candidate)
        if candidate.outcome is Outcome.KERNEL and not search.claim(generated):
            candidate = replace(candidate, outcome=Outcome.DUPLICATE, kernel=None, message="a step beside this one has the same kernel")
        if candidate.outcome in _NOTHING_NEW:
            return await self._look_elsewhere(state, candidate)
        if candidate.lost:
            return await self._record_lost(generated, candidate)
        if candidate.outcome is not Outcome.KERNEL:
            return await self._record(generated, None)
        rules = {skill.name: skill.rule for skill in state.skills}
        respected = [SkillRespected(name, rules.get(name, ""), state.step, by_check=False) for name in candidate.respected_skills]
        if search.memory is None:
            generated = replace(generated, phase=StepPhase.CHECKED)
        stage = "checking_source" if search.memory else "evaluating"
        await search.journal.write(Change(events=(*respected, StepProgress(state.step, stage)), step=generated))
        return generated

    async def _request(self, state: StepState) -> GenerationRequest:
        search, selection = self._search, state.selection
        return GenerationRequest(
            request_id=search.request_id(state.step, f"attempts/{state.attempt}"),
            spec=search.spec,
            facts=search.facts,
            move=selection.move,
            seed=seed_for(search.spec.seed, state.step, f"generate/{state.attempt}"),
            context=await self._shown(selection.context),
            pool=await self._shown(selection.pool),
            skills=state.skills,
            known_digests=tuple(search.digests[-_MOST_KNOWN_DIGESTS:]),
            violations=state.violations,
            member=state.member,
        )

    async def _shown(self, steps: tuple[int, ...]) -> tuple[ShownKernel, ...]:
        nodes = [await self._search.history.node(self._search.journal.search.id, step) for step in steps]
        return tuple(ShownKernel(node.candidate.kernel, node.evaluation, node.candidate.recipe) for node in nodes if node.candidate.kernel)

    async def _record_lost(self, state: StepState, candidate: Candidate) -> StepState | None:
        search = self._search
        following = await self._record(state, None)
        before = max(ROOT_STEP, state.step - MOST_LOST_IN_A_ROW)
        newest = await search.patient.call("store", lambda: search.history.nodes(search.journal.search.id, before))
        if lost_too_often(newest):
            raise SearchStoppedError(SearchState.FAILED, StopReason.ERROR, candidate.message)
        return following

    async def _look_elsewhere(self, state: StepState, candidate: Candidate) -> StepState | None:
        search, selection = self._search, state.selection
        attempts = (*state.attempts, Attempt(selection.parent_step, selection.move, candidate.outcome))
        following = next_expansion(search.policy, search.tree, state.step, attempts)
        if following is None and all(attempt.outcome is Outcome.EXHAUSTED for attempt in attempts):
            used = state.usage.plus(candidate.usage)
            search.tree.drop(state.step)
            await search.journal.update(
                lambda progress: Change(progress=replace(progress, usage=progress.usage.plus(used)), done_step=state.step)
            )
            written = len(search.tree) > len(search.spec.seed_kernels)
            raise SearchStoppedError(SearchState.SUCCEEDED, StopReason.EXHAUSTED, "" if written else candidate.message)
        if following is None:
            return await self._record(replace(state, candidate=candidate, attempts=attempts), None)
        search.tree.begin(state.step, following.parent_step, following.move)
        same_move = following.move is selection.move
        skills = state.skills if same_move else await self._skills(state.step, following.move)
        usage = state.usage.plus(candidate.usage)
        planned = replace(state, selection=following, attempt=state.attempt + 1, skills=skills, attempts=attempts, usage=usage)
        message = f"{candidate.outcome}: nothing new by a {selection.move} move from step {selection.parent_step}"
        await search.journal.write(Change(events=(StepProgress(state.step, "generating", message),), step=planned))
        return planned

    async def _check(self, state: StepState) -> StepState:
        search, memory = self._search, self._search.memory
        kernel = state.candidate.kernel if state.candidate else None
        broken: tuple[Violation, ...] = ()
        if memory and kernel and state.sent_back < MOST_SENT_BACK:
            broken = await search.ask("memory", state.step, "checking_source", lambda: memory.check(search.spec, search.facts, kernel))
        if broken:
            return await self._send_back(state, broken)
        checked = replace(state, phase=StepPhase.CHECKED)
        await search.journal.write(Change(events=(StepProgress(state.step, "evaluating"),), step=checked))
        return checked

    async def _send_back(self, state: StepState, broken: tuple[Violation, ...]) -> StepState:
        rules = {violation.skill: violation.rule for violation in broken}
        events: list[EventBody] = [SkillRespected(name, rule, state.step, by_check=True) for name, rule in rules.items()]
        events.append(StepProgress(state.step, "generating", "sent back: it breaks a rule"))
        planned = replace(
            state,
            phase=StepPhase.PLANNED,
            attempt=state.attempt + 1,
            sent_back=state.sent_back + 1,
            violations=(*state.violations, *broken),
            usage=state.usage.plus(state.candidate.usage if state.candidate else Usage()),
            candidate=None,
        )
        await self._search.journal.write(Change(events=tuple(events), step=planned))
        return planned

    async def _evaluate(self, state: StepState) -> StepState | None:
        search = self._search
        kernel = state.candidate.kernel if state.candidate else None
        if kernel is None:
            return await self._record(state, None)
        request_id, listener = search.request_id(state.step, "evaluation"), search.listener(state.step, "evaluating")
        evaluation = await search.ask(
            "evaluator",
            state.step,
            "evaluating",
            lambda: search.peers.evaluator.evaluate(request_id, search.spec, kernel, listener),
        )
        if evaluation.verdict is Verdict.TASK_INVALID:
            raise SearchStoppedError(SearchState.FAILED, StopReason.TASK_INVALID, evaluation.message or evaluation.cause)
        return await self._record(state, evaluation)

    async def _record(self, state: StepState, evaluation: Evaluation | None) -> StepState | None:
        search = self._search
        node = self._node(state, evaluation)
        learning = replace(state, phase=StepPhase.LEARNING, evaluation=evaluation)
        following = learning if search.memory and has_news(learning) else None

        def recorded(before: Progress) -> Change:
            progress, best = _after(before, node, state.usage.plus(node.candidate.usage))
            events: tuple[EventBody, ...] = (NodeRecorded(node.step, best),)
            if following:
                events += (StepProgress(node.step, "learning"),)
            return Change(events=events, node=node, progress=progress, step=following, done_step=None if following else node.step)

        await search.journal.update(recorded)
        search.tree.add(node.in_tree())
        search.claimed.pop(node.step, None)
        search.contributions.add(node)
        if node.digest:
            search.digests.append(node.digest)
        return following

    def _node(self, state: StepState, evaluation: Evaluation | None) -> Node:
        search, selection = self._search, state.selection
        return Node(
            step=state.step,
            parent_step=selection.parent_step,
            depth=search.tree.depth(selection.parent_step) + 1,
            move=selection.move,
            context_steps=selection.context or selection.pool,
            candidate=state.candidate or Candidate(Outcome.EMPTY),
            evaluation=evaluation,
            reward=search.reward.of(evaluation),
            shown_skills=tuple(skill.name for skill in state.skills),
            create_time=search.now(),
            member=state.member,
        )


def _after(progress: Progress, node: Node, usage: Usage) -> tuple[Progress, bool]:
    """Return the progress after a node, and whether it is the best so far: PASSED and faster than every other, timed before untimed."""
    speedup = node.evaluation.speedup if node.evaluation else None
    best = node.passed and (progress.best_step is None or (speedup or 0.0) > (progress.best_speedup or 0.0))
    counted = replace(progress, steps=progress.steps + 1, usage=progress.usage.plus(usage))
    return (replace(counted, best_step=node.step, best_speedup=speedup) if best else counted), best
