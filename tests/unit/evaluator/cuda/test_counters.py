"""Reading counters in the real sandbox; the tool is a stand-in that runs its program and prints what Nsight Compute would."""

from types import SimpleNamespace

import pytest
import torch
from adaexplore_evaluator.nsight import NsightCompute
from adaexplore_evaluator.referee.cuda.counters import read_counters, with_counters
from adaexplore_evaluator.referee.cuda.sanitizing import Order
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.reference import Made
from adaexplore_evaluator.referee.tasks import JobCancelledError
from adaexplore_evaluator.sandbox import Limits, Sandbox, SandboxLevel

CANDIDATE = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + 1
"""
COUNTED = """==PROF== Connected
"ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum"
"","","byte","ns"
"0","add_kernel","2,048","3,000"
"""
# The program follows --target-processes application-only.
SCRIPT = """#!/bin/sh
while [ "$1" != application-only ]; do [ "$1" = --log-file ] && log="$2"; shift; done
shift
{run}
cat > "$log" <<'LOG'
{log}
LOG
"""


@pytest.fixture
def fleet(tmp_path):
    with Fleet(Sandbox(SandboxLevel.PROCESS, Limits(), root=tmp_path)) as made:
        yield made


@pytest.fixture
def stand_in(tmp_path):
    def make(log, run='"$@"'):
        program = tmp_path / "ncu"
        program.write_text(SCRIPT.format(run=run, log=log))
        program.chmod(0o755)
        return NsightCompute(program, tmp_path)

    return make


def read(fleet, program, source=CANDIDATE, restricted=False, elements=4, cancelled=lambda: False, budget_s=120.0):
    case = SimpleNamespace(made=Made([torch.ones(1).expand(elements)], []), state={})
    task = SimpleNamespace(
        cases=(case,), default_cases=(case,), entry_point="ModelNew", format="module", seed=1, source=SimpleNamespace(precision="fp32")
    )
    return read_counters(fleet, program, task, Order("", source, "sm_90", False), cancelled, restricted, budget_s)


def test_counters_are_read_where_they_are_permitted(fleet, stand_in):
    found = read(fleet, stand_in(COUNTED))
    assert found["counter_status"] == "COUNTER_STATUS_READ"
    assert found["counters"] == [
        {"kernel_name": "add_kernel", "launches": 1, "values": {"dram__bytes.sum": 2048.0, "gpu__time_duration.sum": 3000.0}}
    ]


def test_a_host_that_does_not_permit_it_is_told_so_and_nothing_is_started(fleet, stand_in):
    assert read(fleet, stand_in(COUNTED), restricted=True)["counter_status"] == "COUNTER_STATUS_NOT_PERMITTED"
    denied = read(fleet, stand_in("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"))
    assert denied["counter_status"] == "COUNTER_STATUS_NOT_PERMITTED"
    assert "administrator" in denied["counter_message"]


def test_a_host_without_the_tool_says_what_to_install(fleet):
    found = read(fleet, None)
    assert (found["counter_status"], "nsight-compute" in found["counter_message"]) == ("COUNTER_STATUS_NOT_INSTALLED", True)


def test_a_run_that_shows_nothing_says_why(fleet, stand_in):
    raises = read(fleet, stand_in("==PROF== Connected"), CANDIDATE.replace("return x + 1", "raise ValueError('not here')"))
    assert raises["counter_status"] == "COUNTER_STATUS_FAILED"
    assert "not here" in raises["counter_message"]
    slow = read(fleet, stand_in(COUNTED, run="sleep 60"), budget_s=0.5)
    assert "longer than 0.5 s" in slow["counter_message"]
    large = read(fleet, stand_in(COUNTED), elements=2**27 + 1)
    assert "too many" in large["counter_message"]


def test_a_caller_who_gives_up_is_not_waited_for(fleet, stand_in):
    with pytest.raises(JobCancelledError):
        read(fleet, stand_in(COUNTED, run="sleep 60"), cancelled=lambda: True)


def test_counters_become_part_of_the_profile_and_of_its_text():
    launch = {"name": "add_kernel", "count": 1, "latency_us": 3.0, "time_share": 1.0}
    platform = {"device": "DEVICE_KIND_CUDA", "device_name": "GPU", "target": "sm_90"}
    evaluation = {"verdict": "VERDICT_PASSED", "timing": {}, "launches": [launch], "platform": platform}
    read_now = {"kernel_name": "add_kernel", "launches": 1, "values": {"dram__bytes.sum": 2048.0}}
    found = with_counters(evaluation, {"counter_status": "COUNTER_STATUS_READ", "counter_message": "", "counters": [read_now]})
    assert found["profile"]["counters"] == [read_now]
    assert "read by Nsight Compute" in found["profile"]["text"]
    assert "device memory 2.05 kB" in found["profile"]["text"]
