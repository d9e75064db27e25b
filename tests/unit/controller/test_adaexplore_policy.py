"""The paper's policy: parents, moves, and what the generator is shown."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from adaexplore_controller.domain import PolicySpec, Selection
from adaexplore_controller.policies import AdaExplore, AdaExploreSettings, UnknownPolicyError, create_policy
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode
from hypothesis import given
from hypothesis import strategies as st

LOCAL, STRUCTURAL = Move.LOCAL, Move.STRUCTURAL


def node(
    step: int, parent: int, move: Move = STRUCTURAL, reward: float = 0.05, speedup: float | None = None, kernel: bool = True
) -> TreeNode:
    return TreeNode(step, parent, move, reward, has_kernel=kernel, passed=speedup is not None, speedup=speedup)


def policy(seed: int = 0, **settings: float) -> AdaExplore:
    return AdaExplore(AdaExploreSettings(**settings), seed)  # type: ignore[arg-type]


def test_the_first_step_expands_the_empty_root_by_a_structural_move() -> None:
    assert policy().select(Tree(), 1) == Selection(ROOT_STEP, STRUCTURAL)


def test_every_move_at_the_root_is_structural() -> None:
    tree = Tree([node(1, 0, reward=0.0), node(2, 0, reward=0.0)])
    selections = [policy(seed).expand(tree, 3, ROOT_STEP, STRUCTURAL) for seed in range(5)]
    assert {selection.move for selection in selections} == {STRUCTURAL}
    assert not policy().allows(tree, ROOT_STEP, LOCAL)
    with pytest.raises(ValueError, match="cannot be expanded by a LOCAL move"):
        policy().expand(tree, 3, ROOT_STEP, LOCAL)


def test_a_new_child_must_beat_the_best_child_strictly_and_of_equal_children_the_oldest_wins() -> None:
    # With one visited child ln N(root) is 0: Expand and UCT are equal, so the walk goes down.
    assert policy().parent(Tree([node(1, 0)])) == 1
    twins = Tree([node(1, 0), node(2, 0)])
    assert policy(expansion=0.0).parent(twins) == 1


def test_expansion_is_worth_more_the_fewer_children_there_are() -> None:
    tree = Tree([node(1, 0, reward=0.5), node(2, 1, LOCAL, reward=0.1), node(3, 1, LOCAL, reward=0.1)])
    # Expand(root) = 0.2333 + 0.3·sqrt(ln 3), UCT(1) = 0.2333 + 0.3·sqrt(ln 3 / 3)
    assert policy().parent(tree) == ROOT_STEP
    assert policy(expansion=0.1).parent(tree) != ROOT_STEP


def test_the_best_child_is_chosen_by_mean_reward_and_rarity() -> None:
    tree = Tree([node(1, 0, reward=0.4), node(2, 0, reward=0.9), node(3, 2, LOCAL, reward=0.0)])
    q = {1: 0.4, 2: 0.45}
    uct = {1: q[1] + 0.3 * math.sqrt(math.log(3)), 2: q[2] + 0.3 * math.sqrt(math.log(3) / 2)}
    assert max(uct, key=lambda step: uct[step]) == 1
    assert policy(expansion=0.0).parent(tree) == 1
    assert policy(expansion=0.0, exploration=0.0).parent(tree) == 3


def test_a_node_with_two_local_children_gets_a_structural_one() -> None:
    rivals = [node(step, 0) for step in range(2, 11)]
    tree = Tree([node(1, 0, reward=1.0), *rivals, node(11, 1, LOCAL, reward=1.0), node(12, 1, LOCAL, reward=1.0)])
    chosen = [policy(seed, expansion=0.8, structural_probability=0.0).select(tree, 13) for seed in range(20)]
    assert {(selection.parent_step, selection.move) for selection in chosen} == {(1, STRUCTURAL)}


def test_below_the_root_a_fifth_of_the_moves_is_structural() -> None:
    tree = Tree([node(1, 0)])
    moves = Counter(policy(seed).select(tree, 2).move for seed in range(2000))
    assert 330 < moves[STRUCTURAL] < 470


def test_a_local_move_is_shown_the_last_five_kernels_of_its_segment_with_the_parent_last() -> None:
    tree = Tree([node(1, 0), node(2, 1, STRUCTURAL), *(node(step, step - 1, LOCAL) for step in range(3, 9))])
    assert policy().expand(tree, 9, 8, LOCAL).context == (4, 5, 6, 7, 8)
    assert policy().expand(tree, 9, 4, LOCAL).context == (2, 3, 4)
    assert policy().expand(tree, 9, 2, LOCAL).context == (2,)


def test_steps_without_a_kernel_are_neither_shown_nor_edited() -> None:
    tree = Tree([node(1, 0), node(2, 1, LOCAL, kernel=False), node(3, 0, kernel=False)])
    assert policy().expand(tree, 4, 2, LOCAL).context == (1,)
    assert not policy().allows(tree, 3, LOCAL)
    only_failed = Tree([node(1, 0, kernel=False)])
    assert policy(structural_probability=0.0).select(only_failed, 2) == Selection(1, STRUCTURAL)


def test_a_structural_move_is_shown_the_best_correct_kernel_of_each_segment_on_the_path() -> None:
    tree = Tree(
        [
            node(1, 0, speedup=1.0),
            node(2, 1, LOCAL, speedup=3.0),  # the best of segment 1, off the path below
            node(3, 1, LOCAL, speedup=2.0),
            node(4, 3, STRUCTURAL, speedup=1.5),
            node(5, 4, LOCAL),
            node(6, 0, speedup=9.0),  # another segment that is not on the path
            node(7, 5, STRUCTURAL),  # a segment without a correct kernel
        ]
    )
    assert policy().expand(tree, 8, 5, STRUCTURAL).pool == (2, 4)
    assert policy().expand(tree, 8, 7, STRUCTURAL).pool == (2, 4)
    assert policy().expand(tree, 8, ROOT_STEP, STRUCTURAL).pool == ()


def test_of_more_than_five_segments_a_random_five_are_shown_in_order() -> None:
    tree = Tree([node(step, step - 1, STRUCTURAL, speedup=1.0) for step in range(1, 9)])
    pools = [policy(seed).expand(tree, 9, 8, STRUCTURAL).pool for seed in range(200)]
    assert all(len(pool) == 5 and list(pool) == sorted(set(pool)) for pool in pools)
    shown = Counter(step for pool in pools for step in pool)
    assert set(shown) == set(range(1, 9))
    assert min(shown.values()) > 80


def test_an_untimed_correct_kernel_represents_its_segment_only_where_no_timed_one_does() -> None:
    untimed = TreeNode(1, 0, STRUCTURAL, 0.4, has_kernel=True, passed=True, speedup=None)
    assert policy().expand(Tree([untimed]), 2, 1, STRUCTURAL).pool == (1,)
    assert policy().expand(Tree([untimed, node(2, 1, LOCAL, speedup=0.2)]), 3, 1, STRUCTURAL).pool == (2,)


def test_an_unknown_policy_is_refused_by_name() -> None:
    with pytest.raises(UnknownPolicyError, match="`genetic`; known: adaexplore"):
        create_policy(PolicySpec(name="genetic"), 0)


def test_absent_settings_take_the_values_of_the_paper() -> None:
    created = create_policy(PolicySpec(expansion=0.15), 3)
    assert isinstance(created, AdaExplore)
    assert created._settings == AdaExploreSettings(exploration=0.3, expansion=0.15, structural_probability=0.2)


REWARDS = st.sampled_from([0.0, 0.05, 0.4, 0.42, 0.51, 1.6])


@given(st.integers(0, 2**64 - 1), st.lists(REWARDS, max_size=40))
def test_a_search_replayed_from_its_nodes_continues_exactly_as_one_that_never_stopped(seed: int, rewards: list[float]) -> None:
    tree, explorer = Tree(), policy(seed)
    for step, reward in enumerate(rewards, start=1):
        fresh = Tree(tree.nodes())
        selection = explorer.select(tree, step)
        assert policy(seed).select(fresh, step) == selection
        speedup = reward * 2 if reward >= 0.4 else None
        tree.add(node(step, selection.parent_step, selection.move, reward, speedup, kernel=reward > 0))


@given(st.integers(0, 2**32), st.lists(REWARDS, min_size=1, max_size=60))
def test_every_selection_keeps_the_rules(seed: int, rewards: list[float]) -> None:
    tree, explorer = Tree(), policy(seed)
    for step, reward in enumerate(rewards, start=1):
        chosen = explorer.select(tree, step)
        locals_there = sum(child.move is LOCAL for child in tree.children(chosen.parent_step))
        if chosen.move is LOCAL:
            assert chosen.parent_step != ROOT_STEP
            assert locals_there < 2
            assert 1 <= len(chosen.context) <= 5
            assert chosen.context[-1] == chosen.parent_step
            assert chosen.pool == ()
        else:
            assert chosen.context == ()
            assert len(chosen.pool) <= 5
            assert all(tree.node(shown).passed for shown in chosen.pool)
        tree.add(node(step, chosen.parent_step, chosen.move, reward, reward if reward >= 0.4 else None))
    assert tree.visits(ROOT_STEP) == len(rewards)
    assert tree.reward_sum(ROOT_STEP) == pytest.approx(sum(rewards))
