"""Several models in one search: which is asked, and what each has brought."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest
from adaexplore_controller.domain import Candidate, Evaluation, Kernel, Node, Outcome, Usage, Verdict
from adaexplore_controller.ensemble import Contributions
from adaexplore_controller.models import Contribution, Ensemble, EnsemblePolicy
from adaexplore_controller.tree import Move
from unit.controller.fakes import START, Fuse, Killed, World

TWO = Ensemble((1.0, 1.0))


def node(step: int, member: int | None, speedup: float | None, cost: int | None = 100) -> Node:
    usage = Usage(calls=1, cost_micro_usd=cost)
    verdict = Verdict.FAILED if speedup is None else Verdict.PASSED
    evaluation = Evaluation(b"", verdict, speedup=speedup)
    candidate = Candidate(Outcome.KERNEL, Kernel(f"# {step}", f"d{step}"), usage=usage)
    return Node(step, 0, 1, Move.STRUCTURAL, (), candidate, evaluation, 0.0, (), START, member=member)


def test_each_model_is_asked_once_before_any_is_asked_again() -> None:
    found = Contributions(3)
    for step, expected in enumerate([0, 1, 2], start=1):
        assert found.choose(Ensemble((1.0,) * 3), 7, step) == expected
        found.add(node(step, expected, None))


def test_what_a_model_has_brought_is_what_it_added_to_the_best() -> None:
    nodes = [node(1, 0, 2.0), node(2, 1, 1.5), node(3, 1, 4.0), node(4, 0, None), node(5, None, 8.0), node(6, 0, 16.0)]
    first, second = Contributions(2, nodes).each
    assert first == Contribution(0, 3, 2, pytest.approx(math.log(2) + math.log(2)), 300)
    assert second == Contribution(1, 2, 2, pytest.approx(math.log(2)), 200)


def test_an_unknown_cost_makes_the_sum_unknown_and_the_choice_blind_to_money() -> None:
    found = Contributions(2, [node(1, 0, None, None), node(2, 1, 2.0, 10**6), node(3, 1, 4.0, 10**6), node(4, 0, None, None)])
    assert [item.cost_micro_usd for item in found.each] == [None, 2 * 10**6]
    assert found.choose(TWO, 0, 5) == 1


@pytest.mark.parametrize("dear", [0, 1])
def test_of_equally_good_models_the_cheaper_one_is_asked_more(dear: int) -> None:
    asked = Counter(_play([0.3, 0.3], [1000 if index == dear else 100 for index in range(2)], 60))
    assert asked[1 - dear] > 2 * asked[dear] > 0


def test_of_equally_dear_models_the_better_one_is_asked_more() -> None:
    asked = Counter(_play([0.05, 0.6], [100, 100], 60))
    assert asked[1] > 1.5 * asked[0] > 0


def test_a_model_that_costs_nothing_does_not_keep_the_others_from_being_asked() -> None:
    asked = Counter(_play([0.0, 0.9], [0, 1000], 60))
    assert asked[1] >= 3


def _play(chances: list[float], costs: list[int], steps: int) -> list[int]:
    """Return which model was asked in each step where each doubles the best speedup with its own chance."""
    draw, found, best, asked = random.Random(5), Contributions(len(chances)), 1.0, []
    for step in range(1, steps + 1):
        member = found.choose(Ensemble((1.0,) * len(chances)), 3, step)
        lucky = draw.random() < chances[member]
        best *= 1.3 if lucky else 1.0
        found.add(node(step, member, best if lucky else None, costs[member]))
        asked.append(member)
    return asked


def test_weights_are_shares() -> None:
    ensemble = Ensemble((1.0, 3.0), EnsemblePolicy.WEIGHTS)
    asked = Counter(Contributions(2).choose(ensemble, 11, step) for step in range(1, 2001))
    assert 0.70 < asked[1] / 2000 < 0.80


async def test_a_search_asks_the_chosen_model_and_remembers_which(world: World) -> None:
    search = await world.run(max_steps=8, ensemble=TWO)
    nodes = await world.history.nodes("s")
    asked = {"/".join(request.request_id.split("/")[2:4]): request.member for request in world.generator.requests}
    assert [asked[f"steps/{item.step}"] for item in nodes] == [item.member for item in nodes]
    assert {item.member for item in nodes} == {0, 1}
    assert search.spec.ensemble == TWO


async def test_a_search_that_is_taken_up_again_chooses_as_if_nothing_had_happened(world: World, tmp_path: Path) -> None:
    await world.run(max_steps=9, ensemble=TWO)
    whole = [item.member for item in await world.history.nodes("s")]
    other = World(tmp_path / "other.sqlite3")
    await other.database.open()
    await other.start(max_steps=9, ensemble=TWO)
    for life in range(30):
        owner = "one" if life == 0 else f"life {life}"
        if life:
            await other.take_over(owner)
        other.set_fuse(Fuse(25))
        try:
            await other.runner(owner).run("s")
        except Killed:
            continue
        break
    assert [item.member for item in await other.history.nodes("s")] == whole
    await other.database.close()
