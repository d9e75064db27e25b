import dataclasses

import pytest
from adaexplore_evaluator import convert
from adaexplore_evaluator.domain import PhaseBudgets, Place, StateMode
from adaexplore_evaluator.gpus import Gpu
from google.protobuf import duration_pb2

from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.runtime.errors import FailedPreconditionError, InvalidArgumentError
from adaexplore.runtime.sources import kernel_digest
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, skill_pb2, task_pb2

DEFAULTS = PhaseBudgets(30, 60, 120, 60)


def request(**changes):
    fields = {"task": task_pb2.Task(name="/home/me/task.py", source="x = 1"), "kernel": kernel_pb2.Kernel(source="y = 1")}
    return pb.EvaluateKernelRequest(**{**fields, **changes})


def job(**changes):
    return convert.evaluate_job(request(**changes), DEFAULTS, 600)


def test_what_is_not_stated_takes_its_default():
    found = job()
    assert (found.task.precision, found.task.track, found.task.format, found.place.target) == ("fp32", "any", "", "sm_90")
    assert (found.state_mode, found.use_cache, found.budgets) == (StateMode.BY_NAME, True, DEFAULTS)
    assert found.task.name == "task.py"


def test_limits_are_taken_and_cut():
    limits = pb.PhaseLimits(setup=duration_pb2.Duration(seconds=1, nanos=500_000_000), check=duration_pb2.Duration(seconds=9999))
    assert job(limits=limits).budgets == PhaseBudgets(1.5, 60, 600, 60)


def test_the_task_digest_covers_source_format_precision_and_track_only():
    base = job().task.digest
    assert job(task=task_pb2.Task(name="other.py", source="x = 1")).task.digest == base
    assert job(task=task_pb2.Task(source="x = 1", precision=task_pb2.PRECISION_CLASS_FP32)).task.digest == base
    for other in (
        task_pb2.Task(source="x = 2"),
        task_pb2.Task(source="x = 1", precision=task_pb2.PRECISION_CLASS_BF16),
        task_pb2.Task(source="x = 1", track=task_pb2.TRACK_TRITON_ONLY),
        task_pb2.Task(source="x = 1", format=task_pb2.TASK_FORMAT_FUNCTION),
    ):
        assert job(task=other).task.digest != base


def test_a_kernel_digest_does_not_depend_on_layout():
    assert kernel_digest("x = 1  # note") == kernel_digest("x=1")
    assert kernel_digest("x = 1") != kernel_digest("x = 2")
    assert kernel_digest("not python (") == kernel_digest("  not python (\n")
    assert job(kernel=kernel_pb2.Kernel(source="y = 1", digest=kernel_digest("y = 1"))).kernel == "y = 1"


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"task": task_pb2.Task(source=" \n")}, "SOURCE_EMPTY", "task.source"),
        ({"kernel": kernel_pb2.Kernel()}, "SOURCE_EMPTY", "kernel.source"),
        ({"kernel": kernel_pb2.Kernel(source="x" * (2**20 + 1))}, "SOURCE_TOO_LARGE", "kernel.source"),
        ({"kernel": kernel_pb2.Kernel(source="y = 1", digest="0" * 64)}, "DIGEST_MISMATCH", "kernel.digest"),
        ({"device": kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA)}, "DEVICE_NOT_AVAILABLE", "device.kind"),
        ({"device": kernel_pb2.DeviceSpec(gpu=0)}, "DEVICE_NOT_AVAILABLE", "device.gpu"),
        ({"device": kernel_pb2.DeviceSpec(target="sm_1")}, "TARGET_UNKNOWN", "device.target"),
        ({"task": task_pb2.Task(source="x", precision=task_pb2.PRECISION_CLASS_FP8)}, "REQUEST_INVALID", "task.precision"),
        ({"task": task_pb2.Task(source="x", precision=task_pb2.PRECISION_CLASS_INT8)}, "REQUEST_INVALID", "task.precision"),
        ({"task": task_pb2.Task(source="x", track=77)}, "REQUEST_INVALID", "task.track"),
        ({"request_id": "r" * 129}, "REQUEST_INVALID", "request_id"),
        ({"limits": pb.PhaseLimits(setup=duration_pb2.Duration(seconds=-1))}, "REQUEST_INVALID", "limits.setup"),
    ],
)
def test_a_wrong_request_names_its_field(changes, reason, field):
    with pytest.raises(InvalidArgumentError) as error:
        job(**changes)
    assert error.value.reason == reason
    assert [violation.field for violation in error.value.violations] == [field]
    assert error.value.message.startswith(field)


