"""Greed with an exception now and then: the best node, or by chance any other one."""

from __future__ import annotations

from adaexplore_controller.domain import Selection
from adaexplore_controller.policies.moves import Expansions
from adaexplore_controller.policies.ranking import failed_in_a_row, ranked
from adaexplore_controller.randomness import sample, uniform
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode

_STARTS = 3
_EPSILON = 0.35
_STRUCTURAL = 0.3
# A node whose newest children all failed is left alone, unless nothing else is there.
_DEAD_AFTER = 4


class EpsilonGreedy(Expansions):
    """Three rewrites at the root, which is expanded no more then; after that the best living node, or with 0.35 any, 0.3 of it rewrites."""

    def select(self, tree: Tree, step: int) -> Selection:
        """Return what a step expands."""
        nodes = ranked(tree.nodes())
        if len(tree.expansions(ROOT_STEP)) < _STARTS or not nodes:
            return self.expand(tree, step, ROOT_STEP, Move.STRUCTURAL)
        node = self._node(tree, step, nodes)
        move = Move.STRUCTURAL if uniform(self._seed, step, "move") < _STRUCTURAL else Move.LOCAL
        return self.expand(tree, step, node.step, move)

    def _node(self, tree: Tree, step: int, nodes: list[TreeNode]) -> TreeNode:
        living = [node for node in nodes if failed_in_a_row(tree, node.step) < _DEAD_AFTER] or nodes
        if uniform(self._seed, step, "epsilon") >= _EPSILON:
            return living[0]
        return sample(living, 1, seed=self._seed, step=step, purpose="any")[0]
