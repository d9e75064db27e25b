"""Several models in one search, known here by their index, and what each has brought."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EnsemblePolicy(StrEnum):
    """How one of several models is chosen."""

    BANDIT = "BANDIT"
    WEIGHTS = "WEIGHTS"


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Several models, known here by their index; `weights` has one share for each, greater than 0."""

    weights: tuple[float, ...]
    policy: EnsemblePolicy = EnsemblePolicy.BANDIT


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one model has brought: steps, kernels that PASSED, the sum of log gains of the best speedup, and cost (None if unknown)."""

    member: int
    steps: int = 0
    passed: int = 0
    log_gain: float = 0.0
    cost_micro_usd: int | None = 0
