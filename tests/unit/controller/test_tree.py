"""The tree and its backups."""

from __future__ import annotations

import pytest
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode


def node(step: int, parent: int, reward: float) -> TreeNode:
    return TreeNode(step, parent, Move.STRUCTURAL, reward, has_kernel=True, passed=False, speedup=None)


def test_a_reward_is_backed_up_through_every_ancestor() -> None:
    tree = Tree([node(1, 0, 0.4), node(2, 1, 1.0), node(3, 0, 0.05)])
    assert [tree.visits(step) for step in range(4)] == [3, 2, 1, 1]
    assert tree.reward_sum(ROOT_STEP) == pytest.approx(1.45)
    assert tree.mean_reward(1) == pytest.approx(0.7)
    assert tree.mean_reward(2) == 1.0


def test_paths_lead_to_the_root_and_children_are_in_order_of_age() -> None:
    tree = Tree([node(1, 0, 0), node(2, 1, 0), node(5, 2, 0), node(4, 1, 0)])
    assert tree.path(5) == (5, 2, 1, 0)
    assert tree.depth(5) == 3
    assert [child.step for child in tree.children(1)] == [2, 4]


def test_a_step_is_added_once_and_only_below_a_known_node() -> None:
    tree = Tree([node(1, 0, 0)])
    with pytest.raises(ValueError, match="step 1 is in the tree already"):
        tree.add(node(1, 0, 0))
    with pytest.raises(ValueError, match="unknown parent 7"):
        tree.add(node(2, 7, 0))
    assert len(tree) == 1


def test_a_step_in_flight_counts_as_a_visit_without_reward_until_its_node_is_there() -> None:
    tree = Tree([node(1, 0, 0.6), node(2, 1, 0.8)])
    before = [tree.visits(step) for step in (0, 1, 2)]
    tree.begin(3, 1, Move.LOCAL)
    assert [tree.visits(step) for step in (0, 1, 2)] == [before[0] + 1, before[1] + 1, before[2]]
    assert tree.mean_reward(1) == pytest.approx(1.4 / 3)
    assert tree.expansions(1) == (Move.STRUCTURAL, Move.LOCAL)
    tree.begin(3, 2, Move.STRUCTURAL)  # planned anew
    assert tree.expansions(1) == (Move.STRUCTURAL,)
    assert tree.expansions(2) == (Move.STRUCTURAL,)
    tree.drop(3)
    assert [tree.visits(step) for step in (0, 1, 2)] == before
    tree.begin(3, 1, Move.LOCAL)
    tree.add(node(3, 1, 0.1))
    assert tree.visits(0) == 3
    assert tree.mean_reward(1) == pytest.approx(1.5 / 3)


def test_nodes_are_in_order_of_their_steps_whenever_they_came() -> None:
    tree = Tree()
    for step, parent in ((2, 0), (1, 0), (4, 1), (3, 1)):
        tree.add(node(step, parent, 0.0))
    assert [item.step for item in tree.nodes()] == [1, 2, 3, 4]
    assert [item.step for item in tree.children(0)] == [1, 2]
    assert [item.step for item in tree.children(1)] == [3, 4]
