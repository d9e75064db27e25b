"""Between the API's messages and the evaluator's domain."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from google.protobuf import duration_pb2, json_format
from google.protobuf.message import Message

from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.runtime.errors import FailedPreconditionError, FieldViolation, InvalidArgumentError
from adaexplore.runtime.sources import kernel_digest
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, skill_pb2, task_pb2
from adaexplore_evaluator import domain
from adaexplore_evaluator.devices.cpu.datasheet import known_targets
from adaexplore_evaluator.gpus import Gpu
from adaexplore_evaluator.sanitizers import MISSING, find_sanitizer

MessageT = TypeVar("MessageT", bound=Message)

_FORMATS = {
    task_pb2.TASK_FORMAT_UNSPECIFIED: "",
    task_pb2.TASK_FORMAT_MODULE: "module",
    task_pb2.TASK_FORMAT_FUNCTION: "function",
}
_PRECISIONS = {
    task_pb2.PRECISION_CLASS_UNSPECIFIED: "fp32",
    task_pb2.PRECISION_CLASS_FP32: "fp32",
    task_pb2.PRECISION_CLASS_TF32: "tf32",
    task_pb2.PRECISION_CLASS_BF16: "bf16",
    task_pb2.PRECISION_CLASS_FP16: "fp16",
}
_TRACKS = {
    task_pb2.TRACK_UNSPECIFIED: "any",
    task_pb2.TRACK_ANY: "any",
    task_pb2.TRACK_NO_VENDOR_LIBRARY: "no_vendor_library",
    task_pb2.TRACK_TRITON_ONLY: "triton_only",
}
_BOUNDED = "tasks_bounded"
_STATE_MODES = {
    pb.STATE_MODE_UNSPECIFIED: domain.StateMode.BY_NAME,
    pb.STATE_MODE_BY_NAME: domain.StateMode.BY_NAME,
    pb.STATE_MODE_SEEDED: domain.StateMode.SEEDED,
}
_SANITIZERS = {
    evaluation_pb2.SANITIZER_UNSPECIFIED: "",
    evaluation_pb2.SANITIZER_MEMCHECK: "memcheck",
    evaluation_pb2.SANITIZER_RACECHECK: "racecheck",
    evaluation_pb2.SANITIZER_INITCHECK: "initcheck",
    evaluation_pb2.SANITIZER_SYNCCHECK: "synccheck",
}
_CACHE_MODES = {pb.CACHE_MODE_UNSPECIFIED: True, pb.CACHE_MODE_USE: True, pb.CACHE_MODE_BYPASS: False}
_MAX_PAGE = 100


def evaluate_job(
    message: pb.EvaluateKernelRequest, defaults: domain.PhaseBudgets, longest_s: float, gpus: Sequence[Gpu] = ()
) -> domain.EvaluateJob:
    """The job that a request describes; an absent limit takes its default, one above `longest_s` is cut.

    Raises:
        InvalidArgumentError: A source is empty or too large, a digest is wrong, the device is not ours, or a field is malformed.
        FailedPreconditionError: A sanitizer is asked for and not installed (SANITIZER_NOT_AVAILABLE).

    """
    task = _task(message.task)
    source = _source(message.kernel.source, "kernel.source")
    digest = kernel_digest(source)
    if message.kernel.digest and message.kernel.digest != digest:
        raise _invalid("DIGEST_MISMATCH", "kernel.digest", f"is not that of kernel.source, which is {digest}; leave it empty")
    if len(message.request_id) > 128:
        raise _invalid("REQUEST_INVALID", "request_id", "must have at most 128 characters")
    place = _place(message.device, gpus)
    return domain.EvaluateJob(
        request_id=message.request_id,
        task=task,
        kernel=source,
        place=place,
        sanitizer=_sanitizer(message.sanitizer, place),
        state_mode=_known(_STATE_MODES, message.state_mode, "state_mode"),
        use_cache=_known(_CACHE_MODES, message.cache_mode, "cache_mode"),
        budgets=_budgets(message.limits, defaults, longest_s),
    )


def profile_job(
    message: pb.ProfileKernelRequest, defaults: domain.PhaseBudgets, longest_s: float, gpus: Sequence[Gpu] = ()
) -> domain.EvaluateJob:
    """The job that a request describes: on the cpu device the same as an evaluation's; raises as `evaluate_job` does."""
    fields = {field.name: value for field, value in message.ListFields()}
    job = evaluate_job(pb.EvaluateKernelRequest(**fields), defaults, longest_s, gpus)
    return replace(job, profile=job.place.device == "cuda")


def describe_job(message: pb.DescribeTaskRequest, gpus: Sequence[Gpu] = ()) -> domain.DescribeJob:
    """The job that a request describes; raises as `evaluate_job` does."""
    return domain.DescribeJob(_task(message.task), _place(message.device, gpus))


