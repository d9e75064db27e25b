"""Occupancy against figures worked out by hand from the programming guide."""

from __future__ import annotations

import pytest
from adaexplore_evaluator.devices.cpu import DoesNotFitError, Resources, datasheet, occupancy
from hypothesis import given
from hypothesis import strategies as st


def resources(registers: int = 32, shared_bytes: int = 0, warps: int = 4) -> Resources:
    return Resources(registers=registers, spill_bytes=0, shared_bytes=shared_bytes, warps=warps)


@pytest.mark.parametrize(
    ("target", "registers", "shared_kib", "warps", "programs", "limit"),
    [
        ("sm_90", 32, 0, 4, 16, "warps"),
        ("sm_90", 33, 0, 4, 12, "registers"),  # 33 registers round up to 1,280 a warp: 12 warps a scheduler
        ("sm_90", 64, 0, 4, 8, "registers"),
        ("sm_90", 255, 0, 8, 1, "registers"),
        ("sm_90", 32, 100, 4, 2, "shared memory"),
        ("sm_90", 32, 0, 1, 32, "programs"),
        ("sm_80", 32, 64, 4, 2, "shared memory"),
        ("sm_86", 32, 48, 4, 2, "shared memory"),
        ("sm_86", 32, 0, 4, 12, "warps"),
        ("gfx942", 64, 0, 4, 8, "warps"),
        ("gfx942", 128, 0, 4, 4, "registers"),
        ("gfx942", 32, 33, 4, 1, "shared memory"),
    ],
)
def test_occupancy_matches_the_figures_worked_out_by_hand(
    target: str, registers: int, shared_kib: int, warps: int, programs: int, limit: str
) -> None:
    found = occupancy(resources(registers, shared_kib << 10, warps), datasheet(target).multiprocessor)
    assert (found.programs, found.limit) == (programs, limit)
    assert found.share == pytest.approx(programs * warps / datasheet(target).multiprocessor.warps)


def test_too_much_shared_memory_names_asked_and_available_bytes() -> None:
    with pytest.raises(DoesNotFitError, match=r"300000 bytes of shared memory.*232448") as raised:
        occupancy(resources(shared_bytes=300_000), datasheet("sm_90").multiprocessor)
    assert (raised.value.asked, raised.value.available) == (300_000, 227 * 1024)


def test_more_registers_than_a_multiprocessor_has_do_not_fit() -> None:
    with pytest.raises(DoesNotFitError, match="registers"):
        occupancy(resources(registers=255, warps=32), datasheet("sm_90").multiprocessor)


def test_more_warps_than_a_multiprocessor_holds_do_not_fit() -> None:
    with pytest.raises(DoesNotFitError, match="warps"):
        occupancy(resources(registers=1, warps=64), datasheet("sm_89").multiprocessor)


@given(st.integers(1, 128), st.integers(0, 64), st.integers(0, 90), st.integers(0, 9), st.sampled_from([1, 2, 4, 8]))
def test_asking_for_more_never_raises_occupancy(registers: int, more_registers: int, shared: int, more_shared: int, warps: int) -> None:
    limits = datasheet("sm_86").multiprocessor
    lean = occupancy(resources(registers, shared << 10, warps), limits)
    greedy = occupancy(resources(min(registers + more_registers, 255), (shared + more_shared) << 10, warps), limits)
    assert greedy.programs <= lean.programs
    assert 0 < greedy.share <= lean.share <= 1
