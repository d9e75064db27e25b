"""The two policies that every other one is measured against: sampling, and refining what was written last."""

from __future__ import annotations

from adaexplore_controller.domain import Selection
from adaexplore_controller.policies.moves import Expansions
from adaexplore_controller.tree import ROOT_STEP, Move, Tree


class BestOfN(Expansions):
    """Writes every kernel from nothing, knowing none of the others."""

    def select(self, tree: Tree, step: int) -> Selection:
        """Return a rewrite at the root."""
        return self.expand(tree, step, ROOT_STEP, Move.STRUCTURAL)


class Iterative(Expansions):
    """Edits what was written last, be it right or wrong: a chain."""

    def select(self, tree: Tree, step: int) -> Selection:
        """Return an edit of the newest node, or a rewrite at the root while there is no kernel to edit."""
        for node in reversed(tree.nodes()):
            if self.allows(tree, node.step, Move.LOCAL):
                return self.expand(tree, step, node.step, Move.LOCAL)
        return self.expand(tree, step, ROOT_STEP, Move.STRUCTURAL)
