"""Protos to domain objects and back; requests are checked here, field by field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.generator.v1 import generator_pb2
from adaexplore.runtime.errors import FieldViolation, InternalError, InvalidArgumentError, NotFoundError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, skill_pb2
from adaexplore_controller import domain, events, models
from adaexplore_controller.tree import Move

MessageT = TypeVar("MessageT", bound=Message)

_DEFAULT_PAGE, _MOST_PAGE = 100, 1_000
_MOST_REQUEST_ID = 128
# Below the 4 MiB that a client accepts, with room for the envelope.
_DIAGNOSIS_CHARS = 300
_MOST_PAGE_BYTES = 3 * 1024 * 1024
_SEARCH_NAME = re.compile(r"searches/([A-Za-z0-9_-]{1,64})")
_NODE_NAME = re.compile(r"searches/([A-Za-z0-9_-]{1,64})/nodes/(0|[1-9][0-9]{0,8})")


def invalid(field: str, description: str) -> InvalidArgumentError:
    """Return the error for one malformed field."""
    return InvalidArgumentError(f"{field}: {description}", reason="REQUEST_INVALID", violations=[FieldViolation(field, description)])


def search_id(name: str, field: str = "name") -> str:
    """Return the id in a search's resource name; NotFoundError if it is no such name."""
    found = _SEARCH_NAME.fullmatch(name)
    if not found:
        raise NotFoundError(f"`{name}` names no search; {field} is `searches/{{id}}`", reason="SEARCH_NOT_FOUND", resource=name)
    return found[1]


def node_id(name: str) -> tuple[str, int]:
    """Return the search's id and the step in a node's resource name; NotFoundError if it is no such name."""
    found = _NODE_NAME.fullmatch(name)
    if not found:
        raise NotFoundError(f"`{name}` names no node; name is `searches/{{id}}/nodes/{{step}}`", reason="NODE_NOT_FOUND", resource=name)
    return found[1], int(found[2])


def request_id(text: str) -> str:
    """Return a request id; InvalidArgumentError if it is too long."""
    if len(text) > _MOST_REQUEST_ID:
        raise invalid("request_id", f"has {len(text)} characters; at most {_MOST_REQUEST_ID} are allowed")
    return text


def page_size(requested: int) -> int:
    """Return how many items a page may have."""
    if requested < 0:
        raise invalid("page_size", "must not be negative; 0 means 100")
    return min(requested or _DEFAULT_PAGE, _MOST_PAGE)


def page_token(token: str) -> int | None:
    """Return the number that a page begins after, None for the first page."""
    if not token:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", token):
        raise invalid("page_token", "is not one that this server gave out; use `next_page_token` of the page before")
    return int(token)


def sequence(number: int) -> int:
    """Return the sequence number that a stream begins after."""
    if number < 0:
        raise invalid("after_sequence", "must not be negative; 0 streams from the beginning")
    return number


def fitting(messages: Iterable[MessageT]) -> list[MessageT]:
    """Return the first messages that fit into one response together, at least one."""
    kept: list[MessageT] = []
    size_bytes = 0
    for message in messages:
        size_bytes += message.ByteSize()
        if kept and size_bytes > _MOST_PAGE_BYTES:
            break
        kept.append(message)
    return kept


def usage_to(usage: domain.Usage) -> generator_pb2.Usage:
    """Return tokens and money as the API has them."""
    return generator_pb2.Usage(
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        calls=usage.calls,
        cost_micro_usd=usage.cost_micro_usd,
        cache_write_tokens=usage.cache_write_tokens,
        unconfirmed_calls=usage.unconfirmed_calls,
        unconfirmed_tokens=usage.unconfirmed_tokens,
        unconfirmed_cost_micro_usd=usage.unconfirmed_cost_micro_usd,
    )


def usage_from(message: generator_pb2.Usage) -> domain.Usage:
    """Return tokens and money of a message; an absent cost is unknown."""
    return domain.Usage(
        message.input_tokens,
        message.cached_tokens,
        message.output_tokens,
        message.reasoning_tokens,
        message.calls,
        message.cost_micro_usd if message.HasField("cost_micro_usd") else None,
        message.cache_write_tokens,
        message.unconfirmed_calls,
        message.unconfirmed_tokens,
        message.unconfirmed_cost_micro_usd,
    )


