"""Protos to domain values and back."""

from __future__ import annotations

from collections.abc import Iterable

from adaexplore.memory.v1 import memory_pb2 as pb
from adaexplore.runtime.errors import FieldViolation, InvalidArgumentError
from adaexplore.runtime.sources import kernel_digest
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, skill_pb2, task_pb2
from adaexplore_memory.domain import (
    Environment,
    Evidence,
    FailureReport,
    Imported,
    OutcomeReport,
    Pattern,
    Proof,
    RecordedFailure,
    Scope,
    Selected,
    Skill,
    SkillKind,
    SkillState,
    Snippet,
    Stats,
    Violation,
)
from adaexplore_memory.intake import clean
from adaexplore_memory.select import DEFAULT_TOKEN_BUDGET, Query, valid_version
from adaexplore_memory.store import SkillFilter

_KINDS = {skill_pb2.SKILL_KIND_PITFALL: SkillKind.PITFALL, skill_pb2.SKILL_KIND_TECHNIQUE: SkillKind.TECHNIQUE}
_STATES = {
    skill_pb2.SKILL_STATE_CANDIDATE: SkillState.CANDIDATE,
    skill_pb2.SKILL_STATE_ACTIVE: SkillState.ACTIVE,
    skill_pb2.SKILL_STATE_RETIRED: SkillState.RETIRED,
}
_TO_KIND = {value: key for key, value in _KINDS.items()}
_TO_STATE = {value: key for key, value in _STATES.items()}
_MAX_REQUEST_ID = 128
_MAX_DIGEST = 128


def invalid(field: str, description: str) -> InvalidArgumentError:
    """Return the error for one field of a request that is missing or malformed."""
    return InvalidArgumentError(f"{field}: {description}", reason="REQUEST_INVALID", violations=[FieldViolation(field, description)])


def request_id_of(value: str, *, required: bool) -> str:
    """Return a request id.

    Raises:
        InvalidArgumentError: It is longer than 128 characters, or missing though required.

    """
    if len(value) > _MAX_REQUEST_ID or (required and not value):
        raise invalid("request_id", "must have 1 to 128 characters" if required else "must have at most 128 characters")
    return value


def skill_from(message: skill_pb2.Skill, *, partial: bool = False) -> Skill:
    """Return the skill of a request.

    Args:
        message: The skill.
        partial: True for an update, where kind and state may be left out.

    Raises:
        InvalidArgumentError: The kind is missing.

    """
    if message.kind not in _KINDS and not partial:
        raise invalid("skill.kind", "must be PITFALL or TECHNIQUE")
    scope, evidence = message.scope, message.evidence
    return Skill(
        name=message.name,
        kind=_KINDS.get(message.kind, SkillKind.PITFALL),
        state=_STATES.get(message.state, SkillState.CANDIDATE),
        rule=message.rule,
        instead=message.instead,
        scope=Scope(scope.triton_versions, scope.backend, tuple(scope.architectures), tuple(scope.operator_families)),
        evidence=Evidence(
            signature=evidence.signature,
            reproducer=_snippet_from(evidence.reproducer) if evidence.HasField("reproducer") else None,
            repairs=tuple(_snippet_from(repair) for repair in evidence.repairs),
            proof=_proof_from(evidence.proof) if evidence.HasField("proof") else None,
        ),
        patterns=tuple(Pattern(pattern.name_used, pattern.statement_kind) for pattern in message.patterns),
        retire_reason=message.retire_reason,
    )


def update_from(request: pb.UpdateSkillRequest) -> tuple[Skill, list[str], str]:
    """Return the changed skill, the paths that are to change and the etag.

    Raises:
        InvalidArgumentError: The state is to change and is not stated.

    """
    paths = list(dict.fromkeys(request.update_mask.paths))
    if "state" in paths and request.skill.state not in _STATES:
        raise invalid("skill.state", "must be CANDIDATE, ACTIVE or RETIRED")
    return skill_from(request.skill, partial=True), paths, request.skill.etag


def skill_to(skill: Skill) -> skill_pb2.Skill:
    """Return the message of a skill."""
    counters, scope = skill.counters, skill.scope
    message = skill_pb2.Skill(
        name=skill.name,
        kind=_TO_KIND[skill.kind],
        state=_TO_STATE[skill.state],
        rule=skill.rule,
        instead=skill.instead,
        scope=skill_pb2.SkillScope(
            triton_versions=scope.triton_versions,
            backend=scope.backend,
            architectures=scope.architectures,
            operator_families=scope.operator_families,
        ),
        evidence=_evidence_to(skill.evidence),
        patterns=[_pattern_to(pattern) for pattern in skill.patterns],
        counters=skill_pb2.SkillCounters(shown=counters.shown, broken=counters.broken, avoided=counters.avoided),
        etag=skill.etag,
        retire_reason=skill.retire_reason,
    )
    message.create_time.FromMicroseconds(skill.create_time_us)
    message.update_time.FromMicroseconds(skill.update_time_us)
    return message


