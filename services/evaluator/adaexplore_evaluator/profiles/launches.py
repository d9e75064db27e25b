"""What one launch does with its device: bandwidth, operations a second, its place under the roofline, and what bounds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from adaexplore_evaluator.devices.cpu.ceilings import Ceilings, Work
from adaexplore_evaluator.devices.cpu.datasheet import Datasheet
from adaexplore_evaluator.devices.cpu.estimate import RESOURCES
from adaexplore_evaluator.devices.cpu.launches import Resources
from adaexplore_evaluator.devices.cpu.occupancy import DoesNotFitError, Occupancy, occupancy

# A measured launch that reaches this share of a ceiling is bound by it.
_REACHED: Final = 0.5
# More than this share of device memory's bandwidth comes from a cache.
_BEYOND_MEMORY: Final = 1.15
# A kernel that ends this soon has hardly begun: its start and its end take most of its time.
_SHORT_US: Final = 4.0
# No kernel is as short as this, whatever is told of it.
_LEAST_US: Final = 1e-3

Facts = dict[str, Any]


def work_of(launch: Mapping[str, Any]) -> Work | None:
    """Bytes and operations of one launch; None if they are not known."""
    moved, flops, products = (float(launch.get(name) or 0.0) for name in ("dram_bytes", "flops", "product_flops"))
    return Work(moved, products, max(0.0, flops - products)) if moved or flops else None


def launch_facts(
    launch: Mapping[str, Any], time_share: float | None, ceilings: Ceilings | None, sheet: Datasheet | None, precision: str
) -> Facts:
    """What is found out about a launch, as fields of a LaunchReport.

    Args:
        launch: JSON of its LaunchReport so far.
        time_share: Its share of the time of the call; None if that is not known.
        ceilings: What the device reaches.
        sheet: Datasheet of its target, whose limits decide occupancy.
        precision: Class of its products.

    """
    facts: Facts = {"time_share": time_share}
    resident = _resident(launch, sheet)
    if resident is not None:
        facts["occupancy"] = resident.share
        facts["occupancy_limit"] = _limit_of(launch, resident, sheet)
    work, latency_us = work_of(launch), launch.get("latency_us") or 0.0
    if work is not None and latency_us >= _LEAST_US:
        facts["bytes_per_second"] = 1e6 * work.bytes / latency_us
        facts["flops_per_second"] = 1e6 * (work.product_flops + work.other_flops) / latency_us
        if ceilings is not None:
            facts["roofline_share"] = 1e6 * work.least_s(ceilings) / latency_us
            facts["bound_by"] = launch.get("bound_by") or bound_by(work, latency_us, ceilings, precision)
    merged = {**launch, **facts}
    facts["limit"] = _limit(merged, sheet)
    return told(facts)


def told(facts: Mapping[str, Any]) -> Facts:
    """What is known; a number beyond all bounds, as absurd figures of a candidate's process make it, is not."""
    return {name: value for name, value in facts.items() if value is not None and (not isinstance(value, float) or math.isfinite(value))}


def bound_by(work: Work, latency_us: float, ceilings: Ceilings, precision: str) -> str:
    """The resource that bounds measured work, as a LaunchReport names it: that of the nearest ceiling, if one is near."""
    shares = {
        "dram": 1e6 * work.bytes / ceilings.bytes_per_second / latency_us,
        "fp32" if precision == "fp32" else "tensor_core": 1e6 * work.product_flops / ceilings.product_flops_per_second / latency_us,
    }
    others = 1e6 * work.other_flops / ceilings.other_flops_per_second / latency_us
    shares["fp32"] = max(shares.get("fp32", 0.0), others)
    nearest = max(shares, key=lambda name: shares[name])
    if shares[nearest] >= _REACHED:
        return "l2" if nearest == "dram" and shares[nearest] > _BEYOND_MEMORY else nearest
    return "launch" if latency_us < _SHORT_US else "latency"


def _resident(launch: Mapping[str, Any], sheet: Datasheet | None) -> Occupancy | None:
    if sheet is None or not launch.get("warps") or not launch.get("registers"):
        return None
    resources = Resources(
        int(launch["registers"]), int(launch.get("spill_bytes") or 0), int(launch.get("shared_bytes") or 0), launch["warps"]
    )
    try:
        return occupancy(resources, sheet.multiprocessor)
    except DoesNotFitError:
        return None


def _limit_of(launch: Mapping[str, Any], resident: Occupancy, sheet: Datasheet | None) -> str:
    """What stops more programs; the number of warps is no limit where they are all in use."""
    grid = [int(extent) for extent in launch.get("grid") or ()]
    if sheet is not None and grid and math.prod(grid) < sheet.multiprocessors * resident.programs:
        return "grid"
    return "" if resident.limit == "warps" else resident.limit


def _limit(launch: Mapping[str, Any], sheet: Datasheet | None) -> str:
    name = str(launch.get("bound_by") or "")
    if not name:
        return ""
    words, share, limit = RESOURCES.get(name, name), launch.get("roofline_share"), launch.get("occupancy_limit")
    if name in ("dram", "fp32", "tensor_core") and share is not None:
        return f"{words}, {share:.0%} of its ceiling"
    if name == "latency" and limit == "grid" and sheet is not None:
        return f"{words}: {math.prod(launch['grid'])} programs for {sheet.multiprocessors} multiprocessors"
    if name == "latency" and launch.get("occupancy") is not None:
        return f"{words}: occupancy {launch['occupancy']:.0%}" + (f", limited by {limit}" if limit else "")
    return words
