"""Simulated searches: a policy on a landscape, and what it had found after each step."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

from adaexplore_controller.domain import PolicySpec, Selection
from adaexplore_controller.lab.landscapes import Landscape
from adaexplore_controller.policies import create_policy
from adaexplore_controller.randomness import uniform
from adaexplore_controller.tree import Tree

LEAST_SPEEDUP, MOST_SPEEDUP = 0.1, 10.0


@dataclass(frozen=True, slots=True)
class Curves:
    """The logs of the best speedup so far, clipped, after each step: of one policy on one landscape, a list a seed."""

    policy: str
    landscape: str
    best: tuple[tuple[float, ...], ...]


def search(policy_name: str, landscape: Landscape, seed: int, steps: int, in_flight: int = 1) -> tuple[float, ...]:
    """Run one search and return the log of its best speedup so far after each evaluation, clipped to 0.1 and 10.

    What a step draws depends on the seed, the landscape and the step alone, so that policies meet the same luck. Of several steps in flight
    the oldest is done first, and each is planned without knowing what comes of those before it.
    """
    policy, tree, best = create_policy(PolicySpec(policy_name), seed), Tree(), math.log(LEAST_SPEEDUP)
    curve: list[float] = []
    flying: deque[tuple[int, Selection]] = deque()
    for step in range(1, steps + 1):
        selection = policy.select(tree, step)
        tree.begin(step, selection.parent_step, selection.move)
        flying.append((step, selection))
        while flying and (len(flying) == in_flight or step == steps):
            done, chosen = flying.popleft()
            node = landscape.node(tree, chosen, done, uniform(seed, done, f"outcome/{landscape.name}"))
            tree.add(node)
            if node.passed and node.speedup is not None:
                best = max(best, math.log(min(max(node.speedup, LEAST_SPEEDUP), MOST_SPEEDUP)))
            curve.append(best)
    return tuple(curve)


def simulate(policies: Sequence[str], landscapes: Sequence[Landscape], seeds: int, steps: int, in_flight: int = 1) -> list[Curves]:
    """Run every policy on every landscape with every seed, on all processors."""
    jobs = [(policy, landscape, seeds, steps, in_flight) for policy, landscape in product(policies, landscapes)]
    workers = min(len(jobs), len(os.sched_getaffinity(0)))
    if workers == 1:
        return [_curves(job) for job in jobs]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(_curves, jobs))


def _curves(job: tuple[str, Landscape, int, int, int]) -> Curves:
    policy, landscape, seeds, steps, in_flight = job
    return Curves(policy, landscape.name, tuple(search(policy, landscape, seed, steps, in_flight) for seed in range(seeds)))