def filter_from(request: pb.ListSkillsRequest) -> SkillFilter:
    """Return which skills to list; an unknown state or kind counts as unspecified."""
    return SkillFilter(_STATES.get(request.state), _KINDS.get(request.kind))


def failure_from(request: pb.RecordFailureRequest) -> FailureReport:
    """Return the report of a failure.

    Raises:
        InvalidArgumentError: A field is missing, or the digests contradict each other.

    """
    _refuse_incomplete(request)
    evaluation, failure, platform = request.evaluation, request.evaluation.failure, request.evaluation.platform
    return FailureReport(
        request_id=request_id_of(request.request_id, required=True),
        task_digest=request.task_digest,
        kernel_digest=evaluation.kernel_digest or request.kernel.digest or kernel_digest(request.kernel.source),
        source=request.kernel.source,
        verdict=_name(evaluation_pb2.Verdict.Name(evaluation.verdict), "VERDICT_"),
        cause=_name(evaluation_pb2.Cause.Name(evaluation.cause), "CAUSE_"),
        phase=_name(evaluation_pb2.Phase.Name(evaluation.phase), "PHASE_"),
        exception_type=clean(failure.exception_type)[:200],
        message=failure.message,
        detail=failure.detail,
        line=failure.line,
        excerpt=failure.excerpt,
        evaluator_signature=clean(failure.signature)[:1_000],
        kernel_name=clean(failure.kernel_name)[:200],
        device=_name(kernel_pb2.DeviceKind.Name(platform.device), "DEVICE_KIND_"),
        target=clean(platform.target)[:40],
        triton_version=_version(platform.triton_version, "evaluation.platform.triton_version"),
    )


def outcome_from(request: pb.RecordOutcomeRequest) -> OutcomeReport:
    """Return the report of an outcome.

    Raises:
        InvalidArgumentError: The request id is missing, or it or a digest is too long.

    """
    evaluated = request.HasField("evaluation")
    for field in ("kernel_digest", "task_digest"):
        _refuse_long(getattr(request.evaluation, field), f"evaluation.{field}")
    return OutcomeReport(
        request_id=request_id_of(request.request_id, required=True),
        shown=tuple(request.shown_skills),
        respected=tuple(request.respected_skills),
        failed=evaluated and request.evaluation.verdict == evaluation_pb2.VERDICT_FAILED,
        kernel_digest=request.evaluation.kernel_digest if evaluated else "",
        task_digest=request.evaluation.task_digest if evaluated else "",
    )


def query_from(request: pb.SelectSkillsRequest) -> Query:
    """Return what skills are to be selected for.

    Raises:
        InvalidArgumentError: The version is none, or the budget is negative.

    """
    if request.token_budget < 0:
        raise invalid("token_budget", "must be 0 or more; 0 means 1,600")
    return Query(
        operators=frozenset(_operators(request.description.graph.calls)),
        environment=environment_from(request.device, request.triton_version),
        structural=request.move != kernel_pb2.MOVE_LOCAL,
        token_budget=request.token_budget or DEFAULT_TOKEN_BUDGET,
    )


def environment_from(device: kernel_pb2.DeviceSpec, triton_version: str) -> Environment:
    """Return what will compile a kernel; the cpu device compiles for `sm_90` unless another target is named.

    Raises:
        InvalidArgumentError: The version is none.

    """
    default = "sm_90" if device.kind == kernel_pb2.DEVICE_KIND_CPU else ""
    return Environment(_version(triton_version, "triton_version"), device.target or default)


def selected_to(selected: Selected) -> pb.SelectedSkill:
    """Return the message of a selected skill."""
    return pb.SelectedSkill(skill=skill_to(selected.skill), reason=selected.reason, tokens=selected.tokens)


def violation_to(violation: Violation) -> pb.SourceViolation:
    """Return the message of a violation."""
    return pb.SourceViolation(skill=skill_to(violation.skill), line=violation.line, excerpt=violation.excerpt)


def imported_to(imported: Imported) -> pb.ImportResult:
    """Return the message of what became of a skill that was to be imported."""
    outcome = pb.ImportOutcome.Value(f"IMPORT_OUTCOME_{imported.outcome}")
    return pb.ImportResult(outcome=outcome, skill_name=imported.skill_name, message=imported.message)


