"""Compares policies on recorded searches: best speedup so far, area under its curve, and differences with their intervals.

Run as `python -m adaexplore_controller.lab compare --traces FILE --policies A,B [--seeds N] [--steps N] [--in-flight N] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

from adaexplore_controller.lab.landscapes import ResampledTraces
from adaexplore_controller.lab.simulate import Curves, simulate
from adaexplore_controller.lab.traces import TraceError, read_traces
from adaexplore_controller.policies import POLICY_NAMES

MARKS = (10, 25, 50, 100)
_AREA = "auc"
_RESAMPLES = 2000

Score = Callable[[tuple[float, ...]], float]


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much one policy is better than another: mean of log-ratios over landscapes, and its 95 % interval."""

    policy: str
    baseline: str
    at: str
    mean: float
    low: float
    high: float
    worst: tuple[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--traces", type=Path, required=True, metavar="FILE", help="recorded searches, whose steps are drawn anew")
    parser.add_argument("--policies", default=",".join(POLICY_NAMES), metavar="A,B", help="policies, the first against all others")
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="searches of each policy on each landscape")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="evaluations of each search")
    parser.add_argument("--in-flight", type=int, default=1, metavar="N", help="steps of a search that are made at one time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> tuple[str, int]:
    """Return what the command prints and its exit code; TraceError if the file or a flag cannot be used."""
    policies = _policies(options.policies)
    if min(options.seeds, options.steps, options.in_flight) < 1:
        raise TraceError("FLAG_INVALID", "--seeds, --steps and --in-flight must be at least 1")
    landscapes = [ResampledTraces(trace) for trace in read_traces(options.traces)]
    curves = simulate(policies, landscapes, options.seeds, options.steps, options.in_flight)
    scores = _scores(options.steps)
    differences = [_difference(curves, left, right, at, score) for left, right in permutations(policies, 2) for at, score in scores.items()]
    return (_as_json if options.json else _as_text)(policies, curves, scores, differences), 0


def _policies(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in POLICY_NAMES]
    if unknown or not names:
        raise TraceError("POLICY_UNKNOWN", f"no policy is called {', '.join(unknown) or 'nothing'}; known: {', '.join(POLICY_NAMES)}")
    return names


def _scores(steps: int) -> dict[str, Score]:
    def best_at(mark: int) -> Score:
        return lambda curve: curve[mark - 1]

    return {str(mark): best_at(mark) for mark in MARKS if mark <= steps} | {_AREA: fmean}


def _means(curves: Sequence[Curves], policy: str, score: Score) -> dict[str, float]:
    """Means over seeds, by landscape."""
    return {item.landscape: fmean(map(score, item.best)) for item in curves if item.policy == policy}


def _difference(curves: Sequence[Curves], policy: str, baseline: str, at: str, score: Score) -> Difference:
    """A difference with an interval from resampling landscapes, the clusters, and seeds within them."""
    own, other = (
        {item.landscape: [score(curve) for curve in item.best] for item in curves if item.policy == name} for name in (policy, baseline)
    )
    by_landscape = {name: [left - right for left, right in zip(own[name], other[name], strict=True)] for name in own}
    means = {name: fmean(values) for name, values in by_landscape.items()}
    errors = {name: _error_of_mean(values) for name, values in by_landscape.items()}
    draw, names = random.Random(0), list(means)  # noqa: S311 - resampling must repeat, not surprise
    resampled = sorted(
        fmean(draw.gauss(means[name], errors[name]) for name in draw.choices(names, k=len(names))) for _ in range(_RESAMPLES)
    )
    worst = min(means.items(), key=lambda item: item[1])
    low, high = resampled[int(0.025 * _RESAMPLES)], resampled[int(0.975 * _RESAMPLES)]
    return Difference(policy, baseline, at, fmean(means.values()), low, high, worst)


def _error_of_mean(values: Sequence[float]) -> float:
    """Standard error of a mean: what resampling so many seeds would give."""
    mean = fmean(values)
    return math.sqrt(fmean((value - mean) ** 2 for value in values) / len(values))


def _as_json(policies: Sequence[str], curves: Sequence[Curves], scores: dict[str, Score], differences: Sequence[Difference]) -> str:
    found: dict[str, Any] = {}
    for policy in policies:
        overall = {at: fmean(_means(curves, policy, score).values()) for at, score in scores.items()}
        found[policy] = {"best_at": {at: math.exp(value) for at, value in overall.items() if at != _AREA}, _AREA: overall[_AREA]}
    paired = [
        {"policy": item.policy, "baseline": item.baseline, "at": item.at, "log_ratio_mean": item.mean, "ci95": [item.low, item.high]}
        for item in differences
    ]
    return json.dumps({"policies": found, "paired": paired})


def _as_text(policies: Sequence[str], curves: Sequence[Curves], scores: dict[str, Score], differences: Sequence[Difference]) -> str:
    lines = [f"{'policy':16}" + "".join(f"{'best at ' + at if at != _AREA else 'area':>14}" for at in scores)]
    for policy in policies:
        overall = {at: fmean(_means(curves, policy, score).values()) for at, score in scores.items()}
        lines.append(f"{policy:16}" + "".join(f"{value if at == _AREA else math.exp(value):14.3f}" for at, value in overall.items()))
    lines += ["", f"area under the curve of {policies[0]} against each other policy, mean log-ratio with its 95 % interval:"]
    for item in differences:
        if item.policy == policies[0] and item.at == _AREA:
            name, value = item.worst
            lines.append(f"  {item.baseline:16} {item.mean:+.3f} [{item.low:+.3f}, {item.high:+.3f}], least on {name}: {value:+.3f}")
    return "\n".join(lines)
