"""Between the API's messages and the generator's domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.sources import kernel_digest
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, skill_pb2, task_pb2
from adaexplore_generator import domain, graph
from adaexplore_generator.errors import request_invalid
from adaexplore_generator.replies import ExternalReply, ExternalRequest
from adaexplore_generator.service import ModelPage


class _Enum(Protocol):
    def Name(self, number: Any, /) -> str:  # noqa: N802 - protobuf's name
        ...


_LEASE_S = 600.0
_DTYPES: dict[int, str] = {value: name.removeprefix("D_TYPE_").lower() for name, value in task_pb2.DType.items() if value}
_VALUE_KINDS = {getattr(task_pb2, f"VALUE_KIND_{kind.name}"): kind for kind in graph.ValueKind}
_MOVES = {kernel_pb2.MOVE_LOCAL: domain.Move.LOCAL, kernel_pb2.MOVE_STRUCTURAL: domain.Move.STRUCTURAL}
_FORMATS = {task_pb2.TASK_FORMAT_FUNCTION: graph.TaskFormat.FUNCTION}


def generate_request(message: pb.GenerateKernelRequest) -> domain.GenerateRequest:
    """Return the request in terms of the domain.

    Raises:
        InvalidArgumentError: The move is not stated, an enum has no such value, or a digest is not that of its source (REQUEST_INVALID).

    """
    if message.move not in _MOVES:
        raise request_invalid("move", "must be LOCAL or STRUCTURAL")
    return domain.GenerateRequest(
        request_id=message.request_id,
        task=_task(message.task),
        description=description(message.description),
        move=_MOVES[message.move],
        device=domain.Device(_short(kernel_pb2.DeviceKind, message.device.kind, "DEVICE_KIND_").lower(), message.device.target),
        baselines=tuple(_baseline(item) for item in message.baselines),
        context=_kernels("context", message.context),
        pool=_kernels("pool", message.pool),
        skills=tuple(_skill(item) for item in message.skills),
        known_digests=tuple(message.known_digests),
        violations=tuple(domain.Violation(item.skill, item.rule, item.line) for item in message.violations),
        sampling=_sampling(message.model, message.seed),
        max_cost_micro_usd=_limit(message),
    )


def distill_request(message: pb.DistillSkillRequest) -> domain.DistillRequest:
    """Return the request in terms of the domain; errors as `generate_request`."""
    _check_digest("kernel", message.kernel)
    said = _feedback(message.evaluation) if message.HasField("evaluation") else None
    kernel = domain.ContextKernel(message.kernel.source, message.kernel.digest, said)
    return domain.DistillRequest(message.request_id, kernel, _sampling(message.model), _limit(message))


def judge_request(message: pb.JudgeDuplicateRequest) -> domain.JudgeRequest:
    """Return the request in terms of the domain."""
    return domain.JudgeRequest(message.request_id, message.rule, tuple(message.known_rules), _sampling(message.model), _limit(message))


def synthesize_request(message: pb.SynthesizeTaskRequest) -> domain.SynthesizeRequest:
    """Return the request in terms of the domain."""
    seeds = tuple(_task(item) for item in message.seed_tasks)
    return domain.SynthesizeRequest(message.request_id, seeds, tuple(message.operators), _sampling(message.model), _limit(message))


def candidate(found: domain.Candidate) -> pb.Candidate:
    """Return the candidate as a message."""
    message = pb.Candidate(
        outcome=pb.GenerateOutcome.Value(f"GENERATE_OUTCOME_{found.outcome.name}"),
        recipe=found.recipe,
        summary=found.summary,
        respected_skills=found.respected_skills,
        usage=usage(found.usage),
        provider=found.provider,
        model=found.model,
        prompt_digest=found.prompt_digest,
        message=found.message,
    )
    if found.source:
        message.kernel.source, message.kernel.digest = found.source, found.digest
    return message


def usage(used: domain.Usage) -> pb.Usage:
    """Return the usage as a message; an unknown cost stays absent."""
    return pb.Usage(
        input_tokens=used.input_tokens,
        cached_tokens=used.cached_tokens,
        output_tokens=used.output_tokens,
        reasoning_tokens=used.reasoning_tokens,
        calls=used.calls,
        cost_micro_usd=used.cost_micro_usd,
        cache_write_tokens=used.cache_write_tokens,
        unconfirmed_calls=used.unconfirmed_calls,
        unconfirmed_tokens=used.unconfirmed_tokens,
        unconfirmed_cost_micro_usd=used.unconfirmed_cost_micro_usd,
    )


def estimate(found: domain.UsageEstimate) -> pb.EstimateUsageResponse:
    """Return the estimate as a message."""
    return pb.EstimateUsageResponse(
        provider=found.provider,
        model=found.model,
        worst_case=usage(found.worst_case),
        expected=usage(found.expected),
        price=_price(found.price) if found.price else None,
    )


def claim(message: pb.ClaimRequestRequest) -> tuple[str, float, float, str]:
    """Return worker, lease in seconds, wait in seconds and lease token of a claim."""
    lease_s = message.lease.ToNanoseconds() / 1e9 if message.HasField("lease") else _LEASE_S
    return message.worker, lease_s, message.wait.ToNanoseconds() / 1e9, message.lease_token


def claimed(found: ExternalRequest | None) -> pb.ClaimRequestResponse:
    """Return a prompt that was taken as a message; absent if there was none."""
    if found is None:
        return pb.ClaimRequestResponse()
    message = pb.ExternalRequest(
        messages=[pb.PromptMessage(role=item.role, content=item.content) for item in found.prompt.messages],
        max_output_tokens=found.sampling.max_output_tokens,
        temperature=found.sampling.temperature,
        model=found.sampling.model,
        lease_token=found.lease_token,
        claims=found.claims,
    )
    message.lease_expire_time.FromNanoseconds(int(found.lease_expire * 1e9))
    return pb.ClaimRequestResponse(request=message)


def external_reply(message: pb.SubmitReplyRequest) -> ExternalReply:
    """Return an answer in terms of the domain."""
    return ExternalReply(message.text, message.refusal, message.model, message.input_tokens, message.output_tokens)


def _price(price: domain.ModelPrice) -> pb.ModelPrice:
    return pb.ModelPrice(
        input_micro_usd_per_million=price.input,
        cached_micro_usd_per_million=price.cached,
        cache_write_micro_usd_per_million=price.cache_write,
        output_micro_usd_per_million=price.output,
        date=price.date,
        source=price.source,
    )


def progress(state: domain.Progress) -> pb.GenerateProgress:
    """Return the progress as a message."""
    return pb.GenerateProgress(stage=state.stage, received_chars=state.received_chars)


def distilled(found: domain.DistilledRule) -> pb.DistillSkillResponse:
    """Return the rule as a message."""
    return pb.DistillSkillResponse(rule=found.rule, instead=found.instead, usage=usage(found.usage))


def judgement(found: domain.Judgement) -> pb.JudgeDuplicateResponse:
    """Return the judgement as a message."""
    return pb.JudgeDuplicateResponse(duplicate_of=found.duplicate_of, confidence=found.confidence, usage=usage(found.usage))


def synthesized(found: domain.SynthesizedTask) -> pb.SynthesizeTaskResponse:
    """Return the task as a message; the task is absent if the reply held none."""
    message = pb.SynthesizeTaskResponse(usage=usage(found.usage))
    if found.task is not None:
        message.task.CopyFrom(task_pb2.Task(name=found.task.name, source=found.task.source, format=task_pb2.TASK_FORMAT_MODULE))
    return message


def model_page(page: ModelPage) -> pb.ListModelsResponse:
    """Return the page as a message."""
    models = [
        pb.Model(provider=item.provider, model=item.model, free=item.free, price=_price(item.price) if item.price else None)
        for item in page.models
    ]
    return pb.ListModelsResponse(models=models, next_page_token=page.next_page_token)


def description(message: task_pb2.TaskDescription) -> graph.TaskDescription:
    """Return what the evaluator found out about a task."""
    return graph.TaskDescription(
        digest=message.digest,
        format=_FORMATS.get(message.format, graph.TaskFormat.MODULE),
        entry_point=message.entry_point or "ModelNew",
        init_inputs=_inputs(message.init_inputs),
        inputs=_inputs(message.inputs),
        outputs=tuple(_tensor(item) for item in message.outputs),
        state=tuple(graph.StateEntry(item.name, _tensor(item.type), item.parameter) for item in message.state),
        graph=_graph(message.graph) if message.HasField("graph") else None,
        graph_absent_reason=message.graph_absent_reason,
        minimum_bytes=message.minimum_bytes,
        flops=message.flops,
        judged_inputs=_inputs(message.judged_inputs),
        judged_graph=_graph(message.judged_graph) if message.HasField("judged_graph") else None,
    )


def _graph(message: task_pb2.OperatorGraph) -> graph.OperatorGraph:
    return graph.OperatorGraph(
        values=tuple(graph.GraphValue(item.name, _tensor(item.type), _value_kind(item), item.state_name) for item in message.values),
        calls=tuple(_call(item) for item in message.calls),
        outputs=tuple(message.outputs),
    )


def _call(message: task_pb2.OperatorCall) -> graph.OperatorCall:
    return graph.OperatorCall(
        operator=message.operator,
        args=tuple(_argument(item) for item in message.args),
        kwargs={name: _argument(message.kwargs[name]) for name in sorted(message.kwargs)},
        results=tuple(message.results),
        flops=message.flops,
        bytes_read=message.bytes_read,
        bytes_written=message.bytes_written,
        line=message.line,
    )


def _argument(message: task_pb2.Argument) -> graph.Argument:
    kind = message.WhichOneof("value")
    if kind is None:
        return None
    if kind == "value_name":
        return graph.ValueRef(message.value_name)
    if kind == "dtype_value":
        return graph.DTypeRef(_dtype(message.dtype_value))
    if kind == "list_value":
        return tuple(_argument(item) for item in message.list_value.items)
    value: bool | int | float | str = getattr(message, kind)
    return value


def _value_kind(message: task_pb2.GraphValue) -> graph.ValueKind:
    if message.kind not in _VALUE_KINDS:
        raise request_invalid("description.graph", f"does not say where value {message.name!r} comes from")
    return _VALUE_KINDS[message.kind]


def _tensor(message: task_pb2.TensorType) -> graph.TensorType:
    return graph.TensorType(_dtype(message.dtype), tuple(message.shape), tuple(message.strides))


def _dtype(value: int) -> str:
    if value not in _DTYPES:
        raise request_invalid("description", f"holds a tensor of dtype {value}, which is none")
    return _DTYPES[value]


def _inputs(messages: Iterable[task_pb2.TaskInput]) -> tuple[graph.TaskInput, ...]:
    return tuple(graph.TaskInput(item.name, _tensor(item.tensor) if item.HasField("tensor") else None, item.literal) for item in messages)


def _task(message: task_pb2.Task) -> domain.Task:
    return domain.Task(
        name=message.name,
        source=message.source,
        format=_short(task_pb2.TaskFormat, message.format, "TASK_FORMAT_").lower(),
        precision=_short(task_pb2.PrecisionClass, message.precision, "PRECISION_CLASS_").lower() or "fp32",
        track=_short(task_pb2.Track, message.track, "TRACK_").lower() or "any",
    )


def _kernels(field: str, messages: Iterable[pb.ContextKernel]) -> tuple[domain.ContextKernel, ...]:
    kernels = []
    for index, item in enumerate(messages):
        _check_digest(f"{field}[{index}].kernel", item.kernel)
        said = _feedback(item.evaluation) if item.HasField("evaluation") else None
        kernels.append(domain.ContextKernel(item.kernel.source, item.kernel.digest, said, item.recipe))
    return tuple(kernels)


def _check_digest(field: str, message: kernel_pb2.Kernel) -> None:
    if message.digest and message.digest != kernel_digest(message.source):
        raise request_invalid(f"{field}.digest", "is not the digest of the source; leave it out or correct it")


def _feedback(message: evaluation_pb2.Evaluation) -> domain.Feedback:
    failure, timing = message.failure, message.timing
    return domain.Feedback(
        verdict=_short(evaluation_pb2.Verdict, message.verdict, "VERDICT_"),
        cause=_short(evaluation_pb2.Cause, message.cause, "CAUSE_"),
        phase=_short(evaluation_pb2.Phase, message.phase, "PHASE_"),
        message=failure.message,
        exception_type=failure.exception_type,
        detail=failure.detail,
        line=failure.line,
        excerpt=failure.excerpt,
        timing=_short(evaluation_pb2.TimingStatus, timing.status, "TIMING_STATUS_"),
        median_us=timing.median_us if timing.HasField("median_us") else None,
        speedup=timing.speedup if timing.HasField("speedup") else None,
        explanation=timing.explanation,
        roofline_share=timing.roofline_share if timing.HasField("roofline_share") else None,
        launches=tuple(_launch(item) for item in message.launches),
        profile=message.profile.text,
    )


def _launch(message: evaluation_pb2.LaunchReport) -> domain.Launch:
    return domain.Launch(
        name=message.name,
        count=message.count,
        registers=message.registers if message.HasField("registers") else None,
        spill_bytes=message.spill_bytes if message.HasField("spill_bytes") else None,
        shared_bytes=message.shared_bytes if message.HasField("shared_bytes") else None,
        occupancy=message.occupancy if message.HasField("occupancy") else None,
        latency_us=message.latency_us if message.HasField("latency_us") else None,
        bound_by=message.bound_by,
        dram_bytes=message.dram_bytes,
        time_share=message.time_share if message.HasField("time_share") else None,
    )


def _baseline(message: evaluation_pb2.Baseline) -> domain.Baseline:
    kind = _short(evaluation_pb2.BaselineKind, message.kind, "BASELINE_KIND_").lower()
    return domain.Baseline(kind, message.median_us, message.launches)


def _skill(message: skill_pb2.Skill) -> domain.Skill:
    return domain.Skill(
        name=message.name,
        kind=_short(skill_pb2.SkillKind, message.kind, "SKILL_KIND_"),
        rule=message.rule,
        instead=message.instead,
        patterns=tuple(domain.Pattern(item.name_used, item.statement_kind) for item in message.patterns),
        repairs=tuple(item.source for item in message.evidence.repairs),
    )


def _sampling(message: pb.ModelSpec, seed: int = 0) -> domain.Sampling:
    return domain.Sampling(
        provider=message.provider,
        model=message.model,
        temperature=message.temperature if message.HasField("temperature") else domain.DEFAULT_TEMPERATURE,
        max_output_tokens=message.max_output_tokens or domain.DEFAULT_MAX_OUTPUT_TOKENS,
        seed=seed,
        reasoning_effort=message.reasoning_effort,
    )


def _limit(
    message: pb.GenerateKernelRequest | pb.DistillSkillRequest | pb.JudgeDuplicateRequest | pb.SynthesizeTaskRequest,
) -> int | None:
    return message.max_cost_micro_usd if message.HasField("max_cost_micro_usd") else None


def _short(kind: _Enum, value: int, prefix: str) -> str:
    if value == 0:
        return ""
    try:
        return str(kind.Name(value)).removeprefix(prefix)
    except ValueError as error:
        raise request_invalid(prefix.rstrip("_").lower(), f"has no value {value}") from error