def stats_to(stats: Stats) -> pb.GetMemoryStatsResponse:
    """Return the message of what the memory holds."""
    counters = stats.counters
    return pb.GetMemoryStatsResponse(
        skills=[
            pb.SkillCount(kind=_TO_KIND[kind], state=_TO_STATE[state], count=count) for (kind, state), count in sorted(stats.skills.items())
        ],
        failures=[
            pb.FailureCount(cause=evaluation_pb2.Cause.Value(f"CAUSE_{cause}"), count=count, taught=taught)
            for cause, (count, taught) in sorted(stats.failures.items())
        ],
        failed_tasks=stats.failed_tasks,
        proven_skills=stats.proven_skills,
        outcomes=stats.outcomes,
        counters=skill_pb2.SkillCounters(shown=counters.shown, broken=counters.broken, avoided=counters.avoided),
    )


def recorded_to(recorded: RecordedFailure) -> pb.RecordFailureResponse:
    """Return the answer to a recorded failure."""
    answer = pb.RecordFailureResponse(failure_id=recorded.failure_id, created=recorded.created, proof_wanted=recorded.proof_wanted)
    if recorded.skill is not None:
        answer.skill.CopyFrom(skill_to(recorded.skill))
    return answer


def _operators(calls: Iterable[task_pb2.OperatorCall]) -> Iterable[str]:
    """Operator names without namespace, overload and the mark of an in-place form; `gelu_tanh` for the GELU that uses tanh."""
    for call in calls:
        parts = call.operator.split(".")
        name = (parts[1] if len(parts) > 1 else parts[0]).strip("_")
        yield "gelu_tanh" if name == "gelu" and call.kwargs["approximate"].string_value == "tanh" else name


def _refuse_incomplete(request: pb.RecordFailureRequest) -> None:
    for field, value in (("kernel.source", request.kernel.source), ("task_digest", request.task_digest)):
        if not value:
            raise invalid(field, "must not be empty")
    if not request.HasField("evaluation"):
        raise invalid("evaluation", "must be set")
    _refuse_other(request.task_digest, request.evaluation.task_digest, "task_digest")
    _refuse_other(request.kernel.digest, request.evaluation.kernel_digest, "kernel.digest")


def _refuse_other(given: str, evaluated: str, field: str) -> None:
    _refuse_long(given, field)
    _refuse_long(evaluated, field)
    if given and evaluated and given != evaluated:
        raise invalid(field, f"is {given}, but the evaluation speaks of {evaluated}")


def _refuse_long(digest: str, field: str) -> None:
    if len(digest) > _MAX_DIGEST:
        raise invalid(field, "must have at most 128 characters")


def _version(text: str, field: str) -> str:
    if text and not valid_version(text):
        raise invalid(field, "must be a PEP 440 version, for example 3.7.1")
    return text


def _name(name: str, prefix: str) -> str:
    short = name.removeprefix(prefix)
    return "" if short == "UNSPECIFIED" else short


def _evidence_to(evidence: Evidence) -> skill_pb2.SkillEvidence:
    message = skill_pb2.SkillEvidence(
        task_digests=evidence.task_digests,
        failure_ids=evidence.failure_ids,
        failure_count=evidence.failure_count,
        signature=evidence.signature,
        repairs=[_snippet_to(repair) for repair in evidence.repairs],
    )
    if evidence.reproducer is not None:
        message.reproducer.CopyFrom(_snippet_to(evidence.reproducer))
    if evidence.proof is not None:
        message.proof.CopyFrom(_proof_to(evidence.proof))
    return message


def _snippet_from(message: skill_pb2.KernelSnippet) -> Snippet:
    return Snippet(
        message.source, message.function_name, dict(message.signature), dict(message.constexprs), message.num_warps, message.num_stages
    )


def _snippet_to(snippet: Snippet) -> skill_pb2.KernelSnippet:
    return skill_pb2.KernelSnippet(
        source=snippet.source,
        function_name=snippet.function_name,
        signature=snippet.signature,
        constexprs=snippet.constexprs,
        num_warps=snippet.num_warps,
        num_stages=snippet.num_stages,
    )


def _pattern_to(pattern: Pattern) -> skill_pb2.SkillPattern:
    if pattern.name_used:
        return skill_pb2.SkillPattern(name_used=pattern.name_used)
    return skill_pb2.SkillPattern(statement_kind=pattern.statement_kind)


def _proof_from(message: skill_pb2.SkillProof) -> Proof:
    return Proof(
        reproducer_failed=message.reproducer_failed,
        repair_index=message.repair_index if message.HasField("repair_index") else None,
        triton_version=message.triton_version[:60],
        target=message.target[:40],
        prove_time_us=message.prove_time.ToMicroseconds() if message.HasField("prove_time") else 0,
    )


def _proof_to(proof: Proof) -> skill_pb2.SkillProof:
    message = skill_pb2.SkillProof(reproducer_failed=proof.reproducer_failed, triton_version=proof.triton_version, target=proof.target)
    if proof.repair_index is not None:
        message.repair_index = proof.repair_index
    if proof.prove_time_us:
        message.prove_time.FromMicroseconds(proof.prove_time_us)
    return message
