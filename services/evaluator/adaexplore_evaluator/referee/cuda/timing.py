"""Latency of a candidate on a GPU: measured in rounds, compared with baselines that were measured the same way."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from adaexplore_evaluator.devices.cpu.baseline import BaselineKind
from adaexplore_evaluator.devices.cpu.launches import Launch, TritonLaunch
from adaexplore_evaluator.referee.cuda.clock import Rounds
from adaexplore_evaluator.referee.cuda.first_look import HOPELESS
from adaexplore_evaluator.referee.timing import Timing

_RESAMPLES: Final = 2000
# Samples of a quiet GPU scatter less around their median.
STEADY: Final = 0.05
_STEADY_PLAIN: Final = 0.15
_NOISE_US: Final = 0.5
_RESOLUTION_US: Final = 0.5
_CLOCKS: Final = 0.05
_CLOCKS_US_PER_KERNEL: Final = 1.5


@dataclass(frozen=True)
class MeasuredBaseline:
    """Measured latency of the reference in microseconds a call, and the kernels one call launches."""

    kind: BaselineKind
    median_us: float
    launches: int
    rounds: Rounds


@dataclass(frozen=True)
class MeasuredLaunch:
    """One launch of a call as it was seen, with its share of the GPU's time; what is not known is None."""

    name: str
    grid: tuple[int, ...]
    count: int
    latency_us: float | None
    time_share: float | None
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    warps: int | None = None
    occupancy: float | None = None
    dram_bytes: float = 0.0
    flops: float = 0.0
    bound_by: str = ""


def baseline_of(kind: BaselineKind, rounds: Rounds) -> MeasuredBaseline:
    """The baseline that rounds of the reference give."""
    return MeasuredBaseline(kind, statistics.median(rounds.samples_us), _kernels_a_call(rounds), rounds)


def faster_of(before: MeasuredBaseline, after: MeasuredBaseline) -> MeasuredBaseline:
    """The faster of two measurements of one baseline: what slowed the other down is no merit of the candidate's."""
    return min(before, after, key=lambda item: item.median_us)


def disagreement(before: MeasuredBaseline, after: MeasuredBaseline) -> str:
    """In words, how far two measurements of one baseline lie apart; empty if they agree."""
    if abs(after.median_us - before.median_us) <= max(STEADY * before.median_us, _NOISE_US):
        return ""
    kind = before.kind.name.lower()
    return f"The {kind} baseline took {before.median_us:.1f} µs before the candidate and {after.median_us:.1f} µs after it."


def timing_of(rounds: Rounds, baselines: Sequence[MeasuredBaseline], launches: Sequence[Launch], floor_us: float) -> Timing:
    """Timing of a candidate from its rounds.

    Like is compared with like: where a baseline or the candidate could not be captured, all are taken end to end.

    Args:
        rounds: What its rounds took.
        baselines: Baselines of the task on this GPU.
        launches: What one call launches.
        floor_us: Least time in which the outputs can reach memory.

    """
    busy = bool(rounds.busy_us) and all(item.rounds.busy_us for item in baselines)
    samples_us = rounds.busy_us if busy else rounds.end_to_end_us
    median_us = statistics.median(samples_us)
    unknown = Timing(
        "INCONCLUSIVE",
        baselines=tuple(replace(item, median_us=statistics.median(_samples(item, busy))) for item in baselines),
        launches=measured_launches(rounds, launches),
        end_to_end_us=statistics.median(rounds.end_to_end_us) if rounds.end_to_end_us else None,
        samples_us=samples_us,
        cold=rounds.cold,
        span_us=rounds.span_us or None,
        cold_us=rounds.caches.cold_us,
        warm_us=rounds.caches.warm_us,
        first_look=rounds.first_look,
    )
    cause, text = _doubt(rounds, samples_us, median_us, floor_us)
    if cause:
        return replace(unknown, cause=cause, explanation=text)
    known = replace(unknown, status="MEASURED", median_us=median_us, explanation=_explained(rounds, busy, unknown))
    return _compared(known, [(item.kind, _samples(item, busy)) for item in baselines])


def _samples(baseline: MeasuredBaseline, busy: bool) -> tuple[float, ...]:
    return baseline.rounds.busy_us if busy else baseline.rounds.end_to_end_us


def _compared(timing: Timing, baselines: Sequence[tuple[BaselineKind, tuple[float, ...]]]) -> Timing:
    """The timing with its speedups over the best baseline and over eager."""
    if not baselines:
        return timing
    median_us = statistics.median(timing.samples_us)
    best_us = min((samples for _kind, samples in baselines), key=statistics.median)
    eager_us = next((samples for kind, samples in baselines if kind is BaselineKind.EAGER), None)
    low, high = speedup_interval(best_us, timing.samples_us)
    return replace(
        timing,
        speedup=statistics.median(best_us) / median_us,
        speedup_low=low,
        speedup_high=high,
        speedup_over_eager=statistics.median(eager_us) / median_us if eager_us else None,
    )


