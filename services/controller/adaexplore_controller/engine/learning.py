"""What the memory makes of a step: the failure, the outcome, and the proof of a rule."""

from __future__ import annotations

from dataclasses import replace

import structlog

from adaexplore.runtime.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from adaexplore_controller.domain import Diagnosis, Evaluation, StepPhase, StepState, Verdict
from adaexplore_controller.engine.context import SearchContext
from adaexplore_controller.engine.patience import PeerFailedError
from adaexplore_controller.events import EventBody, SkillLearnt
from adaexplore_controller.ports import Lesson, MemoryPeer
from adaexplore_controller.proofs import store_proof, try_rule
from adaexplore_controller.store import Change

_LESSON_PHASES = frozenset({"LOAD", "SETUP", "COMPILE", "TUNE", "CHECK"})
_REFUSALS = (InvalidArgumentError, NotFoundError, FailedPreconditionError)


def teaches(evaluation: Evaluation | None) -> bool:
    """Tell whether the memory may learn from an evaluation: only where the candidate's own code failed."""
    return evaluation is not None and evaluation.verdict is Verdict.FAILED and evaluation.phase in _LESSON_PHASES


def has_news(state: StepState) -> bool:
    """Tell whether a step has anything to tell the memory; a reply that was lost tells nothing of the rules it was shown."""
    if state.candidate and state.candidate.lost:
        return False
    respected = state.candidate.respected_skills if state.candidate else ()
    return bool(state.skills or respected) or teaches(state.evaluation)


async def learn(search: SearchContext, memory: MemoryPeer, state: StepState) -> StepState | None:
    """Record failure and outcome; return the state in which a rule waits for its proof, None if the step is done."""
    lesson = await _record(search, memory, state)
    skill = lesson.skill
    if skill and lesson.proof_wanted and skill.has_reproducer:
        proving = replace(state, phase=StepPhase.PROVING, learnt=skill, learnt_is_new=lesson.created)
        await search.journal.write(Change(step=proving))
        return proving
    events: tuple[EventBody, ...] = (SkillLearnt(skill, state.step),) if skill and lesson.created else ()
    await search.journal.write(Change(events=events, done_step=state.step))
    return None


async def prove(search: SearchContext, memory: MemoryPeer, state: StepState) -> None:
    """Prove the rule that the step taught and end the step.

    A rule whose reproducer is malformed, or that is gone or refused meanwhile, stays unproven: that is no fault of the search.
    """
    assert state.learnt is not None, "only a step with a rule to prove is in this phase"  # noqa: S101
    skill = learnt = state.learnt
    failure = state.evaluation.diagnosis if state.evaluation else Diagnosis()
    news = state.learnt_is_new
    try:
        proof = await search.ask(
            "evaluator", state.step, "learning", lambda: try_rule(search.peers.evaluator, learnt, failure, search.facts.target, search.now)
        )
        if proof:
            skill = await search.ask("memory", state.step, "learning", lambda: store_proof(memory, learnt, proof))
            news = skill.active or (news and proof.reproducer_failed)
    except PeerFailedError as refusal:
        if not isinstance(refusal.error, _REFUSALS):
            raise
        structlog.get_logger().warning("rule stays unproven", skill=skill.name, error=str(refusal))
    events: tuple[EventBody, ...] = (SkillLearnt(skill, state.step),) if news else ()
    await search.journal.write(Change(events=events, done_step=state.step))


async def _record(search: SearchContext, memory: MemoryPeer, state: StepState) -> Lesson:
    candidate, evaluation = state.candidate, state.evaluation
    lesson = Lesson(None)
    if candidate and candidate.kernel and evaluation and teaches(evaluation):
        kernel, failure_id = candidate.kernel, search.request_id(state.step, "failure")
        lesson = await search.ask(
            "memory", state.step, "learning", lambda: memory.record_failure(failure_id, search.facts, kernel, evaluation)
        )
    respected = candidate.respected_skills if candidate else ()
    shown = tuple(skill.name for skill in state.skills)
    if shown or respected:
        outcome_id = search.request_id(state.step, "outcome")
        await search.ask("memory", state.step, "learning", lambda: memory.record_outcome(outcome_id, shown, respected, evaluation))
    return lesson
