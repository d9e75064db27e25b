"""The profile of a call: what its launches do, what the task needs at least, and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaexplore_evaluator.devices.cpu.ceilings import Ceilings, Work
from adaexplore_evaluator.devices.cpu.datasheet import Datasheet, UnknownTargetError, datasheet
from adaexplore_evaluator.devices.cpu.estimate import RESOURCES
from adaexplore_evaluator.profiles.launches import bound_by, launch_facts, told
from adaexplore_evaluator.profiles.text import profile_text

JsonObject = dict[str, Any]

_PASSED = "VERDICT_PASSED"
_NOT_ASKED = "only `profile` reads hardware counters"
_NO_DEVICE = "an estimate has no hardware counters; profile on the cuda device"


def profiled(evaluation: Mapping[str, Any], ceilings: Ceilings | None = None, least: Work | None = None) -> JsonObject:
    """The Evaluation with its profile, anew from its launches, its timing and what its profile holds; unchanged if it did not pass.

    Args:
        evaluation: JSON of an Evaluation.
        ceilings: What the device reaches; those of its profile by default.
        least: What the task needs at least; that of its profile by default.

    """
    found = dict(evaluation)
    if found.get("verdict") != _PASSED:
        return found
    before: JsonObject = dict(found.get("profile") or {})
    ceilings, least = ceilings or _ceilings_in(before), least or _work_in(before)
    sheet, precision = _sheet(found), _precision(found)
    shares = _time_shares(found.get("launches") or [])
    found["launches"] = [
        {**item, **launch_facts(item, share, ceilings, sheet, precision)}
        for item, share in zip(found.get("launches") or [], shares, strict=True)
    ]
    measured = (found.get("timing") or {}).get("status") != "TIMING_STATUS_ESTIMATED"
    profile = _counters(before, found) | {name: before[name] for name in ("work_message",) if name in before}
    profile |= _work_json(ceilings, least, measured) | _call(found, ceilings, least, precision)
    found["profile"] = profile
    profile["text"] = profile_text(found)
    return found


def _time_shares(launches: list[JsonObject]) -> list[float | None]:
    """Share of the call's time by launch: as it was measured, else from the latencies where all are known."""
    times = [None if item.get("latency_us") is None else item["latency_us"] * item.get("count", 1) for item in launches]
    total = sum(time for time in times if time is not None)
    if any(item.get("time_share") is not None for item in launches):
        return [item.get("time_share") for item in launches]
    return [time / total if time is not None and total and None not in times else None for time in times]


def _call(evaluation: Mapping[str, Any], ceilings: Ceilings | None, least: Work | None, precision: str) -> JsonObject:
    """Rates and bound of the whole call."""
    found: JsonObject = {}
    latency_us = (evaluation.get("timing") or {}).get("median_us")
    by_resource: dict[str, float] = {}
    for item in evaluation["launches"]:
        if item.get("bound_by") and item.get("time_share") is not None:
            by_resource[item["bound_by"]] = by_resource.get(item["bound_by"], 0.0) + item["time_share"]
    if latency_us and least is not None:
        found["bytes_per_second"] = 1e6 * least.bytes / latency_us
        found["flops_per_second"] = 1e6 * (least.product_flops + least.other_flops) / latency_us
        if ceilings is not None and least.least_s(ceilings):
            found["roofline_share"] = 1e6 * least.least_s(ceilings) / latency_us
    if by_resource:
        name = max(by_resource, key=lambda item: by_resource[item])
        found |= {"bound_by": name, "limit": f"{RESOURCES.get(name, name)} in {by_resource[name]:.0%} of the time."}
    elif latency_us and least is not None and ceilings is not None:
        # Of kernels whose work nobody has counted, only what the whole task needs is known.
        name = bound_by(least, latency_us, ceilings, precision)
        found |= {"bound_by": name, "limit": f"{RESOURCES.get(name, name)}, by what the whole task needs at least."}
    return told(found)


def _counters(before: JsonObject, evaluation: Mapping[str, Any]) -> JsonObject:
    if before.get("counter_status"):
        return {name: before[name] for name in ("counter_status", "counter_message", "counters") if name in before}
    cuda = (evaluation.get("platform") or {}).get("device") == "DEVICE_KIND_CUDA"
    status, message = ("NOT_ASKED", _NOT_ASKED) if cuda else ("NOT_ON_DEVICE", _NO_DEVICE)
    return {"counter_status": f"COUNTER_STATUS_{status}", "counter_message": message}


def _work_json(ceilings: Ceilings | None, least: Work | None, measured: bool) -> JsonObject:
    found: JsonObject = {}
    if ceilings is not None:
        names = ("bytes_per_second", "product_flops_per_second", "other_flops_per_second")
        found["ceilings"] = {name: getattr(ceilings, name) for name in names} | {"measured": measured}
    if least is not None:
        found["least_work"] = {name: getattr(least, name) for name in ("bytes", "product_flops", "other_flops")}
    return found


def _ceilings_in(profile: Mapping[str, Any]) -> Ceilings | None:
    found = profile.get("ceilings")
    return Ceilings(**{name: value for name, value in found.items() if name != "measured"}) if found else None


def _work_in(profile: Mapping[str, Any]) -> Work | None:
    found = profile.get("least_work")
    return Work(**found) if found else None


def _sheet(evaluation: Mapping[str, Any]) -> Datasheet | None:
    try:
        return datasheet(str((evaluation.get("platform") or {}).get("target", "")))
    except UnknownTargetError:
        return None


def _precision(evaluation: Mapping[str, Any]) -> str:
    return str(evaluation.get("precision", "")).removeprefix("PRECISION_CLASS_").lower() or "fp32"