def test_an_unsupported_class_says_what_is_supported():
    with pytest.raises(InvalidArgumentError, match="FP32, TF32, BF16 and FP16"):
        job(task=task_pb2.Task(source="x", precision=task_pb2.PRECISION_CLASS_FP8))


def snippet(**changes):
    fields = {"source": "...", "function_name": "k", "signature": {"x": "*fp32"}, "constexprs": {"B": "128", "F": "True", "N": "None"}}
    return pb.CompileKernelRequest(snippet=skill_pb2.KernelSnippet(**{**fields, **changes}), target="gfx942")


def test_constexprs_are_literals():
    found = convert.compile_job(snippet()).snippet
    assert found.constexprs == {"B": 128, "F": True, "N": None}
    assert (found.num_warps, found.num_stages) == (4, 2)


@pytest.mark.parametrize(
    "changes",
    [{"function_name": ""}, {"function_name": "a b"}, {"constexprs": {"B": "print()"}}, {"constexprs": {"B": "[1]"}}, {"num_warps": -1}],
)
def test_a_wrong_snippet_is_refused(changes):
    with pytest.raises(InvalidArgumentError) as error:
        convert.compile_job(snippet(**changes))
    assert error.value.reason == "SNIPPET_INVALID"


def test_results_become_messages_with_absent_figures_absent():
    result = {
        "verdict": "VERDICT_FAILED",
        "cause": "CAUSE_NUMERIC",
        "phase": "PHASE_CHECK",
        "timing": {"status": "TIMING_STATUS_NOT_RUN"},
        "checks": [{"family": "own", "passed": False, "error": "Infinity", "budget": 1e-6}],
        "phase_times": [{"phase": "PHASE_CHECK", "elapsed": "1.500000s"}],
    }
    found = convert.evaluation(result).evaluation
    assert found.verdict == evaluation_pb2.VERDICT_FAILED
    assert not found.timing.HasField("median_us")
    assert found.checks[0].error == float("inf")
    assert found.phase_times[0].elapsed.ToMilliseconds() == 1500


def test_devices_tell_health_and_targets():
    platform = {"device": "DEVICE_KIND_CPU", "device_name": "cpu (interpreted)", "sandbox_level": "namespaces"}
    found = convert.devices(pb.ListDevicesRequest(), platform, "", 4096)
    (device,) = found.devices
    assert (device.healthy, device.targets[0], device.sandbox_level) == (True, "sm_90", "namespaces")
    assert not device.tasks_bounded
    assert convert.devices(pb.ListDevicesRequest(), platform | {"tasks_bounded": True}, "", 4096).devices[0].tasks_bounded
    assert device.timing == evaluation_pb2.TIMING_STATUS_ESTIMATED
    (device,) = convert.devices(pb.ListDevicesRequest(), platform, "no bwrap", 4096).devices
    assert (device.healthy, device.message) == (False, "no bwrap")
    with pytest.raises(InvalidArgumentError):
        convert.devices(pb.ListDevicesRequest(page_token="x"), platform, "", 0)


GPUS = (Gpu(0, "GPU-a", "NVIDIA H200", 2**37, "sm_90"), Gpu(2, "GPU-b", "NVIDIA A100", 2**36, "sm_80"))


@pytest.mark.parametrize(
    ("device", "place"),
    [
        ({}, Place("sm_90", "cuda", 0)),  # the second is of another kind
        ({"gpu": 2}, Place("sm_80", "cuda", 2)),
        ({"gpu": 0, "target": "sm_90"}, Place("sm_90", "cuda", 0)),
    ],
)
def test_a_gpu_that_is_asked_for_gives_its_own_target(device, place):
    spec = kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA, **device)
    assert convert.evaluate_job(request(device=spec), DEFAULTS, 600, GPUS).place == place
    assert convert.describe_job(pb.DescribeTaskRequest(task=request().task, device=spec), GPUS).place == place


def test_of_gpus_that_are_alike_any_will_do():
    spec = kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA, target="sm_90")
    alike = (GPUS[0], Gpu(1, "GPU-c", "NVIDIA H200", 2**37, "sm_90"))
    assert convert.evaluate_job(request(device=spec), DEFAULTS, 600, alike).place == Place("sm_90", "cuda", None)