def compile_job(message: pb.CompileKernelRequest) -> domain.CompileJob:
    """The job that a request describes; InvalidArgumentError (SNIPPET_INVALID, TARGET_UNKNOWN, …)."""
    snippet = message.snippet
    source = _source(snippet.source, "snippet.source")
    if not snippet.function_name.isidentifier():
        raise _invalid("SNIPPET_INVALID", "snippet.function_name", "must name the @triton.jit function of the source")
    if snippet.num_warps < 0 or snippet.num_stages < 0:
        raise _invalid("SNIPPET_INVALID", "snippet.num_warps", "warps and stages must not be negative")
    target = _target(message.target)
    return domain.CompileJob(_snippet(snippet, source, target), target)


def evaluation(result: domain.JsonObject) -> pb.EvaluateKernelResponse:
    """The last message of an EvaluateKernel stream."""
    return pb.EvaluateKernelResponse(evaluation=_parse(result, evaluation_pb2.Evaluation()))


def stage(phase: str, message: str) -> pb.EvaluateKernelResponse:
    """A progress message of an EvaluateKernel stream."""
    number = evaluation_pb2.Phase.Value(f"PHASE_{phase}")
    return pb.EvaluateKernelResponse(progress=pb.EvaluationProgress(phase=number, message=message))


def profile_event(event: pb.EvaluateKernelResponse) -> pb.ProfileKernelResponse:
    """A message of a ProfileKernel stream, from the same of an EvaluateKernel stream."""
    if event.HasField("progress"):
        return pb.ProfileKernelResponse(progress=event.progress)
    return pb.ProfileKernelResponse(evaluation=event.evaluation)


def described(result: domain.JsonObject) -> pb.DescribeTaskResponse:
    """The response of DescribeTask."""
    return _parse(result, pb.DescribeTaskResponse())


def compiled(result: domain.JsonObject) -> pb.CompileKernelResponse:
    """The response of CompileKernel."""
    return _parse(result, pb.CompileKernelResponse())


def devices(
    request: pb.ListDevicesRequest,
    platform: domain.JsonObject,
    problem: str,
    memory_bytes: int,
    gpus: Sequence[tuple[Gpu, domain.JsonObject, str]] = (),
) -> pb.ListDevicesResponse:
    """The one page of devices, the cpu first; InvalidArgumentError for a token that no page gave."""
    if request.page_token:
        raise _invalid("REQUEST_INVALID", "page_token", "is none that this server gave; leave it empty for the first page")
    if request.page_size < 0:
        raise _invalid("REQUEST_INVALID", "page_size", "must not be negative")
    software = _parse({name: value for name, value in platform.items() if name != _BOUNDED}, evaluation_pb2.Platform())
    device = pb.Device(
        kind=kernel_pb2.DEVICE_KIND_CPU,
        display_name=software.device_name,
        targets=_targets(),
        memory_bytes=memory_bytes,
        timing=evaluation_pb2.TIMING_STATUS_ESTIMATED,
        sandbox_level=software.sandbox_level,
        tasks_bounded=platform.get(_BOUNDED) is True,
        healthy=not problem,
        message=problem,
    )
    return pb.ListDevicesResponse(devices=[device, *(_gpu_device(*item) for item in gpus)], platform=software)


def _gpu_device(gpu: Gpu, platform: domain.JsonObject, problem: str) -> pb.Device:
    return pb.Device(
        kind=kernel_pb2.DEVICE_KIND_CUDA,
        display_name=gpu.name,
        targets=[gpu.target],
        gpu=gpu.index,
        memory_bytes=gpu.memory_bytes,
        timing=evaluation_pb2.TIMING_STATUS_MEASURED,
        sandbox_level=str(platform.get("sandbox_level", "")),
        tasks_bounded=platform.get(_BOUNDED) is True,
        healthy=bool(platform) and not problem,
        message=problem or ("" if platform else "its referee has not started yet"),
    )


def _task(message: task_pb2.Task) -> domain.TaskSpec:
    if message.precision in (task_pb2.PRECISION_CLASS_FP8, task_pb2.PRECISION_CLASS_INT8):
        raise _invalid("REQUEST_INVALID", "task.precision", "the cpu device judges FP32, TF32, BF16 and FP16; choose one of them")
    return domain.TaskSpec(
        name=(message.name or "task.py").rpartition("/")[2][:200] or "task.py",
        source=_source(message.source, "task.source"),
        format=_known(_FORMATS, message.format, "task.format"),
        precision=_known(_PRECISIONS, message.precision, "task.precision"),
        track=_known(_TRACKS, message.track, "task.track"),
    )


