"""Several models in one search: which is asked next, and what each has brought."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from adaexplore_controller.domain import Node
from adaexplore_controller.models import Contribution, Ensemble, EnsemblePolicy
from adaexplore_controller.randomness import uniform

# A correct kernel is worth something even if it is not the fastest; a doubling of the best speedup is worth all there is.
_PASSED_SHARE = 0.2
_FULL_GAIN = math.log(2)
# Below this share of the mean cost models do not differ: every step costs an evaluation and its time as well.
_LEAST_COST_SHARE = 0.5
_PURPOSE = "ensemble"


class Contributions:
    """What the models of a search have brought, kept up to date node by node.

    Args:
        members: How many models there are.
        nodes: The nodes so far, in order of creation.

    """

    def __init__(self, members: int, nodes: Iterable[Node] = ()) -> None:
        self._found = [Contribution(index) for index in range(members)]
        self._rewards = [0.0] * members
        self._best = 1.0
        for node in nodes:
            self.add(node)

    @property
    def each(self) -> tuple[Contribution, ...]:
        """What each model has brought, by its index."""
        return tuple(self._found)

    def add(self, node: Node) -> None:
        """Count a node; what a kernel adds is told from the best speedup before it, 1 for PyTorch itself."""
        speedup = node.evaluation.speedup if node.evaluation and node.passed else None
        gain = max(0.0, math.log(speedup / self._best)) if speedup else 0.0
        self._best = max(self._best, speedup or 0.0)
        if node.member is None:
            return
        before, cost = self._found[node.member], node.candidate.usage.cost_micro_usd
        unknown = cost is None or before.cost_micro_usd is None
        self._found[node.member] = replace(
            before,
            steps=before.steps + 1,
            passed=before.passed + node.passed,
            log_gain=before.log_gain + gain,
            cost_micro_usd=None if unknown else (before.cost_micro_usd or 0) + (cost or 0),
        )
        self._rewards[node.member] += _PASSED_SHARE * node.passed + (1 - _PASSED_SHARE) * min(1.0, gain / _FULL_GAIN)

    def choose(self, ensemble: Ensemble, seed: int, step: int) -> int:
        """Return the index of the model to ask in a step; it depends on the nodes, the seed and the step alone."""
        if ensemble.policy is EnsemblePolicy.WEIGHTS:
            return _drawn(ensemble.weights, uniform(seed, step, _PURPOSE))
        untried = [item.member for item in self._found if not item.steps]
        if untried:
            return untried[0]
        pulls, prices = sum(item.steps for item in self._found), self._mean_costs()

        def promise(item: Contribution) -> float:
            mean = self._rewards[item.member] / item.steps
            return (mean + math.sqrt(math.log(pulls) / (2 * item.steps))) / prices[item.member]

        return max(self._found, key=lambda item: (promise(item), -item.member)).member

    def _mean_costs(self) -> list[float]:
        """Mean cost of a step by model, in shares of the mean over all; 1 for each where any is unknown or all are free."""
        means = [None if item.cost_micro_usd is None else item.cost_micro_usd / item.steps for item in self._found]
        known = [mean for mean in means if mean is not None]
        overall = sum(known) / len(known) if known else 0.0
        if len(known) < len(means) or overall == 0:
            return [1.0] * len(means)
        return [max(mean / overall, _LEAST_COST_SHARE) for mean in known]


def _drawn(weights: tuple[float, ...], share: float) -> int:
    at = share * sum(weights)
    for index, weight in enumerate(weights):
        at -= weight
        if at < 0:
            return index
    return len(weights) - 1