@pytest.mark.parametrize(
    ("device", "reason", "field", "says"),
    [
        ({"gpu": 1}, "DEVICE_NOT_AVAILABLE", "device.gpu", "0, 2"),
        ({"gpu": 2, "target": "sm_90"}, "TARGET_UNKNOWN", "device.target", "sm_80"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(device, reason, field, says):
    spec = kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA, **device)
    with pytest.raises(InvalidArgumentError) as error:
        convert.evaluate_job(request(device=spec), DEFAULTS, 600, GPUS)
    assert (error.value.reason, error.value.violations[0].field) == (reason, field)
    assert says in error.value.message


def test_results_of_different_devices_never_share_a_cache_entry():
    on_gpu = [
        convert.evaluate_job(request(device=kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA, gpu=gpu)), DEFAULTS, 600, GPUS).key
        for gpu in (0, 2)
    ]
    assert len({*on_gpu, job().key}) == 3


def test_gpus_are_listed_after_the_cpu_with_their_health():
    cpu = {"device": "DEVICE_KIND_CPU", "sandbox_level": "namespaces"}
    gpus = [(GPUS[0], {"sandbox_level": "namespaces"}, ""), (GPUS[1], {}, "it fell off the bus")]
    _, first, second = convert.devices(pb.ListDevicesRequest(), cpu, "", 4096, gpus).devices
    assert (first.kind, first.gpu, list(first.targets), first.healthy) == (kernel_pb2.DEVICE_KIND_CUDA, 0, ["sm_90"], True)
    assert first.timing == evaluation_pb2.TIMING_STATUS_MEASURED
    assert (second.gpu, second.healthy, second.message) == (2, False, "it fell off the bus")


def test_a_sanitizer_is_refused_where_it_cannot_run(monkeypatch):
    with pytest.raises(InvalidArgumentError, match="cuda") as raised:
        job(sanitizer=evaluation_pb2.SANITIZER_MEMCHECK)
    assert raised.value.reason == "SANITIZER_NOT_AVAILABLE"
    monkeypatch.setattr(convert, "find_sanitizer", lambda: None)
    cuda = kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA)
    gpus = (Gpu(0, "GPU-0", "a GPU", "sm_90", 1 << 30),)
    with pytest.raises(FailedPreconditionError, match="install"):
        convert.evaluate_job(request(sanitizer=evaluation_pb2.SANITIZER_RACECHECK, device=cuda), DEFAULTS, 600, gpus)


def test_a_sanitizer_is_part_of_what_decides_the_result():
    plain = job()
    assert dataclasses.replace(plain, sanitizer="memcheck").key != plain.key


def profile_job(**changes):
    fields = {"task": task_pb2.Task(source="x = 1"), "kernel": kernel_pb2.Kernel(source="y = 1")}
    return convert.profile_job(pb.ProfileKernelRequest(**{**fields, **changes}), DEFAULTS, 600, GPUS)


def test_a_profile_on_the_cpu_device_is_an_evaluation_and_on_a_gpu_it_is_more():
    device = kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA)
    assert profile_job().key == job().key
    assert not profile_job().profile
    assert profile_job(device=device).profile
    assert profile_job(device=device).key != convert.evaluate_job(request(device=device), DEFAULTS, 600, GPUS).key


def test_limits_and_identity_of_a_request_for_a_profile_are_those_of_an_evaluation():
    found = profile_job(request_id="r", limits=pb.PhaseLimits(check=duration_pb2.Duration(seconds=5)), cache_mode=pb.CACHE_MODE_BYPASS)
    assert (found.request_id, found.budgets.check_s, found.use_cache) == ("r", 5.0, False)
    with pytest.raises(InvalidArgumentError) as error:
        profile_job(kernel=kernel_pb2.Kernel(source=" "))
    assert error.value.reason == "SOURCE_EMPTY"


def test_the_messages_of_a_profile_are_those_of_an_evaluation():
    assert convert.profile_event(convert.stage("CHECK", "comparing")).progress.message == "comparing"
    assert convert.profile_event(convert.evaluation({"verdict": "VERDICT_FAILED"})).evaluation.verdict == evaluation_pb2.VERDICT_FAILED
