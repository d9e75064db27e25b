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
