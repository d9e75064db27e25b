"""Every policy but the paper's: what it expands, that it repeats itself, and that its selections are allowed."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from adaexplore_controller.domain import PolicySpec
from adaexplore_controller.policies import POLICY_NAMES, UnknownPolicyError, create_policy
from adaexplore_controller.policies.ranking import failed_in_a_row, ranked, worth
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode

LOCAL, STRUCTURAL = Move.LOCAL, Move.STRUCTURAL


def node(step: int, parent: int, move: Move = STRUCTURAL, speedup: float | None = None, kernel: bool = True) -> TreeNode:
    return TreeNode(step, parent, move, 0.05, has_kernel=kernel, passed=speedup is not None, speedup=speedup)


def grown(name: str, seed: int, steps: int, share: float = 0.6) -> Tree:
    """A tree that a policy has grown, with outcomes drawn by step."""
    tree, policy, draw = Tree(), create_policy(PolicySpec(name), seed), random.Random(seed)
    for step in range(1, steps + 1):
        found = policy.select(tree, step)
        assert policy.allows(tree, found.parent_step, found.move), f"step {step} of {name}"
        outcome = draw.random()
        speedup = draw.uniform(0.5, 4.0) if outcome < share else None
        tree.add(node(step, found.parent_step, found.move, speedup, kernel=outcome < 0.95))
    return tree


def shape(tree: Tree) -> list[tuple[int, Move]]:
    return [(item.parent_step, item.move) for item in tree.nodes()]


@pytest.mark.parametrize("name", POLICY_NAMES)
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_policy_repeats_itself_and_selects_what_is_allowed(name: str, share: float) -> None:
    assert shape(grown(name, 3, 60, share)) == shape(grown(name, 3, 60, share))


@pytest.mark.parametrize("name", ["default", "epsilon_greedy", "evolve"])
def test_another_seed_takes_another_way(name: str) -> None:
    assert len({tuple(shape(grown(name, seed, 40))) for seed in range(4)}) == 4


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_resumed_search_goes_on_as_it_would_have(name: str) -> None:
    whole = grown(name, 5, 40)
    for step in (1, 7, 23, 40):
        begun = Tree(whole.nodes()[: step - 1])
        assert create_policy(PolicySpec(name), 5).select(begun, step).parent_step == whole.node(step).parent_step


def test_best_of_n_knows_nothing_of_what_was_written() -> None:
    assert shape(grown("best_of_n", 0, 10)) == [(ROOT_STEP, STRUCTURAL)] * 10


def test_iterative_edits_what_was_written_last() -> None:
    tree = Tree([node(1, 0, speedup=3.0), node(2, 1, LOCAL), node(3, 2, LOCAL, kernel=False)])
    found = create_policy(PolicySpec("iterative"), 0).select(tree, 4)
    assert (found.parent_step, found.move) == (3, LOCAL)  # an edit of what the failed one was shown


def test_epsilon_greedy_begins_with_three_rewrites_and_expands_the_root_no_more() -> None:
    tree = grown("epsilon_greedy", 1, 60)
    assert [item.step for item in tree.children(ROOT_STEP)] == [1, 2, 3]
    best = ranked(tree.nodes())[0]
    assert len(tree.children(best.step)) >= 2


def test_epsilon_greedy_leaves_a_branch_whose_newest_children_failed() -> None:
    dead = [node(step, 1, LOCAL) for step in range(4, 8)]
    tree = Tree([node(1, 0, speedup=3.0), node(2, 0, speedup=1.0), node(3, 0), *dead])
    assert failed_in_a_row(tree, 1) == 4
    assert {create_policy(PolicySpec("epsilon_greedy"), seed).select(tree, 8).parent_step for seed in range(40)} != {1}
    assert 1 not in {create_policy(PolicySpec("epsilon_greedy"), seed).select(tree, 8).parent_step for seed in range(40)}


def test_a_beam_expands_its_few_best_alike() -> None:
    tree = grown("beam", 2, 24, share=1.0)
    assert len(tree.children(ROOT_STEP)) == 4
    assert max(len(tree.children(item.step)) for item in tree.nodes()) >= 2


def test_islands_take_turns() -> None:
    tree = Tree([node(1, 0, speedup=1.0), node(2, 0, speedup=2.0), node(3, 0, speedup=3.0)])
    policy = create_policy(PolicySpec("evolve"), 0)
    assert [policy.select(tree, step).parent_step for step in (6, 7, 5)] == [1, 2, 3]


def test_default_leaves_what_stagnates_and_prefers_what_is_faster() -> None:
    fresh = Tree([node(1, 0, speedup=3.0), node(2, 0, speedup=2.5), node(3, 0)])
    assert {create_policy(PolicySpec("default"), seed).select(fresh, 4).parent_step for seed in range(9)} == {1}
    tried = [node(step, 1, move) for step, move in enumerate([LOCAL, STRUCTURAL] * 6, start=4)]
    stagnant = Tree([*fresh.nodes(), *tried])
    found = Counter(create_policy(PolicySpec("default"), seed).select(stagnant, 16).parent_step for seed in range(60))
    assert found.most_common(1)[0][0] == 2


def test_a_wrong_kernel_is_repaired_where_nothing_is_right() -> None:
    tree = Tree([node(1, 0), node(2, 0), node(3, 0, kernel=False)])
    moves = {create_policy(PolicySpec("default"), seed).select(tree, 4).move for seed in range(40)}
    assert LOCAL in moves


def test_worth_tells_slow_from_fast_and_right_from_wrong() -> None:
    values = [worth(item) for item in (node(1, 0), node(2, 0, speedup=0.05), node(3, 0, speedup=0.9), node(4, 0, speedup=1.3))]
    assert values == sorted(values)
    assert values[0] < values[1]
    assert worth(node(5, 0, speedup=50.0)) == worth(node(6, 0, speedup=10.0))


@pytest.mark.parametrize(
    ("spec", "says"),
    [(PolicySpec("nonsense"), "known: adaexplore, default"), (PolicySpec("beam", exploration=0.1), "choose `adaexplore`")],
)
def test_what_no_policy_is_or_takes_is_refused_with_what_to_do(spec: PolicySpec, says: str) -> None:
    with pytest.raises(UnknownPolicyError, match=says):
        create_policy(spec, 0)


@pytest.mark.parametrize("name", ["adaexplore", "default", "beam", "epsilon_greedy", "evolve"])
def test_steps_that_are_planned_beside_each_other_do_not_all_take_the_same_way(name: str) -> None:
    tree, policy = grown(name, 5, 30), create_policy(PolicySpec(name), 5)
    planned = []
    for step in range(31, 39):
        found = policy.select(tree, step)
        tree.begin(step, found.parent_step, found.move)
        planned.append((found.parent_step, found.move))
    assert len(set(planned)) >= 3
