"""What rounds on a GPU are made into: latency, interval, and reasons to give none."""

from dataclasses import replace

import pytest
from adaexplore_evaluator.devices.cpu.baseline import BaselineKind
from adaexplore_evaluator.devices.cpu.launches import parse_launch
from adaexplore_evaluator.referee.cuda.clock import Rounds
from adaexplore_evaluator.referee.cuda.slots import slot_count
from adaexplore_evaluator.referee.cuda.timing import baseline_of, measured_launches, speedup_interval, spread, timing_of

KERNELS = (("scale_kernel", 100, 1000.0),)


def rounds(*busy_us, end_to_end_us=(25.0, 26.0, 24.0), slots=100, cold=True, span_us=10.0, kernels=KERNELS, not_captured=""):
    return Rounds(busy_us, end_to_end_us, slots, cold, not_captured, span_us, kernels, profiled=slots)


def timed(found, floor_us=1.0, baseline=(20.0, 20.2, 19.8)):
    baselines = [baseline_of(BaselineKind.EAGER, rounds(30.0, 30.0, 30.0)), baseline_of(BaselineKind.COMPILED, rounds(*baseline))]
    return timing_of(found, baselines, [], floor_us)


def test_a_latency_is_the_median_against_the_best_baseline_with_its_interval():
    timing = timed(rounds(10.0, 10.1, 9.9))
    assert (timing.status, timing.median_us, timing.end_to_end_us) == ("MEASURED", 10.0, 25.0)
    assert (timing.speedup, timing.speedup_over_eager) == (2.0, 3.0)
    assert timing.speedup_low < 2.0 < timing.speedup_high
    assert "cold caches" in timing.explanation
    assert "100% of the GPU's time is scale_kernel" in timing.explanation


def test_without_a_graph_the_latency_is_end_to_end_and_says_why():
    timing = timed(rounds(end_to_end_us=(25.0, 26.0, 24.0), not_captured="it asks the host", span_us=10.0))
    assert (timing.status, timing.median_us) == ("MEASURED", 25.0)
    assert timing.speedup == 1.0
    assert "it asks the host" in timing.explanation


def test_a_captured_candidate_is_not_compared_with_a_baseline_that_is_not():
    eager = baseline_of(BaselineKind.EAGER, rounds(end_to_end_us=(50.0, 51.0, 49.0), not_captured="it asks the host"))
    timing = timing_of(rounds(10.0, 10.1, 9.9, end_to_end_us=(25.0, 26.0, 24.0)), [eager], [], 1.0)
    assert (timing.median_us, timing.speedup) == (25.0, 2.0)
    assert "a baseline cannot be captured" in timing.explanation


def test_without_a_baseline_there_is_no_speedup():
    timing = timing_of(rounds(10.0, 10.1, 9.9), [], [], 1.0)
    assert (timing.status, timing.median_us, timing.speedup, timing.speedup_low) == ("MEASURED", 10.0, None, None)


def test_a_clock_of_the_same_moment_as_the_profiler_explains_what_load_alone_has_changed():
    loaded = rounds(209.5, 209.6, 209.4, span_us=198.9, kernels=())
    assert timing_of(loaded, [], [], 1.0).cause == "CLOCKS_DISAGREE"
    assert timing_of(replace(loaded, beside_us=200.1), [], [], 1.0).status == "MEASURED"
    assert timing_of(replace(loaded, beside_us=210.0), [], [], 1.0).cause == "CLOCKS_DISAGREE"


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (rounds(0.3, 0.4, 0.2), "BELOW_RESOLUTION"),
        (rounds(10.0, 14.0, 7.0, 13.0, 6.0), "NOISE"),
        (rounds(10.0, 10.1, 9.9, span_us=14.0), "CLOCKS_DISAGREE"),
        (rounds(10.0, 10.1, 9.9, span_us=7.0), "CLOCKS_DISAGREE"),
    ],
)
def test_a_doubtful_latency_is_not_told(found, cause):
    timing = timed(found)
    assert (timing.status, timing.cause, timing.median_us, timing.speedup) == ("INCONCLUSIVE", cause, None, None)
    assert timing.explanation
    assert timing.samples_us == found.samples_us


def test_a_latency_below_what_the_outputs_need_is_not_told_unless_the_caches_hold_them():
    assert timed(rounds(10.0, 10.1, 9.9), floor_us=12.0).cause == "ABOVE_PEAK"
    assert timed(rounds(10.0, 10.1, 9.9, cold=False), floor_us=12.0).status == "MEASURED"


def test_equal_samples_have_an_interval_around_one():
    low, high = speedup_interval((10.0, 11.0, 12.0, 10.5), (10.0, 11.0, 12.0, 10.5))
    assert low < 1.0 < high


def test_launches_carry_what_the_compiler_says_and_their_share_of_time():
    record = {"kind": "triton", "name": "scale_kernel", "grid": [4], "num_warps": 4, "num_stages": 3, "count": 1}
    record["resources"] = {"registers": 32, "spill_bytes": 0, "shared_bytes": 64, "num_warps": 4, "num_ctas": 1}
    kernels = (("scale_kernel", 100, 300.0), ("ampere_sgemm", 100, 900.0))
    scale, product = measured_launches(rounds(12.0, kernels=kernels), [parse_launch(record)])
    assert (scale.name, scale.latency_us, scale.time_share, scale.registers) == ("scale_kernel", 3.0, 0.25, 32)
    assert (product.name, product.count, product.latency_us, product.time_share) == ("ampere_sgemm", 1, 9.0, 0.75)


@pytest.mark.parametrize(
    ("call_s", "slot_bytes", "free_bytes", "count"),
    [
        (50e-6, 2**20, 2**37, 1000),
        (1e-6, 2**10, 2**37, 2048),
        (5e-3, 2**20, 2**37, 10),
        (0.04, 2**20, 2**37, 8),
        (1.0, 2**20, 2**37, 2),
        (1e-3, 2**34, 2**37, 2),
        (50e-6, 2**40, 2**37, 2),
    ],
)
def test_a_round_has_slots_for_its_length_within_memory(call_s, slot_bytes, free_bytes, count):
    assert slot_count(call_s, 0.05, slot_bytes, free_bytes) == count


def test_spread_is_half_the_distance_between_quartiles():
    assert spread([9.0, 10.0, 10.0, 10.0, 11.0]) == 0.0
    assert spread([8.0, 9.0, 10.0, 11.0, 12.0]) == pytest.approx(0.1)


def test_a_first_look_is_said_to_be_one():
    found = replace(rounds(100.0, 100.1, 99.9, span_us=100.0), first_look=True)
    timing = timed(found)
    assert timing.first_look
    assert "A first look of 3 samples: each is more than 3 times the best baseline" in timing.explanation
    assert timing.speedup == pytest.approx(0.2)
    assert not timed(rounds(10.0, 10.1, 9.9)).first_look
