import pytest
import torch
import triton
import triton.language as tl
from adaexplore_evaluator.runner.triton_cpu.execution import Interpreter


@triton.jit
def double_row(x, o, n, B: tl.constexpr):
    offsets = tl.arange(0, B)
    tl.store(o + offsets, tl.load(x + offsets, mask=offsets < n) * 2.0, mask=offsets < n)


@pytest.fixture
def samples(monkeypatch):
    """How often a launch is sampled for its traffic."""
    taken = []
    run_sample = Interpreter.run_sample

    def counted(interpreter, *arguments):
        taken.append(arguments)
        return run_sample(interpreter, *arguments)

    monkeypatch.setattr(Interpreter, "run_sample", counted)
    return taken


def launch_rows(session, x, columns):
    o = torch.empty_like(x)
    with session(mode="full", store_programs=4) as found:
        for number in range(len(x)):
            double_row[(1,)](x[number], o[number], columns(number), B=64)
    return found


def test_of_many_like_launches_few_are_sampled_and_all_are_told(session, samples):
    found = launch_rows(session, torch.zeros(400, 64), lambda _number: 64)
    assert 32 <= len(samples) < 200
    assert len(found.launches) == 400
    assert all(launch.traffic.dram_write_bytes == 256 for launch in found.launches)
    (coverage,) = found.coverage.coverages()
    assert coverage.coverage == pytest.approx(1.0)


def test_launches_that_write_less_after_many_like_ones_are_noticed(session, samples):
    found = launch_rows(session, torch.zeros(400, 64), lambda number: 64 if number < 100 else 2)
    (coverage,) = found.coverage.coverages()
    assert coverage.coverage < 0.6


def test_launches_that_differ_are_all_sampled(session, samples):
    with session(mode="full"):
        for number in range(40):
            double_row[(number + 1,)](torch.zeros(64), torch.zeros(64), 64, B=64)
    assert len(samples) == 40
