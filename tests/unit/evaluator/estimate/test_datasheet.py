"""Datasheets: known targets, their sources, and the error for others."""

from __future__ import annotations

import dataclasses

import pytest
from adaexplore_evaluator.devices.cpu import UnknownTargetError, datasheet, known_targets
from adaexplore_evaluator.runner.triton_cpu import find_target


def test_the_targets_of_the_compiler_have_a_datasheet() -> None:
    assert set(known_targets()) == {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "gfx90a", "gfx942"}


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownTargetError, match=r"'sm_70'.*sm_80.*gfx942") as raised:
        datasheet("sm_70")
    assert raised.value.target == "sm_70"
    assert raised.value.known == known_targets()


@pytest.mark.parametrize("target", known_targets())
def test_every_datasheet_names_its_sources_and_has_plausible_figures(target: str) -> None:
    sheet = datasheet(target)
    assert sheet.target == target
    assert len(sheet.sources) >= 3
    assert any("datasheet" in source for source in sheet.sources)
    assert sheet.dram_bytes_per_second < sheet.l2_bytes_per_second
    assert sheet.fp32_flops_per_second < sheet.tensor_flops_per_second["bf16"]
    assert sheet.multiprocessor.shared_bytes_per_program <= sheet.multiprocessor.shared_bytes


@pytest.mark.parametrize("target", known_targets())
def test_the_compiler_counts_traffic_for_the_device_of_the_datasheet(target: str) -> None:
    sheet, row = datasheet(target), find_target(target)
    assert row.board.removesuffix(" (one die)").split()[0] in sheet.device_name
    assert (row.l2_capacity_bytes, row.multiprocessors) == (sheet.l2_bytes, sheet.multiprocessors)
    assert (row.dram_bytes_per_s, row.flops_fp32_per_s) == (sheet.dram_bytes_per_second, sheet.fp32_flops_per_second)
    assert row.threads_per_multiprocessor == sheet.multiprocessor.warps * sheet.multiprocessor.lanes_per_warp
    assert row.shared_limit_bytes == sheet.multiprocessor.shared_bytes_per_program


def test_the_special_function_rate_follows_from_clock_and_multiprocessors() -> None:
    assert datasheet("sm_90").special_functions_per_second == pytest.approx(16 * 132 * 1.98e9)


def test_a_datasheet_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        datasheet("sm_90").multiprocessors = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        datasheet("sm_90").tensor_flops_per_second["bf16"] = 1.0  # type: ignore[index]
