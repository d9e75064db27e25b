"""Our policy: the node that promises most, by log-speedups and by how often it was tried; every second expansion a rewrite."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adaexplore_controller.domain import Selection
from adaexplore_controller.policies.moves import Expansions
from adaexplore_controller.policies.ranking import ranked, tried, worth
from adaexplore_controller.randomness import uniform
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode


@dataclass(frozen=True, slots=True)
class DefaultSettings:
    """Constants of the policy; docs/adr/0016 has what each brings.

    Attributes:
        hope: Log-speedup that an untried expansion of a right kernel may add; it shrinks with the square root of the tries.
        repair: Log-speedup by which a wrong kernel is worth less than the best one has, with the same hope.
        structural_probability: Share of rewrites, which are shown the best kernels on the way to their parent.

    """

    hope: float = 0.3
    repair: float = 0.3
    structural_probability: float = 0.5


class Default(Expansions):
    """Goes on from the very first kernel; a node is worth its own log-speedup and a hope that shrinks with every try of the move.

    The best of a branch counts, not its mean, and a search leaves what stagnates for what is nearly as fast.
    """

    def __init__(self, seed: int, settings: DefaultSettings | None = None) -> None:
        super().__init__(seed)
        self._settings = settings or DefaultSettings()

    def select(self, tree: Tree, step: int) -> Selection:
        """Return what a step expands: a rewrite at the root while there is no kernel."""
        nodes = ranked(tree.nodes())
        if not nodes:
            return self.expand(tree, step, ROOT_STEP, Move.STRUCTURAL)
        drawn = uniform(self._seed, step, "move")
        move = Move.STRUCTURAL if drawn < self._settings.structural_probability else Move.LOCAL
        best = worth(nodes[0]) if nodes[0].passed else 0.0
        node = max(nodes, key=lambda item: (self._promise(tree, item, move, best), -item.step))
        return self.expand(tree, step, node.step, move)

    def _promise(self, tree: Tree, node: TreeNode, move: Move, best: float) -> float:
        own = worth(node) if node.passed else best - self._settings.repair - self._settings.hope
        return own + self._settings.hope / math.sqrt(1.0 + tried(tree, node.step, move))