def speedup_interval(baseline_us: Sequence[float], candidate_us: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the ratio of medians, by resampling both with a fixed seed."""
    draw = random.Random(0)  # noqa: S311 - resampling must repeat, not surprise
    ratios = sorted(
        statistics.median(draw.choices(baseline_us, k=len(baseline_us)))
        / statistics.median(draw.choices(candidate_us, k=len(candidate_us)))
        for _ in range(_RESAMPLES)
    )
    return ratios[int(0.025 * _RESAMPLES)], ratios[int(0.975 * _RESAMPLES)]


def measured_launches(rounds: Rounds, launches: Sequence[Launch]) -> tuple[MeasuredLaunch, ...]:
    """Triton's launches with what the compiler says, then the other kernels that the profiler saw, by time."""
    total_us = sum(us for _name, _count, us in rounds.kernels) or 1.0
    seen = {name: (count, us) for name, count, us in rounds.kernels}
    found: list[MeasuredLaunch] = []
    for item in launches:
        if isinstance(item, TritonLaunch) and item.name not in {known.name for known in found}:
            count, us = seen.pop(item.name, (0, 0.0))
            resources = item.resources
            found.append(
                MeasuredLaunch(
                    item.name,
                    item.grid,
                    item.count,
                    us / count if count else None,
                    us / total_us if count else None,
                    registers=resources.registers if resources else None,
                    spill_bytes=resources.spill_bytes if resources else None,
                    shared_bytes=resources.shared_bytes if resources else None,
                    warps=resources.warps if resources else None,
                )
            )
    calls = max(rounds.profiled, 1)
    found += [MeasuredLaunch(name, (), max(1, round(n / calls)), us / n, us / total_us) for name, (n, us) in seen.items() if n]
    return tuple(found)


def spread(samples: Sequence[float]) -> float:
    """Half of the distance between the quartiles, relative to the median."""
    ordered = sorted(samples)
    middle = ordered[len(ordered) // 2]
    return (ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]) / (2 * middle) if middle > 0 else float("inf")


def _doubt(rounds: Rounds, samples_us: Sequence[float], median_us: float, floor_us: float) -> tuple[str, str]:
    if median_us <= _RESOLUTION_US:
        return "BELOW_RESOLUTION", f"A call takes {median_us:.2f} µs, less than the clock resolves."
    wide = spread(samples_us)
    # What Python launches scatters with the host, on a quiet GPU too.
    if wide > (STEADY if rounds.busy_us else _STEADY_PLAIN) and wide * median_us > _NOISE_US:
        return "NOISE", f"Samples scatter by {wide:.0%} around {median_us:.1f} µs; something else uses this GPU or its clocks change."
    bound_us = max(_CLOCKS * median_us, _CLOCKS_US_PER_KERNEL * max(1, _kernels_a_call(rounds)))
    busy_us = statistics.median(rounds.busy_us) if rounds.busy_us else 0.0
    apart_us = min(abs(clock_us - rounds.span_us) for clock_us in (busy_us, rounds.beside_us or busy_us))
    if busy_us and rounds.span_us and apart_us > bound_us:
        return "CLOCKS_DISAGREE", f"The referee's clock says {busy_us:.1f} µs a call, the profiler {rounds.span_us:.1f} µs."
    if rounds.cold and median_us < floor_us:
        return "ABOVE_PEAK", f"{median_us:.1f} µs is below the {floor_us:.1f} µs that writing the outputs takes at peak."
    return "", ""


def _kernels_a_call(rounds: Rounds) -> int:
    profiled = sum(count for _name, count, _us in rounds.kernels) / max(rounds.profiled, 1)
    return max(1, round(profiled or rounds.nodes))


def _explained(rounds: Rounds, busy: bool, timing: Timing) -> str:
    why = rounds.not_captured or "a baseline cannot be captured"
    how = "GPU-busy, by replays of a CUDA graph" if busy else f"end to end, by plain launches ({why})"
    caches = "cold caches" if rounds.cold else "warm caches: its inputs fit into them"
    median_us = statistics.median(timing.samples_us)
    parts = [f"{median_us:.2f} µs a call, {how}, over {rounds.slots} different inputs, {caches}."]
    if busy and timing.end_to_end_us is not None:
        parts.append(f"End to end with launches from Python: {timing.end_to_end_us:.1f} µs.")
    if rounds.first_look:
        parts.append(
            f"A first look of {len(timing.samples_us)} samples: each is more than {HOPELESS:g} times the best baseline known then."
        )
    shares = [(getattr(item, "time_share", None) or 0.0, item.name) for item in timing.launches]
    share, name = max(shares, default=(0.0, ""))
    if share:
        parts.append(f"{share:.0%} of the GPU's time is {name[:80]}.")
    return " ".join(parts)
