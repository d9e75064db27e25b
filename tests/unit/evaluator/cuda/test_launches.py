"""What a runner on a GPU says while it compiles and tunes, and whose time that is."""

import types

import pytest
from adaexplore_evaluator.referee.clock import CHECK, COMPILE, TUNE, PhaseClock
from adaexplore_evaluator.referee.verdicts import timed_out
from adaexplore_evaluator.runner.cuda.launches import LaunchRecorder
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

TUNER = types.SimpleNamespace(base_fn=lambda: None)
TUNER.base_fn.__name__ = "scale_kernel"
KERNEL = types.SimpleNamespace(fn=TUNER.base_fn)


def scale_kernel(x, function, run):
    pass


@pytest.fixture
def told(monkeypatch):
    """A recorder whose kernels compile and whose configurations are timed without a GPU, and what it reported."""
    reports = []
    monkeypatch.setattr(JITFunction, "_do_compile", lambda _function: "compiled")
    monkeypatch.setattr(Autotuner, "_bench", lambda _tuner, ms, config: [JITFunction._do_compile(KERNEL) and ms, ms, ms])
    recorder = LaunchRecorder(lambda phase, text: reports.append((phase, text)))
    recorder.checking = True
    return recorder, reports


def test_compiling_and_tuning_are_told_with_what_is_known_so_far(told):
    recorder, reports = told
    with recorder.installed():
        Autotuner._bench(TUNER, 2.0, config="BLOCK: 512")
        Autotuner._bench(TUNER, 3.0, config="BLOCK: 1024")
    nothing, one = "no configuration of scale_kernel is timed yet", "1 configurations of scale_kernel are timed, the fastest BLOCK: 512"
    assert reports == [
        ("tune", nothing),
        ("compile", "scale_kernel"),
        ("tune", nothing),
        ("check", nothing),
        ("tune", one),
        ("compile", "scale_kernel"),
        ("tune", one),
        ("check", one),
    ]


def test_a_benchmark_that_gives_one_number_is_understood(told, monkeypatch):
    recorder, reports = told
    monkeypatch.setattr(Autotuner, "_bench", lambda _tuner, ms, config: ms)
    with recorder.installed():
        assert Autotuner._bench(TUNER, 2.0, config="BLOCK: 512") == 2.0
        Autotuner._bench(TUNER, 3.0, config="BLOCK: 1024")
    assert reports[-1][1].endswith("the fastest BLOCK: 512")


def test_kernels_may_have_arguments_of_any_name(monkeypatch):
    metadata = types.SimpleNamespace(num_warps=4, num_stages=3, shared=0)
    kernel = types.SimpleNamespace(metadata=metadata)
    monkeypatch.setattr(JITFunction, "run", lambda _self, *_args, grid, warmup, **_kwargs: kernel)
    scale = JITFunction(scale_kernel)
    recorder = LaunchRecorder(lambda *_: None)
    with recorder.installed():
        scale[(8,)](1, function=2, run=3)
    (record,) = recorder.records
    assert (record["name"], record["grid"], record["resources"]["registers"]) == ("scale_kernel", [8], 0)


def test_outside_of_checks_nothing_is_told(told):
    recorder, reports = told
    recorder.checking = False
    with recorder.installed():
        Autotuner._bench(TUNER, 2.0, config="BLOCK: 512")
    assert reports == []


def test_a_timeout_while_tuning_says_what_was_learnt():
    now = [0.0]
    clock = PhaseClock({CHECK: 10, COMPILE: 5}, lambda: now[0], lambda *_: None)
    clock.begin(CHECK)
    clock.enter("tune", "3 configurations of scale_kernel are timed,\n the fastest BLOCK: 512")
    now[0] = 6.0
    finding = timed_out(clock)
    assert (finding.cause, finding.phase, clock.left_s()) == ("TIMEOUT", TUNE, -1.0)
    assert finding.failure.message.endswith("so far: 3 configurations of scale_kernel are timed, the fastest BLOCK: 512")
