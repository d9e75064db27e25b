"""Latency of a candidate that passed, on the cpu device: estimated, and labelled as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from adaexplore_evaluator.devices.cpu.baseline import Baseline, BaselineKind, estimate_baselines
from adaexplore_evaluator.devices.cpu.ceilings import Ceilings, Work, datasheet_ceilings, least_work
from adaexplore_evaluator.devices.cpu.datasheet import datasheet
from adaexplore_evaluator.devices.cpu.estimate import Estimate, estimate_candidate
from adaexplore_evaluator.devices.cpu.graph import MalformedGraphError
from adaexplore_evaluator.devices.cpu.launches import MalformedLaunchError
from adaexplore_evaluator.referee.sizes import bytes_of
from adaexplore_evaluator.referee.tasks import PreparedTask
from adaexplore_evaluator.referee.values import MalformedReplyError, count, objects
from adaexplore_evaluator.runner.frames import JsonObject

# A table of scalars may travel; tensors that the host works on may not pass for work that costs nothing.
_MOVED_BYTES: Final = 64 * 1024
DEFAULTS_ONLY: Final = "Judged with default parameters only (seeded state). "


class BaselineReport(Protocol):
    """What is told of a baseline; latency in microseconds."""

    @property
    def kind(self) -> BaselineKind:
        """How the reference ran."""

    @property
    def median_us(self) -> float:
        """Median latency of one call."""

    @property
    def launches(self) -> int:
        """Device kernels of one call."""


class LaunchReport(Protocol):
    """What is told of a launch: an estimate of it, or what was measured."""

    @property
    def name(self) -> str:
        """Name of the kernel or operator."""


@dataclass(frozen=True)
class Timing:
    """How fast; latencies in microseconds, None where unknown.

    Attributes:
        status: MEASURED, ESTIMATED, INCONCLUSIVE or NOT_RUN.
        cause: Why it is INCONCLUSIVE.
        median_us: Median of a call.
        speedup: Best baseline ÷ candidate.
        speedup_over_eager: Eager baseline ÷ candidate.
        baselines: What the speedups refer to.
        explanation: One sentence or two for people.
        launches: Launches of one call.
        speedup_low: Lower end of the 95 % interval of `speedup`; measured latencies only.
        speedup_high: Its upper end.
        end_to_end_us: Median of a call with its launches from Python; measured latencies only.
        samples_us: What `median_us` is the median of.
        cold: Whether inputs came from beyond the caches; None for an estimate.
        span_us: A call from first start to last end as the profiler in the candidate's own process tells; measured latencies only.
        cold_us: A call whose inputs come from device memory.
        warm_us: A call whose inputs the call before had just used.
        setup_us: Building the instance and loading its state, which is no part of a call.
        roofline_share: Least time at ceilings measured on the GPU ÷ `median_us`.
        ceilings: What the device reaches; None if that is not known.
        first_look: Whether few samples sufficed, since the candidate is far behind the best baseline.

    """

    status: str
    cause: str = ""
    median_us: float | None = None
    speedup: float | None = None
    speedup_over_eager: float | None = None
    baselines: tuple[BaselineReport, ...] = ()
    explanation: str = ""
    launches: tuple[LaunchReport, ...] = ()
    speedup_low: float | None = None
    speedup_high: float | None = None
    end_to_end_us: float | None = None
    samples_us: tuple[float, ...] = ()
    cold: bool | None = None
    span_us: float | None = None
    cold_us: float | None = None
    warm_us: float | None = None
    setup_us: float | None = None
    roofline_share: float | None = None
    ceilings: Ceilings | None = None
    first_look: bool = False


def baselines_of(task: PreparedTask, target: str) -> tuple[tuple[Baseline, ...], str]:
    """Eager and compiled baseline, or none and the reason."""
    graph = task.full.get("graph")
    if not isinstance(graph, dict):
        return (), f"the task has no operator graph: {task.full.get('graph_absent_reason') or 'it could not be traced'}"
    try:
        return estimate_baselines(graph, target=target, precision=task.source.precision), ""
    except MalformedGraphError as error:
        return (), f"the task's operator graph cannot be estimated: {error}"


def least_of(task: PreparedTask) -> Work | None:
    """What the task needs at least at full shape; None where its operators are not known."""
    graph = task.full.get("graph")
    try:
        return least_work(graph) if isinstance(graph, dict) else None
    except MalformedGraphError:
        return None


def time_candidate(task: PreparedTask, reply: JsonObject, target: str) -> Timing:
    """Timing of a candidate from its launches at full shape; MalformedReplyError if they break the protocol."""
    graph = task.full.get("graph")
    try:
        estimate = estimate_candidate(
            objects(reply, "launches"),
            target=target,
            precision=task.source.precision,
            graph=graph if isinstance(graph, dict) else None,
        )
    except MalformedLaunchError as error:
        raise MalformedReplyError(str(error)) from error
    baselines, reason = baselines_of(task, target)
    moved = count(reply, "moved_bytes")
    if moved > _MOVED_BYTES:
        text = f"A call copies {moved / 1e6:.3g} MB between host and device, which is not estimated; keep the work on the device."
        return Timing("INCONCLUSIVE", "PROFILE_INCOMPLETE", baselines=baselines, explanation=text, launches=estimate.launches)
    ceilings = datasheet_ceilings(target, task.source.precision)
    return replace(_timing(estimate, baselines, reason, _floor_us(task, target)), ceilings=ceilings)


def _timing(estimate: Estimate, baselines: Sequence[Baseline], reason: str, floor_us: float) -> Timing:
    unknown = Timing("INCONCLUSIVE", baselines=tuple(baselines), launches=estimate.launches)
    if estimate.device_kernels == 0:
        return replace(unknown, cause="BELOW_RESOLUTION", explanation="Nothing runs on the device, so there is no latency to tell.")
    if estimate.median_us is None:
        return replace(unknown, cause="PROFILE_INCOMPLETE", explanation=estimate.explanation)
    if estimate.median_us < floor_us:
        text = f"The estimate of {estimate.median_us:.1f} µs is below the {floor_us:.1f} µs that writing the outputs takes at peak."
        return replace(unknown, cause="ABOVE_PEAK", explanation=text)
    by_kind = {baseline.kind: baseline.median_us for baseline in baselines}
    best_us = min(by_kind.values(), default=None)
    eager_us = by_kind.get(BaselineKind.EAGER)
    return replace(
        unknown,
        status="ESTIMATED",
        median_us=estimate.median_us,
        speedup=None if best_us is None else best_us / estimate.median_us,
        speedup_over_eager=None if eager_us is None else eager_us / estimate.median_us,
        explanation=estimate.explanation + (f" No baseline: {reason}." if reason else ""),
    )


def _floor_us(task: PreparedTask, target: str) -> float:
    """Least time in which the outputs can reach memory, in microseconds."""
    total = sum(bytes_of(output) for output in objects(task.full, "outputs"))
    return 1e6 * total / datasheet(target).dram_bytes_per_second
