"""The server as its callers see it: typed errors, artefacts, cancellation, lost workers."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from adaexplore_evaluator.sandbox import Limits, Sandbox, SandboxLevel

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.runtime.errors import InvalidArgumentError, NotFoundError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, skill_pb2, task_pb2

from .conftest import cause_of, evaluate, kernel, start_server, task, verdict_of

SNIPPET = """
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.FUNCTION(tl.load(x + at, mask=at < n)), mask=at < n)
"""

DISTURBS = """
import os
import torch

with open("/proc/self/cmdline") as file:
    words = file.read().split("\\0")
SHARED = words[words.index("--buffers") + 1]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        try:
            DEED
        except FileExistsError:  # it was done in an earlier call
            pass
        return x * 2.0 + 1.0
"""


def compile_request(function, target="sm_90"):
    snippet = skill_pb2.KernelSnippet(
        source=SNIPPET.replace("FUNCTION", function),
        function_name="scale_kernel",
        signature={"x": "*fp32", "n": "i32"},
        constexprs={"BLOCK": "256"},
    )
    return pb.CompileKernelRequest(snippet=snippet, target=target)


def test_devices_and_platform_are_told(client):
    found = client.list_devices(pb.ListDevicesRequest(), 120)
    (device,) = found.devices
    assert device.kind == kernel_pb2.DEVICE_KIND_CPU
    assert device.healthy
    assert device.targets[0] == "sm_90"
    assert device.sandbox_level in ("namespaces", "process")
    assert found.platform.torch_version
    assert found.platform.triton_version


def test_a_task_is_described_with_audit_and_baselines(client):
    found = client.describe_task(pb.DescribeTaskRequest(task=task("two_layers")), 500)
    description = found.description
    assert description.audit.valid
    assert description.entry_point == "ModelNew"
    assert [item.name for item in description.state] == ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert {control.name for control in description.audit.controls} >= {"zeros", "mean", "previous_output"}
    assert all(control.refused for control in description.audit.controls)
    assert 0 < description.audit.reference_error < description.audit.error_budget
    assert len(description.graph.calls) >= 3
    assert {item.kind for item in found.baselines} == {evaluation_pb2.BASELINE_KIND_EAGER, evaluation_pb2.BASELINE_KIND_COMPILED}
    assert found.platform.target == "sm_90"


def test_a_task_that_cannot_judge_is_a_successful_answer(client):
    found = client.describe_task(pb.DescribeTaskRequest(task=task_pb2.Task(name="mine.py", source="def broken(:")), 500)
    assert not found.description.audit.valid
    assert found.description.audit.cause == "REFERENCE_FAILS"
    assert "mine.py, line 1" in found.description.audit.message
    assert not found.baselines


def test_a_task_that_crashes_its_process_is_invalid_and_not_our_loss(client):
    source = "import ctypes\n" + task("scale").source.replace("return x * 2.0 + 1.0", "return ctypes.string_at(0)")
    found = client.describe_task(pb.DescribeTaskRequest(task=task_pb2.Task(name="mine.py", source=source)), 500)
    assert found.description.audit.cause == "REFERENCE_FAILS"
    assert "mine.py was killed by SIGSEGV" in found.description.audit.message


@pytest.mark.parametrize(("target", "kind"), [("sm_90", pb.ARTIFACT_KIND_CUBIN), ("gfx942", pb.ARTIFACT_KIND_HSACO)])
def test_a_snippet_is_compiled_and_its_artefact_is_kept(client, target, kind):
    found = client.compile_kernel(compile_request("exp", target), 500)
    assert found.compiled, found.failure
    assert found.resources.registers > 0
    (artifact,) = [item for item in found.artifacts if item.kind == kind]
    chunks = [message.chunk for message in client.get_artifact(pb.GetArtifactRequest(digest=artifact.digest), 120)]
    assert len(b"".join(chunks)) == artifact.size_bytes


def test_a_snippet_that_does_not_compile_is_a_successful_answer(client):
    found = client.compile_kernel(compile_request("no_such_function"), 500)
    assert not found.compiled
    assert found.cause == evaluation_pb2.CAUSE_COMPILE
    assert "no_such_function" in found.failure.message
    assert found.failure.line == 9
    assert found.failure.signature.startswith("COMPILE|COMPILE|")


def test_a_missing_artefact_is_not_found(client):
    with pytest.raises(NotFoundError) as error:
        list(client.get_artifact(pb.GetArtifactRequest(digest="0" * 64), 120))
    assert error.value.reason == "ARTIFACT_NOT_FOUND"


def test_a_wrong_request_is_refused_with_its_field(client):
    with pytest.raises(InvalidArgumentError) as error:
        evaluate(client, task_pb2.Task(source=""), kernel("scale"))
    assert (error.value.reason, error.value.violations[0].field) == ("SOURCE_EMPTY", "task.source")
    assert error.value.domain == "evaluator.adaexplore"


def test_a_repeated_request_and_a_repeated_candidate_are_answered_at_once(client):
    first, _ = evaluate(client, task("scale"), kernel("scale"), request_id="once")
    again, phases = evaluate(client, task("scale"), kernel("scale"), request_id="once")
    assert again == first
    assert phases == []
    cached, _ = evaluate(client, task("scale"), kernel("scale"))
    assert cached.cached


def test_a_cancelled_call_stops_the_work_and_the_next_is_unharmed(client):
    request = pb.EvaluateKernelRequest(task=task("scale"), kernel=kernel("hangs_in_forward"))
    stages = client.evaluate_kernel(request, 500)
    for stage in stages:
        if stage.progress.phase == evaluation_pb2.PHASE_COMPILE:
            break
    stages.close()
    found, _ = evaluate(client, task("scale"), kernel("returns_input"))
    assert (verdict_of(found), cause_of(found)) == ("FAILED", "NUMERIC")


def test_a_referee_that_is_killed_is_replaced_and_the_request_answered(client, server):
    referee = _only_referee(server)

    def kill():
        time.sleep(1.0)
        os.kill(referee, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found, _ = evaluate(client, task("scale"), kernel("scale"), cache_mode=pb.CACHE_MODE_BYPASS)
    killer.join()
    assert verdict_of(found) == "PASSED"
    assert len(server.runner_folders()) <= 4


def test_a_candidate_reaches_neither_files_nor_network_nor_task(client, server):
    if client.list_devices(pb.ListDevicesRequest(), 120).devices[0].sandbox_level != "namespaces":
        pytest.skip("this host allows no namespaces")
    places = f'REPOSITORY, PORT = "{Path(__file__).parents[3]}", {server.address.rpartition(":")[2]}'
    source = kernel("peeks").source.replace('REPOSITORY, PORT = "", 0', places)
    found, _ = evaluate(client, task("scale"), kernel_pb2.Kernel(source=source))
    assert verdict_of(found) == "PASSED", found.failure


@pytest.mark.parametrize(
    ("deed", "verdict", "cause"),
    [
        ("os.mkdir(SHARED + '/x')", "REJECTED", "FORGED_RESULT"),
        ("os.mkdir(SHARED + '/x'); os.chmod(SHARED + '/x', 0); os.chmod(SHARED, 0)", "FAILED", "RUNTIME"),
        ("[(os.mkdir('x'), os.chdir('x')) for _ in range(2000 * (not os.chdir(SHARED)))]", "REJECTED", "FORGED_RESULT"),
        ("[os.unlink(SHARED + '/' + name) for name in os.listdir(SHARED)]", "REJECTED", "FORGED_RESULT"),
    ],
)
def test_what_a_candidate_does_to_the_shared_folder_is_a_verdict(client, server, deed, verdict, cause):
    found, _ = evaluate(client, task("scale"), kernel_pb2.Kernel(source=DISTURBS.replace("DEED", deed)))
    assert (verdict_of(found), cause_of(found)) == (verdict, cause), found.failure
    found, _ = evaluate(client, task("scale"), kernel("scale"), cache_mode=pb.CACHE_MODE_BYPASS)
    assert verdict_of(found) == "PASSED", found.failure
    assert len(server.runner_folders()) <= 2


def test_a_server_that_is_killed_leaves_no_process(tmp_path):
    started = start_server(tmp_path)
    tree = started.tree()
    assert len(tree) > 2
    started.process.kill()
    started.process.wait(timeout=240)
    started.process.stdout.close()
    for _ in range(200):
        left = [pid for pid in tree if _command(pid)]
        if not left:
            break
        time.sleep(0.1)
    assert left == []


def test_the_process_level_judges_too(tmp_path, monkeypatch):
    # Without bwrap on the path there are no namespaces.
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    started = start_server(tmp_path)
    try:
        with EvaluatorClient(started.address) as client:
            assert client.list_devices(pb.ListDevicesRequest(), 120).devices[0].sandbox_level == "process"
            found, _ = evaluate(client, task("scale"), kernel("forks"))
            assert (verdict_of(found), cause_of(found)) == ("REJECTED", "HIDDEN_WORK"), found.failure
            found, _ = evaluate(client, task("scale"), kernel("scale"))
            assert verdict_of(found) == "PASSED", found.failure
            assert found.platform.sandbox_level == "process"
            runners = [pid for pid in started.tree() if "adaexplore_evaluator.runner" in _command(pid)]
            assert len(runners) <= 2
    finally:
        started.stop()


@pytest.mark.parametrize("isolated", [True, False])
def test_a_server_warns_where_candidates_are_not_isolated_and_only_there(tmp_path, monkeypatch, isolated):
    if isolated and Sandbox(SandboxLevel.PROCESS, Limits()).level is SandboxLevel.PROCESS:
        pytest.skip("this host allows no namespaces")
    if not isolated:
        monkeypatch.setenv("PATH", str(tmp_path))
    command = [sys.executable, "-m", "adaexplore_evaluator", "--listen", "127.0.0.1:0", "--workers", "1", "--scratch-root", str(tmp_path)]
    with (tmp_path / "log").open("w+") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        process.stdout.readline()
        process.terminate()
        process.wait(timeout=240)
        log.seek(0)
        warned = [line for line in log if "not isolated" in line]
    assert len(warned) == (0 if isolated else 1)
    assert all("--require-sandbox namespaces" in line for line in warned)


def test_a_sandbox_below_the_demand_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="exit code 1"):
        start_server(tmp_path, "--require-sandbox", "namespaces")


def _only_referee(server):
    # A referee about to start a program is two processes with one command line for a moment, and a replaced one ends beside its successor.
    for _ in range(200):
        found = [pid for pid in server.tree() if "adaexplore_evaluator.referee" in _command(pid)]
        if len(found) == 1:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"not one referee but {found}")


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def profile(client, name, **fields):
    request = pb.ProfileKernelRequest(task=task("scale"), kernel=kernel(name), **fields)
    events = list(client.profile_kernel(request, 500))
    assert [event.WhichOneof("event") for event in events].count("evaluation") == 1
    return events[-1].evaluation


def test_a_kernel_that_passes_is_profiled_from_the_estimate(client):
    found = profile(client, "scale")
    assert verdict_of(found) == "PASSED", found.failure
    launch, told = found.launches[0], found.profile
    assert launch.registers > 0
    assert launch.HasField("shared_bytes")
    assert launch.HasField("spill_bytes")
    assert 0 < launch.occupancy <= 1
    assert launch.time_share == pytest.approx(1.0)
    assert launch.bytes_per_second > 0
    assert launch.limit
    assert told.least_work.bytes == 2 * 4 * 200 * 300
    assert told.ceilings.bytes_per_second > 1e12
    assert not told.ceilings.measured
    assert 0 < told.roofline_share < 1
    assert told.counter_status == evaluation_pb2.COUNTER_STATUS_NOT_ON_DEVICE
    assert len(told.text) <= 1500
    assert launch.name in told.text
    same, _ = evaluate(client, task("scale"), kernel("scale"))
    assert same.profile == told


def test_a_kernel_that_fails_has_its_verdict_and_no_profile(client):
    found = profile(client, "returns_input")
    assert (verdict_of(found), cause_of(found)) == ("FAILED", "NUMERIC")
    assert not found.HasField("profile")
