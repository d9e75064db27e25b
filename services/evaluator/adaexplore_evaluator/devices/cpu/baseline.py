"""Estimated latency of the task itself: PyTorch eager, and torch.compile in its default mode."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adaexplore_evaluator.devices.cpu.datasheet import datasheet
from adaexplore_evaluator.devices.cpu.estimate import Estimate, calls_as_kernels, estimate_kernels
from adaexplore_evaluator.devices.cpu.fusion import fused_kernels
from adaexplore_evaluator.devices.cpu.graph import parse_graph


class BaselineKind(enum.Enum):
    """How the reference runs."""

    EAGER = "eager"
    COMPILED = "compiled"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Estimated latency of the reference in microseconds and the device kernels one call launches."""

    kind: BaselineKind
    median_us: float
    launches: int
    estimate: Estimate


def estimate_baselines(graph: Mapping[str, Any], *, target: str, precision: str) -> tuple[Baseline, Baseline]:
    """Eager and compiled baseline of a task from its operator graph at full shape.

    Raises UnknownTargetError and MalformedGraphError.
    """
    parsed, sheet = parse_graph(graph), datasheet(target)
    eager = estimate_kernels(calls_as_kernels(parsed.calls, parsed), sheet, precision)
    compiled = estimate_kernels(fused_kernels(parsed, sheet), sheet, precision)
    return _baseline(BaselineKind.EAGER, eager), _baseline(BaselineKind.COMPILED, compiled)


def _baseline(kind: BaselineKind, estimate: Estimate) -> Baseline:
    return Baseline(kind=kind, median_us=estimate.median_us or 0.0, launches=estimate.device_kernels, estimate=estimate)
