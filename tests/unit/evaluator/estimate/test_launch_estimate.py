"""Latency of one launch: bounds, monotonicity, and what is said when figures are missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from adaexplore_evaluator.devices.cpu import MalformedLaunchError, UnknownTargetError, datasheet, estimate_candidate, known_targets
from hypothesis import given, settings
from hypothesis import strategies as st

Launch = Callable[..., dict[str, Any]]
SHEET = datasheet("sm_90")
FACTORS = st.floats(1.0, 64.0)


def latency_us(record: dict[str, Any], target: str = "sm_90", precision: str = "fp32") -> float:
    found = estimate_candidate([record], target=target, precision=precision).median_us
    assert found is not None
    return found


def bound_by(record: dict[str, Any], target: str = "sm_90") -> str:
    return estimate_candidate([record], target=target, precision="fp32").launches[0].bound_by


@pytest.mark.parametrize("target", known_targets())
def test_a_large_copy_is_bound_by_device_memory_below_its_peak_on_every_target(launch: Launch, target: str) -> None:
    peak_us = 1e6 * 8 * (1 << 26) / datasheet(target).dram_bytes_per_second
    assert bound_by(launch(), target) == "dram"
    assert 1.05 * peak_us < latency_us(launch(), target) < 1.35 * peak_us


def test_a_tiny_launch_costs_its_launch(launch: Launch) -> None:
    tiny = launch(grid=[4], programs=4, dram_read_bytes=16384, dram_write_bytes=16384, l2_bytes=32768)
    assert bound_by(tiny) == "launch"
    assert SHEET.launch_us < latency_us(tiny) < 2 * SHEET.launch_us


@pytest.mark.parametrize("field", ["dram_read_bytes", "dram_write_bytes", "l2_bytes", "flops_fp32", "special_functions", "atomics"])
@settings(max_examples=40)
@given(factor=FACTORS, programs=st.sampled_from([1, 7, 131, 132, 133, 5000, 65536]), warps=st.sampled_from([1, 4, 16]))
def test_more_of_any_work_is_never_faster(launch: Launch, field: str, factor: float, programs: int, warps: int) -> None:
    base: dict[str, Any] = {"flops_fp32": 1e9, "special_functions": 1e8, "atomics": 1e6, "programs": programs, "num_warps": warps}
    more = {**base, field: factor * launch(**base)["traffic"][field]}
    assert latency_us(launch(**more)) >= latency_us(launch(**base)) * (1 - 1e-9)


@settings(max_examples=40)
@given(spilled=st.integers(0, 4096), more=st.integers(1, 4096))
def test_more_spills_are_never_faster(launch: Launch, spilled: int, more: int) -> None:
    assert latency_us(launch(spill_bytes=spilled + more)) >= latency_us(launch(spill_bytes=spilled))


def test_heavy_spills_are_slower_and_leave_the_l2_once_it_cannot_hold_them(launch: Launch) -> None:
    held = {"shared_bytes": 100 << 10}  # two programs a multiprocessor, so that few spill at a time
    assert latency_us(launch(spill_bytes=512, **held)) > 2 * latency_us(launch(**held))
    assert bound_by(launch(spill_bytes=512, **held)) == "l2"
    assert bound_by(launch(spill_bytes=512)) == "dram"


def test_spills_in_a_loop_cost_every_iteration(launch: Launch) -> None:
    once = latency_us(launch(spill_bytes=2048))
    assert latency_us(launch(spill_bytes=2048, loop_iterations=100 * (1 << 16))) > 50 * once


@settings(max_examples=60)
@given(programs=st.integers(1, 20_000), more=st.integers(0, 20_000), registers=st.sampled_from([16, 64, 128, 255]))
def test_more_programs_of_the_same_work_are_never_faster(launch: Launch, programs: int, more: int, registers: int) -> None:
    def of(count: int) -> dict[str, Any]:
        work = dict.fromkeys(("dram_read_bytes", "dram_write_bytes", "special_functions"), 4096.0 * count)
        return launch(programs=count, grid=[count], l2_bytes=8192 * count, flops_fp32=2e6 * count, registers=registers, **work)

    assert latency_us(of(programs + more)) >= latency_us(of(programs)) * (1 - 1e-9)


@settings(max_examples=40)
@given(bytes_moved=st.floats(1e3, 1e11), flops=st.floats(0, 1e14), programs=st.integers(1, 1 << 20))
def test_no_estimate_beats_the_datasheet(launch: Launch, bytes_moved: float, flops: float, programs: int) -> None:
    record = launch(
        programs=programs,
        dram_read_bytes=bytes_moved,
        dram_write_bytes=0,
        l2_bytes=bytes_moved,
        flops_tensor_core=flops,
        tensor_core_dtype="bf16",
    )
    floor_us = max(1e6 * bytes_moved / SHEET.dram_bytes_per_second, 1e6 * flops / SHEET.tensor_flops_per_second["bf16"])
    assert latency_us(record) > floor_us


def test_one_program_cannot_fill_the_chip(launch: Launch) -> None:
    assert latency_us(launch(programs=1, grid=[1])) > 20 * latency_us(launch())


def test_one_program_more_than_a_wave_costs_a_second_wave(launch: Launch) -> None:
    def of(programs: int) -> float:
        flops = 1e9 * programs
        return latency_us(
            launch(programs=programs, flops_fp32=flops, registers=255, num_warps=8, dram_read_bytes=0, dram_write_bytes=0, l2_bytes=0)
        )

    body_us = of(132) - SHEET.launch_us
    assert of(133) == pytest.approx(2 * body_us + SHEET.launch_us)
    assert of(264) == pytest.approx(2 * body_us + SHEET.launch_us)


def test_few_resident_warps_leave_memory_idle(launch: Launch) -> None:
    assert latency_us(launch(num_warps=1, registers=16, shared_bytes=100 << 10)) > 1.5 * latency_us(launch())


def test_very_small_programs_are_bound_by_the_rate_at_which_programs_start(launch: Launch) -> None:
    assert (
        bound_by(launch(programs=1 << 23, grid=[1 << 23], num_warps=1, dram_read_bytes=1 << 20, dram_write_bytes=1 << 20, l2_bytes=1 << 21))
        == "program_starts"
    )


def product(launch: Launch, dtype: str, tile: int = 128, warps: int = 8, flops: float = 2.0 * 8192**3) -> dict[str, Any]:
    n, programs, size = 8192, (8192 // tile) ** 2, {"fp8": 1, "bf16": 2, "fp16": 2}.get(dtype, 4)
    fields = {"tensor_core_dtype": dtype, "flops_tensor_core": flops} if dtype else {"flops_fp32": flops, "flops_fp32_dot": flops}
    return launch(
        programs=programs, grid=[programs], num_warps=warps, registers=168, shared_bytes=64 << 10, dram_read_bytes=2 * size * n * n,
        dram_write_bytes=size * n * n, l2_bytes=2 * size * n * n * n / tile, loop_iterations=programs * n // 64, **fields,
    )  # fmt: skip


def test_tensor_cores_are_faster_in_narrower_types_and_than_fp32(launch: Launch) -> None:
    figures = [latency_us(product(launch, dtype)) for dtype in ("", "tf32", "bf16")]
    assert figures == sorted(figures, reverse=True)
    assert figures[0] > 4 * figures[1]


def test_a_type_without_a_unit_runs_on_the_next_wider_one(launch: Launch) -> None:
    record = product(launch, "fp8")
    body_us = {target: latency_us(record, target) - datasheet(target).launch_us for target in ("sm_80", "sm_90")}
    assert body_us["sm_80"] > 1e6 * 2.0 * 8192**3 / datasheet("sm_80").tensor_flops_per_second["fp16"]
    assert body_us["sm_90"] < 1e6 * 2.0 * 8192**3 / datasheet("sm_80").tensor_flops_per_second["fp16"]
    assert latency_us(product(launch, "fp8"), "sm_90") < latency_us(product(launch, "fp16"), "sm_90")
    assert latency_us(product(launch, "tf32"), "gfx90a") > latency_us(product(launch, "bf16"), "gfx90a")


def test_small_tiles_and_few_warps_do_not_feed_the_tensor_cores(launch: Launch) -> None:
    good = latency_us(product(launch, "bf16"))
    assert latency_us(product(launch, "bf16", tile=32)) > 1.5 * good
    assert latency_us(product(launch, "bf16", warps=2)) > 1.05 * good


def test_a_product_on_ordinary_units_gains_from_threads_that_keep_more_results(launch: Launch) -> None:
    few, many = (latency_us(product(launch, "", warps=warps)) for warps in (8, 4))  # 64 and 128 results a thread
    assert few > 1.2 * many


def test_a_product_is_slower_than_as_many_operations_on_elements(launch: Launch) -> None:
    flops, grid = 1e12, 1 << 16
    apart = launch(flops_fp32=flops, programs=grid)
    product_like = launch(flops_fp32=flops, flops_fp32_dot=flops, programs=grid)  # eight results a thread
    assert bound_by(product_like) == "fp32"
    assert latency_us(product_like) > 2 * latency_us(apart)


def test_arithmetic_hides_behind_memory_traffic_only_if_warps_can(launch: Launch) -> None:
    def added_us(registers: int) -> float:
        base = {"registers": registers, "programs": 1 << 13, "grid": [1 << 13]}
        return latency_us(launch(**base, special_functions=1 << 28)) - latency_us(launch(**base))

    assert added_us(registers=32) < 0.1
    assert added_us(registers=128) > 10


@settings(max_examples=40)
@given(iterations=st.integers(0, 500), more=st.integers(1, 500), programs=st.sampled_from([1, 132, 1056, 65536]))
def test_more_iterations_of_a_loop_are_never_faster(launch: Launch, iterations: int, more: int, programs: int) -> None:
    def of(count: int) -> float:
        return latency_us(launch(programs=programs, grid=[programs], loop_iterations=count * programs))

    assert of(iterations + more) >= of(iterations) * (1 - 1e-9)


def test_programs_that_stride_wait_for_each_iteration_unless_others_run_meanwhile(launch: Launch) -> None:
    def of(programs: int) -> dict[str, Any]:
        return launch(programs=programs, grid=[programs], loop_iterations=1 << 16)

    assert bound_by(of(132)) == "latency"
    assert latency_us(of(132)) > 2 * latency_us(launch())
    assert latency_us(of(2112)) < 1.2 * latency_us(launch())


def thin_product(launch: Launch, programs: int, iterations: int, stages: int = 1) -> dict[str, Any]:
    """16,384 × 4,096 float32 results of inner dimension 16 in tiles of 64 × 64, with a GELU and a residual."""
    tiles, n = 1 << 14, 1 << 26
    return launch(
        programs=programs, grid=[programs], num_warps=4, num_stages=stages, registers=128, shared_bytes=8192, dram_read_bytes=4 * n,
        dram_write_bytes=4 * n, l2_bytes=8 * n + tiles * 8192, flops_fp32=42 * n, flops_fp32_dot=32 * n, special_functions=n,
        loop_iterations=iterations * programs,
    )  # fmt: skip


def test_a_persistent_product_with_one_program_a_multiprocessor_is_slower_than_one_program_a_tile(launch: Launch) -> None:
    tiled, persistent = thin_product(launch, 1 << 14, 1), thin_product(launch, 132, 249)
    assert latency_us(persistent) > 1.8 * latency_us(tiled)
    assert latency_us(thin_product(launch, 132, 249, stages=5)) > 1.8 * latency_us(tiled)
    assert bound_by(persistent) == "latency"


def test_a_loop_that_reduces_over_warps_waits_for_them_in_every_iteration(launch: Launch) -> None:
    alone, together = launch(loop_iterations=16 << 16), launch(loop_iterations=16 << 16, shared_bytes=32)
    assert latency_us(together) > 1.05 * latency_us(alone)


def test_a_lone_product_of_two_warps_leaves_half_of_the_schedulers_idle(launch: Launch) -> None:
    def of(warps: int) -> float:
        flops = 1e13
        return latency_us(
            launch(programs=132, grid=[132], num_warps=warps, flops_fp32=flops, flops_fp32_dot=flops, dram_write_bytes=132 * warps * 8192)
        )

    assert of(2) > 1.9 * of(4)


def test_stages_hide_the_loads_of_a_product_only_if_its_loop_has_iterations(launch: Launch) -> None:
    def of(iterations: int, stages: int) -> float:
        return latency_us({**product(launch, "bf16"), "num_stages": stages} | {"traffic": deep(iterations)})

    def deep(iterations: int) -> dict[str, Any]:
        traffic: dict[str, Any] = product(launch, "bf16")["traffic"]
        return traffic | {"loop_iterations": iterations * traffic["programs"]}

    assert of(256, 4) < 0.8 * of(256, 1)
    assert of(1, 4) == pytest.approx(of(1, 1))


def test_occupancy_and_resources_are_reported(launch: Launch) -> None:
    report = estimate_candidate([launch(registers=64, count=3)], target="sm_90", precision="fp32").launches[0]
    assert (report.registers, report.warps, report.count, report.device_kernels) == (64, 4, 3, 1)
    assert report.occupancy == pytest.approx(0.5)
    assert report.dram_bytes == 8 * (1 << 26)


def test_occurrences_are_counted_and_the_sentence_says_that_it_is_an_estimate(launch: Launch) -> None:
    once = estimate_candidate([launch()], target="sm_90", precision="fp32")
    thrice = estimate_candidate([launch(count=3)], target="sm_90", precision="fp32")
    assert thrice.median_us == pytest.approx(3 * (once.median_us or 0))
    assert thrice.device_kernels == 3
    assert "Estimated" in once.explanation
    assert "not measured" in once.explanation
    assert "device memory bandwidth" in once.explanation


def test_what_the_launch_before_wrote_is_read_from_the_l2_if_it_fits(launch: Launch) -> None:
    def pair(megabytes: int) -> tuple[float, float]:
        size = megabytes << 20
        record = launch(dram_read_bytes=size, dram_write_bytes=size, l2_bytes=2 * size, programs=size // 4096, grid=[size // 4096])
        first, second = estimate_candidate([record, record], target="sm_90", precision="fp32").launches
        return first.latency_us or 0.0, second.latency_us or 0.0

    small, large = pair(8), pair(64)
    assert small[1] < small[0]
    assert large[1] == pytest.approx(large[0])


def test_an_empty_call_takes_no_time_and_says_so() -> None:
    found = estimate_candidate([], target="sm_90", precision="fp32")
    assert (found.median_us, found.device_kernels) == (0.0, 0)
    assert "nothing is launched" in found.explanation


@pytest.mark.parametrize("missing", ["traffic", "resources"])
def test_a_launch_without_figures_leaves_the_total_unknown(launch: Launch, missing: str) -> None:
    found = estimate_candidate([launch(), launch(name="odd", **{missing: None})], target="sm_90", precision="fp32")
    assert found.median_us is None
    assert found.launches[0].latency_us is not None
    assert found.launches[1].latency_us is None
    assert "odd" in found.explanation


def test_traffic_of_which_nothing_was_sampled_counts_as_unknown(launch: Launch) -> None:
    assert estimate_candidate([launch(sampled_programs=0)], target="sm_90", precision="fp32").median_us is None


def test_a_launch_that_does_not_fit_says_what_was_asked_and_what_there_is(launch: Launch) -> None:
    found = estimate_candidate([launch(shared_bytes=120 << 10)], target="sm_86", precision="fp32")
    assert found.median_us is None
    assert "122880 bytes of shared memory" in found.explanation
    assert "101376" in found.explanation


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "cuda"},
        {"count": 0},
        {"registers": -1},
        {"dram_read_bytes": -5},
        {"l2_bytes": float("nan")},
        {"grid": ["x"]},
        {"num_warps": 0},
    ],
)
def test_a_malformed_record_is_refused(launch: Launch, changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedLaunchError):
        estimate_candidate([launch(**changes)], target="sm_90", precision="fp32")


def test_an_unknown_target_is_refused(launch: Launch) -> None:
    with pytest.raises(UnknownTargetError):
        estimate_candidate([launch()], target="sm_12", precision="fp32")
