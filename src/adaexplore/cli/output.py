"""Protobuf messages as the JSON and the words that commands print."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from adaexplore.generator.v1 import generator_pb2
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

Json = dict[str, Any]


def enum_name(kind: Any, value: int) -> str | None:
    """Return the name of an enum value without its prefix, None for unspecified."""
    prefix = "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(kind.DESCRIPTOR.name)).upper() + "_"
    name: str = kind.Name(value).removeprefix(prefix)
    return None if name == "UNSPECIFIED" else name


def optional(message: Message, field: str) -> Any:
    """Return a field that has presence, None if it is absent: what does not exist is null, never 0."""
    return getattr(message, field) if message.HasField(field) else None


def message_json(message: Message) -> Json:
    """Return any message as snake_case JSON, absent fields left out; 64-bit integers are numbers, not strings."""
    return _with_numbers(MessageToDict(message, preserving_proto_field_name=True), message.DESCRIPTOR)


def _with_numbers(value: Json, descriptor: Any) -> Json:
    found: Json = {}
    for name, item in value.items():
        field = descriptor.fields_by_name[name]
        items = item if isinstance(item, list) else [item]
        if field.message_type is not None and not field.message_type.GetOptions().map_entry and isinstance(items[0], dict):
            items = [_with_numbers(part, field.message_type) for part in items]
        elif field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64):
            items = [int(part) for part in items]
        found[name] = items if isinstance(item, list) else items[0]
    return found


def timing_json(timing: evaluation_pb2.Timing) -> Json:
    """Return the second answer of an evaluation."""
    return {
        "status": enum_name(evaluation_pb2.TimingStatus, timing.status),
        "cause": enum_name(evaluation_pb2.TimingCause, timing.cause),
        "median_us": optional(timing, "median_us"),
        "speedup": optional(timing, "speedup"),
        "speedup_interval": [timing.speedup_low, timing.speedup_high] if timing.HasField("speedup_low") else None,
        "speedup_over_eager": optional(timing, "speedup_over_eager"),
        "end_to_end_us": optional(timing, "end_to_end_us"),
        "cold": optional(timing, "cold"),
        "cold_us": optional(timing, "cold_us"),
        "warm_us": optional(timing, "warm_us"),
        "setup_us": optional(timing, "setup_us"),
        "roofline_share": optional(timing, "roofline_share"),
        "first_look": timing.first_look,
        "baselines": {(enum_name(evaluation_pb2.BaselineKind, b.kind) or "").lower(): b.median_us for b in timing.baselines},
        "explanation": timing.explanation or None,
    }


def evaluation_json(evaluation: evaluation_pb2.Evaluation) -> Json:
    """Return an evaluation as one flat object; the field names are part of the CLI's contract."""
    failure = evaluation.failure if evaluation.HasField("failure") else None
    platform = evaluation.platform
    return {
        "verdict": enum_name(evaluation_pb2.Verdict, evaluation.verdict),
        "cause": enum_name(evaluation_pb2.Cause, evaluation.cause),
        "phase": enum_name(evaluation_pb2.Phase, evaluation.phase),
        "message": failure.message if failure else None,
        "line": (failure.line or None) if failure else None,
        "detail": (failure.detail or None) if failure else None,
        "timing": timing_json(evaluation.timing),
        "device": enum_name(kernel_pb2.DeviceKind, platform.device),
        "device_name": platform.device_name,
        "target": platform.target,
        "sandbox": platform.sandbox_level,
        "precision": enum_name(task_pb2.PrecisionClass, evaluation.precision),
        "track": enum_name(task_pb2.Track, evaluation.track),
        "torch": platform.torch_version,
        "triton": platform.triton_version,
        "kernel_digest": evaluation.kernel_digest,
        "task_digest": evaluation.task_digest,
        "checks": [{"family": c.family, "passed": c.passed, "error": c.error, "budget": c.budget} for c in evaluation.checks],
        "launches": [message_json(launch) for launch in evaluation.launches],
        "cached": evaluation.cached,
    }


def profile_json(evaluation: evaluation_pb2.Evaluation) -> Json | None:
    """Return what a call does with its device, beside what `launches` say; None if the candidate did not pass."""
    if not evaluation.HasField("profile"):
        return None
    profile = evaluation.profile
    return {
        "ceilings": message_json(profile.ceilings) if profile.HasField("ceilings") else None,
        "least_work": message_json(profile.least_work) if profile.HasField("least_work") else None,
        "bytes_per_second": optional(profile, "bytes_per_second"),
        "flops_per_second": optional(profile, "flops_per_second"),
        "roofline_share": optional(profile, "roofline_share"),
        "bound_by": profile.bound_by or None,
        "limit": profile.limit or None,
        "counter_status": enum_name(evaluation_pb2.CounterStatus, profile.counter_status),
        "counter_message": profile.counter_message or None,
        "counters": [message_json(item) for item in profile.counters],
        "work_message": profile.work_message or None,
        "text": profile.text,
    }


def verdict_words(evaluation: evaluation_pb2.Evaluation) -> str:
    """Return the verdict with its cause, for example `FAILED (NUMERIC)`."""
    verdict = enum_name(evaluation_pb2.Verdict, evaluation.verdict) or "UNKNOWN"
    cause = enum_name(evaluation_pb2.Cause, evaluation.cause)
    return f"{verdict} ({cause})" if cause else verdict


def timing_words(timing: evaluation_pb2.Timing) -> str:
    """Return the latency in words, always saying whether it is an estimate."""
    status = (enum_name(evaluation_pb2.TimingStatus, timing.status) or "unknown").lower()
    if not timing.HasField("median_us"):
        return f"timing {status.replace('_', ' ')}" + (f": {timing.explanation}" if timing.explanation else "")
    words = f"{timing.median_us:.1f} µs {status}"
    if timing.HasField("speedup"):
        between = f" ({timing.speedup_low:.2f}–{timing.speedup_high:.2f})" if timing.HasField("speedup_low") else ""
        words += f", {timing.speedup:.2f}×{between} over the best baseline"
    if timing.HasField("speedup_over_eager"):
        words += f", {timing.speedup_over_eager:.2f}× over eager"
    if timing.HasField("roofline_share"):
        words += f", {timing.roofline_share:.0%} of the measured roofline"
    if timing.first_look:
        words += ", at a first look"
    return words


def print_json(value: object) -> None:
    """Print one JSON value on one line, non-finite numbers as null."""
    print(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def usage_json(usage: generator_pb2.Usage) -> Json:
    """Return tokens and money; an unknown cost is null."""
    return {
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "calls": usage.calls,
        "cost_micro_usd": optional(usage, "cost_micro_usd"),
        "unconfirmed_calls": usage.unconfirmed_calls,
        "unconfirmed_tokens": usage.unconfirmed_tokens,
        "unconfirmed_cost_micro_usd": usage.unconfirmed_cost_micro_usd,
    }