def contribution_to(found: models.Contribution) -> pb.Contribution:
    """Return what one model has brought as the API has it."""
    return pb.Contribution(
        ensemble_member=found.member, steps=found.steps, passed=found.passed, log_gain=found.log_gain, cost_micro_usd=found.cost_micro_usd
    )


def search_to(search: domain.Search, *, description: bool = True, reserved_micro_usd: int = 0) -> pb.Search:
    """Return a search as the API has it, with or without what is known of its task, and with what is reserved where that was read."""
    progress = search.progress
    message = pb.Search(
        name=search.name,
        state=pb.SearchState.Value(f"SEARCH_STATE_{progress.state}"),
        error_message=progress.error_message,
        steps=progress.steps,
        best_speedup=progress.best_speedup,
        usage=usage_to(progress.usage),
        last_sequence=search.last_sequence,
        etag=str(search.version),
        reserved_micro_usd=reserved_micro_usd or None,
    )
    message.spec.ParseFromString(search.spec.payload)
    message.create_time.FromDatetime(search.create_time)
    if progress.stop_reason:
        message.stop_reason = pb.StopReason.Value(f"STOP_REASON_{progress.stop_reason}")
    if progress.best_step is not None:
        message.best_node = f"{search.name}/nodes/{progress.best_step}"
    if progress.end_time:
        message.end_time.FromDatetime(progress.end_time)
    if search.facts:
        facts = evaluator_pb2.DescribeTaskResponse.FromString(search.facts.payload)
        message.baselines.extend(facts.baselines)
        message.platform.CopyFrom(facts.platform)
        if description:
            message.description.CopyFrom(facts.description)
    return message


def estimate_to(estimate: domain.SearchEstimate) -> pb.EstimateSearchResponse:
    """Return what a search would use as the API has it."""
    message = pb.EstimateSearchResponse(
        expected=usage_to(estimate.expected), worst_case=usage_to(estimate.worst_case), affordable_steps=estimate.affordable_steps
    )
    for move, found in estimate.generations.items():
        answer = generator_pb2.EstimateUsageResponse.FromString(found.payload)
        message.generations.add(move=move_to(move), worst_case=answer.worst_case, expected=answer.expected)
        message.provider, message.model = answer.provider, answer.model
        if answer.HasField("price"):
            message.price.CopyFrom(answer.price)
    return message


def candidate_to(candidate: domain.Candidate, *, source: bool) -> generator_pb2.Candidate:
    """Return a candidate as the API has it, with or without source and recipe."""
    message = generator_pb2.Candidate(
        outcome=generator_pb2.GenerateOutcome.Value(f"GENERATE_OUTCOME_{candidate.outcome}"),
        summary=candidate.summary,
        respected_skills=candidate.respected_skills,
        usage=usage_to(candidate.usage),
        provider=candidate.provider,
        model=candidate.model,
        prompt_digest=candidate.prompt_digest,
        message=candidate.message,
    )
    if candidate.kernel:
        message.kernel.digest = candidate.kernel.digest
    if source:
        message.recipe = candidate.recipe
        if candidate.kernel:
            message.kernel.source = candidate.kernel.source
    return message


def node_to(search_name: str, node: domain.Node, *, source: bool = False) -> pb.Node:
    """Return a node as the API has it, with or without source and recipe."""
    message = pb.Node(
        name=f"{search_name}/nodes/{node.step}",
        step=node.step,
        parent_step=node.parent_step,
        depth=node.depth,
        move=move_to(node.move),
        context_steps=node.context_steps,
        candidate=candidate_to(node.candidate, source=source),
        reward=node.reward,
        visits=node.visits,
        reward_sum=node.reward_sum,
        shown_skills=node.shown_skills,
        ensemble_member=node.member,
    )
    if node.evaluation:
        message.evaluation.ParseFromString(node.evaluation.payload)
        message.candidate.kernel.digest = node.digest
    message.create_time.FromDatetime(node.create_time)
    return message


def move_to(move: Move) -> kernel_pb2.Move.ValueType:
    """Return a move as the API has it."""
    return kernel_pb2.Move.Value(f"MOVE_{move}")