def _source(source: str, field: str) -> str:
    if not source.strip():
        raise _invalid("SOURCE_EMPTY", field, "is empty; send Python source")
    if len(source.encode()) > domain.MAX_SOURCE_BYTES:
        raise _invalid("SOURCE_TOO_LARGE", field, "is larger than 1 MiB")
    return source


def _place(device: kernel_pb2.DeviceSpec, gpus: Sequence[Gpu]) -> domain.Place:
    if device.kind == kernel_pb2.DEVICE_KIND_CUDA:
        return _gpu_place(device, gpus)
    if device.kind not in (kernel_pb2.DEVICE_KIND_UNSPECIFIED, kernel_pb2.DEVICE_KIND_CPU):
        raise _invalid("DEVICE_NOT_AVAILABLE", "device.kind", "must be CPU or CUDA")
    if device.HasField("gpu"):
        raise _invalid("DEVICE_NOT_AVAILABLE", "device.gpu", "the cpu device has no GPUs to choose from; leave it out")
    return domain.Place(_target(device.target))


def _gpu_place(device: kernel_pb2.DeviceSpec, gpus: Sequence[Gpu]) -> domain.Place:
    if not gpus:
        raise _invalid("DEVICE_NOT_AVAILABLE", "device.kind", "this evaluator has only the device CPU; run it on a host with a GPU")
    wanted = device.gpu if device.HasField("gpu") else None
    fitting = [gpu for gpu in gpus if wanted in (None, gpu.index)]
    if not fitting:
        raise _invalid("DEVICE_NOT_AVAILABLE", "device.gpu", f"must be one of {', '.join(str(gpu.index) for gpu in gpus)}")
    own = [gpu.target for gpu in fitting]
    if device.target and device.target not in own:
        raise _invalid("TARGET_UNKNOWN", "device.target", f"must be {own[0]}, the GPU's own; leave it empty")
    if wanted is None and len(set(own)) > 1:
        # Any GPU will do only where all are alike.
        wanted = next(gpu.index for gpu in fitting if gpu.target == (device.target or own[0]))
    return domain.Place(device.target or own[0], "cuda", wanted)


def _sanitizer(number: int, place: domain.Place) -> str:
    name: str = _known(_SANITIZERS, number, "sanitizer")
    if name and place.device != "cuda":
        text = "needs the cuda device; leave it out, the cpu device checks every access of a kernel anyway"
        raise _invalid("SANITIZER_NOT_AVAILABLE", "sanitizer", text)
    if name and find_sanitizer() is None:
        raise FailedPreconditionError(MISSING, reason="SANITIZER_NOT_AVAILABLE")
    return name


def _target(target: str) -> str:
    target = target or domain.DEFAULT_TARGET
    if target not in known_targets():
        raise _invalid("TARGET_UNKNOWN", "device.target", f"must be one of {', '.join(_targets())}")
    return target


def _targets() -> list[str]:
    return sorted(known_targets(), key=lambda name: name != domain.DEFAULT_TARGET)


def _budgets(limits: pb.PhaseLimits, defaults: domain.PhaseBudgets, longest_s: float) -> domain.PhaseBudgets:
    def seconds(name: str, default: float) -> float:
        if not limits.HasField(name):  # type: ignore[arg-type]
            return default
        given: duration_pb2.Duration = getattr(limits, name)
        value = given.ToNanoseconds() / 1e9
        if value <= 0:
            raise _invalid("REQUEST_INVALID", f"limits.{name}", "must be positive")
        return min(value, longest_s)

    return domain.PhaseBudgets(
        seconds("setup", defaults.setup_s),
        seconds("compile", defaults.compile_s),
        seconds("check", defaults.check_s),
        seconds("timing", defaults.timing_s),
    )


def _snippet(snippet: skill_pb2.KernelSnippet, source: str, target: str) -> domain.Snippet:
    return domain.Snippet(
        source=source,
        function_name=snippet.function_name,
        signature=dict(snippet.signature),
        constexprs={name: _literal(name, text) for name, text in snippet.constexprs.items()},
        num_warps=snippet.num_warps or 4,
        num_stages=snippet.num_stages or (2 if target.startswith("gfx") else 3),
    )


def _literal(name: str, text: str) -> bool | int | float | str | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = ...
    if value is not None and not isinstance(value, bool | int | float | str):
        raise _invalid("SNIPPET_INVALID", f"snippet.constexprs[{name!r}]", "must be a Python number, string, truth value or None")
    return value


def _known(table: dict[Any, Any], value: int, field: str) -> Any:
    if value not in table:
        raise _invalid("REQUEST_INVALID", field, f"has no value {value}")
    return table[value]


def _parse(result: domain.JsonObject, message: MessageT) -> MessageT:
    return json_format.ParseDict(result, message)


def _invalid(reason: str, field: str, description: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{field} {description}", reason=reason, violations=[FieldViolation(field, description)])
