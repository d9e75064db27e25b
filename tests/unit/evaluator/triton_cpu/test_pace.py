import math

import pytest
import torch
import triton
import triton.language as tl
from adaexplore_evaluator.runner.triton_cpu import TooSlow
from adaexplore_evaluator.runner.triton_cpu.pace import Pace


@triton.jit
def repeated(x, o, n, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for _ in range(n):
        total += tl.load(x + offsets)
    tl.store(o + offsets, total)


@triton.jit
def repeated_freely(x, o, n, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    done = 0
    while done < n:
        for _ in range(2):
            total += tl.load(x + offsets)
        done += 2
    tl.store(o + offsets, total)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def started(limit_s, programs, bounded=True):
    clock = Clock()
    pace = Pace(limit_s, clock)
    pace.begin("kernel", 7, programs, bounded)
    return pace, clock


def end_programs(pace, clock, count, each_s):
    for _ in range(count):
        clock.now_s += each_s
        pace.program_ended()


def test_programs_that_would_take_too_long_together_are_given_up_early():
    pace, clock = started(8.0, 1000)
    with pytest.raises(TooSlow, match=r"1000 programs.*about 100 s") as error:
        end_programs(pace, clock, 1000, 0.1)
    assert clock.now_s < 2.2
    assert (error.value.kernel_name, error.value.line) == ("kernel", 7)


def test_a_slow_first_program_alone_foretells_nothing():
    pace, clock = started(8.0, 1000)
    clock.now_s += 1.9
    end_programs(pace, clock, 1000, 0.005)


def test_the_launches_of_a_call_share_its_time():
    pace, clock = started(8.0, 1)
    clock.now_s += 6.0
    pace.program_ended()
    pace.end()
    clock.now_s += 100.0  # the host's own time
    pace.begin("next", 9, 10, bounded=True)
    clock.now_s += 1.0
    pace.iteration_ended()
    clock.now_s += 1.5
    with pytest.raises(TooSlow):
        pace.iteration_ended()


def test_iterations_inside_of_a_loop_that_may_never_end_are_no_progress():
    pace, clock = started(8.0, 10, bounded=False)
    clock.now_s += 100.0
    pace.iteration_ended()


@pytest.mark.parametrize("limit_s", [-1.0, math.inf])
def test_a_kernel_with_loops_is_given_up_only_beyond_its_limit(session, limit_s):
    x, o = torch.ones(128), torch.zeros(128)
    with session(interpreting_s=limit_s):
        if limit_s < 0:
            with pytest.raises(TooSlow, match=r"repeated.*1 programs"):
                repeated[(1,)](x, o, 6, B=128)
            # Its program ends, which is progress of the launch but not of the loop.
            with pytest.raises(TooSlow, match="repeated_freely"):
                repeated_freely[(1,)](x, o, 6, B=128)
        else:
            repeated[(1,)](x, o, 6, B=128)
    assert torch.all(o == 6.0)


def test_what_a_tuner_tries_has_time_of_its_own(session):
    tuned = triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])(repeated)
    x, o = torch.ones(128), torch.zeros(128)
    with session(interpreting_s=math.inf, tuning_s=-1.0), pytest.raises(TooSlow):
        tuned[lambda meta: (128 // meta["B"],)](x, o, 3)
    with session(interpreting_s=-1.0), pytest.raises(TooSlow):
        tuned[lambda meta: (128 // meta["B"],)](x, o, 3)
    assert torch.all(o[:64] == 3.0)