def evaluation_from(message: evaluation_pb2.Evaluation) -> domain.Evaluation:
    """Return what a search needs to know of an evaluation; InternalError if its verdict is none that is known here."""
    timing = message.timing
    try:
        verdict = domain.Verdict(_short(evaluation_pb2.Verdict.DESCRIPTOR, message.verdict, "VERDICT_"))
    except ValueError as error:
        raise InternalError(
            f"the evaluator answered with the unknown verdict {message.verdict}; use versions that belong together"
        ) from error
    return domain.Evaluation(
        payload=message.SerializeToString(deterministic=True),
        verdict=verdict,
        cause=cause_from(message.cause),
        phase=phase_from(message.phase),
        message=message.failure.message,
        kernel_digest=message.kernel_digest,
        median_us=timing.median_us if timing.HasField("median_us") else None,
        speedup=timing.speedup if timing.HasField("speedup") else None,
        diagnosis=diagnosis_from(message.failure),
    )


def diagnosis_from(message: evaluation_pb2.Failure) -> domain.Diagnosis:
    """Return why something failed; empty for an absent failure.

    The signature is `phase|cause|exception|diagnostic`; phase and cause differ between a search and the compilation of a snippet.
    """
    *_, text = message.signature.split("|", 3) if message.signature.count("|") >= 3 else ("",)
    said = message.detail.strip().splitlines()[-1:]
    return domain.Diagnosis(message.exception_type, text, said[0][:_DIAGNOSIS_CHARS] if said else "")


def skill_from(message: skill_pb2.Skill) -> domain.Skill:
    """Return what a search needs to know of a skill."""
    return domain.Skill(
        payload=message.SerializeToString(deterministic=True),
        name=message.name,
        rule=message.rule,
        active=message.state == skill_pb2.SKILL_STATE_ACTIVE,
        has_reproducer=message.evidence.HasField("reproducer"),
        repairs=len(message.evidence.repairs),
    )


def event_to(search: domain.Search, event: events.Event, node: domain.Node | None) -> pb.SearchEvent:
    """Return an event as the API has it; `node` is the one that a NodeRecorded speaks of."""
    message = pb.SearchEvent(sequence=event.sequence)
    message.time.FromDatetime(event.time)
    body = event.body
    if isinstance(body, events.StateChanged):
        then = replace(search, progress=body.progress, last_sequence=event.sequence)
        message.state_changed.search.CopyFrom(search_to(then))
    elif isinstance(body, events.StepStarted):
        message.step_started.CopyFrom(pb.StepStarted(step=body.step, parent_step=body.parent_step, move=move_to(body.move)))
    elif isinstance(body, events.StepProgress):
        message.step_progress.CopyFrom(pb.StepProgress(step=body.step, stage=body.stage, message=body.message))
    elif isinstance(body, events.NodeRecorded) and node:
        fresh = replace(node, visits=1, reward_sum=node.reward)
        message.node_recorded.CopyFrom(pb.NodeRecorded(node=node_to(search.name, fresh), best=body.best))
    elif isinstance(body, events.SkillLearnt):
        message.skill_learnt.CopyFrom(pb.SkillLearnt(skill=skill_pb2.Skill.FromString(body.skill.payload), step=body.step))
    elif isinstance(body, events.SkillRespected):
        respected = pb.SkillRespected(skill=body.skill, rule=body.rule, step=body.step, by_check=body.by_check)
        message.skill_respected.CopyFrom(respected)
    return message


def outcome_from(number: int) -> domain.Outcome:
    """Return what became of a generation; InternalError if it is nothing that is known here."""
    try:
        return domain.Outcome(_short(generator_pb2.GenerateOutcome.DESCRIPTOR, number, "GENERATE_OUTCOME_"))
    except ValueError as error:
        raise InternalError(f"the generator answered with the unknown outcome {number}; use versions that belong together") from error


def cause_from(number: int) -> str:
    """Return a cause without its prefix; empty if it is not stated, its number if it is unknown."""
    return _short(evaluation_pb2.Cause.DESCRIPTOR, number, "CAUSE_")


def phase_from(number: int) -> str:
    """Return a phase without its prefix; empty if it is not stated, its number if it is unknown."""
    return _short(evaluation_pb2.Phase.DESCRIPTOR, number, "PHASE_")


def _short(kind: EnumDescriptor, number: int, prefix: str) -> str:
    """Return an enumerator without its prefix; a number of a newer version stays a number."""
    known = kind.values_by_number.get(number)
    short = known.name.removeprefix(prefix) if known else str(number)
    return "" if short == "UNSPECIFIED" else short
