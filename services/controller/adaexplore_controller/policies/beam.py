"""A beam: the few best nodes, each expanded as often as the others."""

from __future__ import annotations

from adaexplore_controller.domain import Selection
from adaexplore_controller.policies.moves import Expansions
from adaexplore_controller.policies.ranking import ranked
from adaexplore_controller.tree import ROOT_STEP, Move, Tree

_WIDTH = 4
# Of so many expansions of one node, one is a rewrite.
_REWRITE_EVERY = 4


class Beam(Expansions):
    """Fills the beam from the root, then expands the least expanded of its nodes, the better first."""

    def select(self, tree: Tree, step: int) -> Selection:
        """Return what a step expands."""
        beam = ranked(tree.nodes())[:_WIDTH]
        if len(tree.expansions(ROOT_STEP)) < _WIDTH or not beam:
            return self.expand(tree, step, ROOT_STEP, Move.STRUCTURAL)
        node = min(beam, key=lambda item: len(tree.expansions(item.step)))
        number = len(tree.expansions(node.step)) + 1
        return self.expand(tree, step, node.step, Move.LOCAL if number % _REWRITE_EVERY else Move.STRUCTURAL)
