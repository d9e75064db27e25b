"""A profile for a prompt: whole lines within a fixed length, the kernels that take most time first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MOST_CHARACTERS: Final = 1500
_REASON_CHARACTERS: Final = 160
_NAME_CHARACTERS: Final = 60
# Of counters that nobody could or would read there is nothing to say to a model.
_SILENT: Final = ("COUNTER_STATUS_NOT_ASKED", "COUNTER_STATUS_NOT_ON_DEVICE")
# Counters that say most, with the words for them; by Nsight Compute's names.
COUNTERS: Final = {
    "dram__bytes.sum": "device memory",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory busy",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "multiprocessors busy",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps active",
    "lts__t_sector_hit_rate.pct": "L2 hits",
    "smsp__inst_executed.sum": "warp instructions",
}


def profile_text(evaluation: Mapping[str, Any]) -> str:
    """The profile of an Evaluation's JSON in at most `MOST_CHARACTERS` characters.

    The first lines are about the call. Then come lines of kernels, one each, by their time, as long as a line that says how many are left
    out fits behind them; no line is ever cut off, names and reasons are shortened before.
    """
    profile = evaluation["profile"]
    head = [_title(evaluation), *_call(evaluation)]
    if profile.get("counter_status") not in _SILENT:
        head.append(f"Hardware counters: {_counters(profile)}")
    if profile.get("work_message"):
        head.append(f"Work of kernels: {_short(profile['work_message'])}")
    ranked = sorted(evaluation["launches"], key=lambda item: -(item.get("time_share") or 0.0))
    lines, room = [], MOST_CHARACTERS - len("\n".join(head))
    for number, item in enumerate(ranked):
        rest = _left_out(ranked[number + 1 :])
        line = _kernel(item, profile)
        needed = len(line) + 1 + (len(rest) + 1 if rest else 0)
        if needed > room:
            lines.append(_left_out(ranked[number:]))
            break
        lines.append(line)
        room -= len(line) + 1
    return "\n".join([*head, *lines])


def _title(evaluation: Mapping[str, Any]) -> str:
    platform, timing, ceilings = evaluation["platform"], evaluation["timing"], evaluation["profile"].get("ceilings")
    how = "estimated for" if timing.get("status") == "TIMING_STATUS_ESTIMATED" else "measured on"
    device = platform.get("target") if how == "estimated for" else platform.get("device_name")
    title = f"Profile, {how} {_short(str(device), _NAME_CHARACTERS)}"
    if not ceilings:
        return f"{title}; its ceilings are not known."
    source = "measured" if ceilings["measured"] else "of its datasheet, less what code never reaches"
    precision = str(evaluation.get("precision", "")).removeprefix("PRECISION_CLASS_").lower()
    return (
        f"{title}; ceilings ({source}): memory {_rate(ceilings['bytes_per_second'], 'B/s')}, {precision} products "
        f"{_rate(ceilings['product_flops_per_second'], 'FLOP/s')}, other arithmetic {_rate(ceilings['other_flops_per_second'], 'FLOP/s')}."
    )


def _call(evaluation: Mapping[str, Any]) -> list[str]:
    profile, median_us = evaluation["profile"], evaluation["timing"].get("median_us")
    least, share = profile.get("least_work"), profile.get("roofline_share")
    parts = ["latency unknown" if median_us is None else f"{median_us:.2f} µs"]
    if share is not None:
        parts.append(f"roofline {share:.0%} (the least time of what the task needs at these ceilings, by the call's)")
    if least:
        flops = least["product_flops"] + least["other_flops"]
        parts.append(f"the task needs {_rate(least['bytes'], 'B')} and {_rate(flops, 'FLOP')}")
    if "bytes_per_second" in profile and "flops_per_second" in profile:
        parts.append(f"that is {_rate(profile['bytes_per_second'], 'B/s')} and {_rate(profile['flops_per_second'], 'FLOP/s')}")
    lines = [f"Call: {'; '.join(parts)}."]
    return lines + ([f"Limited by: {profile['limit']}"] if profile.get("limit") else [])


def _counters(profile: Mapping[str, Any]) -> str:
    status = str(profile.get("counter_status", "")).removeprefix("COUNTER_STATUS_")
    if status == "READ":
        return "read by Nsight Compute."
    words = "not permitted here" if status == "NOT_PERMITTED" else status.replace("_", " ").lower() or "not asked"
    return _short(f"{words}; {profile['counter_message']}") if profile.get("counter_message") else words


def _kernel(item: Mapping[str, Any], profile: Mapping[str, Any]) -> str:
    name = _short(str(item.get("name", "")), _NAME_CHARACTERS)
    parts = [
        _said(item, "time_share", "{:.0%} of the time"),
        _said(item, "latency_us", "{:.2f} µs"),
        _said(item, "bytes_per_second", "", "B/s"),
        _said(item, "flops_per_second", "", "FLOP/s"),
        _said(item, "roofline_share", "roofline {:.0%}"),
        _said(item, "registers", "{} registers"),
        _said(item, "shared_bytes", "{} B shared"),
        _said(item, "spill_bytes", "{} B spilled"),
        _said(item, "warps", "{} warps"),
        _occupancy(item),
    ]
    counted = next((found for found in profile.get("counters") or [] if found["kernel_name"] == item.get("name")), None)
    parts += [_counted(counted["values"])] if counted else []
    limit = f"; bound by {item['limit']}" if item.get("limit") else ""
    return f"- {name} ×{item.get('count', 1)}: {', '.join(part for part in parts if part)}{limit}"


def _occupancy(item: Mapping[str, Any]) -> str:
    if item.get("occupancy") is None:
        return ""
    return f"occupancy {item['occupancy']:.0%}" + (f" ({item['occupancy_limit']})" if item.get("occupancy_limit") else "")


def _counted(values: Mapping[str, float]) -> str:
    told = []
    for metric, words in COUNTERS.items():
        if metric in values:
            value = f"{values[metric]:.0f}%" if "pct" in metric else _rate(values[metric], "B" if "bytes" in metric else "")
            told.append(f"{words} {value}")
    return f"counted: {', '.join(told)}" if told else ""


def _said(item: Mapping[str, Any], name: str, form: str, unit: str = "") -> str:
    value = item.get(name)
    if value is None:
        return ""
    return _rate(value, unit) if unit else form.format(value)


def _left_out(items: list[Mapping[str, Any]]) -> str:
    if not items:
        return ""
    shares = [item["time_share"] for item in items if item.get("time_share") is not None]
    return f"- {len(items)} more launches" + (f": {sum(shares):.0%} of the time" if shares else "")


def _rate(value: float, unit: str) -> str:
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".strip()


def _short(text: str, most: int = _REASON_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
