import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
import triton.testing
from adaexplore_evaluator.runner import outputs
from adaexplore_evaluator.runner.conduct import Conduct
from adaexplore_evaluator.runner.errors import RunnerError

from .test_candidate import forward, load, prepare, run

OUTSIDE = [
    ("os.kill", (os.getppid(), signal.SIGTERM), "signals"),
    ("os.kill", (-1, signal.SIGTERM), "signals"),
    ("os.killpg", (0, signal.SIGTERM), "signals"),
    ("ctypes.dlsym", (None, "ptrace"), "ptrace"),
    ("socket.connect", (None, ("127.0.0.1", 1)), "network"),
    ("socket.bind", (None, ("127.0.0.1", 0)), "network"),
]


class Watched:
    def __init__(self):
        hears = []
        self.conduct = Conduct(lambda: __file__, hears.append)
        self.conduct.watch()
        (self.hear,) = hears

    def error(self):
        with pytest.raises(RunnerError) as raised:
            self.conduct.demand_proper()
        return raised.value


@pytest.fixture
def watched():
    return Watched()


@pytest.mark.parametrize(
    ("holder", "name", "named"),
    [
        (time, "perf_counter", "time.perf_counter"),
        (random, "random", "random.random"),
        (torch, "allclose", "torch.allclose"),
        (torch.cuda, "synchronize", "torch.cuda.synchronize"),
        (torch.cuda.Event, "elapsed_time", "torch.cuda.Event.elapsed_time"),
        (torch.Tensor, "normal_", "torch.Tensor.normal_"),
        (triton.testing, "do_bench", "triton.testing.do_bench"),
        (outputs, "digest", "outputs.digest"),
        (outputs.EarlierOutputs, "demand_untouched", "outputs.EarlierOutputs.demand_untouched"),
    ],
)
def test_a_function_that_is_replaced_is_named(watched, monkeypatch, holder, name, named):
    watched.conduct.demand_proper()
    with monkeypatch.context() as patch:
        patch.setattr(holder, name, lambda *_: 0.0)
        error = watched.error()
    assert error.kind == "tamper"
    assert named in error.message
    watched.conduct.demand_proper()


def test_a_function_that_is_added_is_fine(watched, monkeypatch):
    monkeypatch.setattr(torch, "helper_of_a_file", len, raising=False)
    watched.conduct.demand_proper()


@pytest.mark.parametrize(("event", "arguments", "named"), OUTSIDE)
def test_what_reaches_out_is_stopped_and_remembered_where_the_exception_is_caught(watched, event, arguments, named):
    with pytest.raises(RunnerError, match=named):
        watched.hear(event, arguments)
    error = watched.error()
    assert (error.kind, named in error.message, error.line > 0) == ("tamper", True, True)


def test_its_own_processes_may_be_signalled_and_others_asked_for(watched):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        watched.hear("os.kill", (child.pid, signal.SIGTERM))
        child.communicate(b"\n")
    watched.hear("os.kill", (os.getpid(), signal.SIGTERM))
    watched.hear("os.kill", (os.getppid(), 0))
    watched.hear("ctypes.dlsym", (None, "cos"))
    watched.conduct.demand_proper()


HONEST = """
import subprocess
import torch._dynamo, torch.distributed, torch.fx, torch.func, torch.export
torch.manual_seed(1)
torch.set_float32_matmul_precision("high")
child = subprocess.Popen(["sleep", "60"])
child.kill()
child.wait()
"""


def test_late_imports_seeds_switches_and_children_are_fine(start_runner, write):
    runner, path = start_runner("candidate"), write(forward("return x * 2.0", HONEST))
    prepare(runner, path)
    assert run(runner, torch.ones(2, 3))[1]["ok"]


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ("torch.cuda.Event.elapsed_time = lambda *_: 0.1", "torch.cuda.Event.elapsed_time"),
        ("torch.cuda.synchronize = lambda *_: None", "torch.cuda.synchronize"),
    ],
)
def test_functions_of_the_virtual_device_are_watched_too(start_runner, write, before, named):
    found = load(start_runner("candidate"), write(forward("return x * 2.0", before)))
    assert (found["ok"], found["error"]["kind"]) == (False, "tamper")
    assert named in found["error"]["message"]


def test_a_candidate_that_catches_what_stops_it_is_named_with_its_line(start_runner, write):
    body = "import socket\ntry:\n    socket.socket().connect(('127.0.0.1', 1))\nexcept Exception:\n    pass\nreturn x * 2.0"
    runner = start_runner("candidate")
    prepare(runner, write(forward(body)))
    _, found = run(runner, torch.ones(2, 3))
    assert (found["error"]["kind"], found["error"]["line"]) == ("tamper", 7)


def test_a_trace_function_that_is_left_is_named(start_runner, write):
    runner = start_runner("candidate")
    prepare(runner, write(forward("import sys\nsys.setprofile(lambda *_: None)\nreturn x * 2.0")))
    _, found = run(runner, torch.ones(2, 3))
    assert (found["error"]["kind"], "trace" in found["error"]["message"]) == ("tamper", True)
