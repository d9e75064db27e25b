"""The policy of the AdaExplore paper (arXiv 2604.16625): tree search that weighs a new child against every existing one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adaexplore_controller.domain import Selection
from adaexplore_controller.policies.moves import MOST_SHOWN, Expansions
from adaexplore_controller.randomness import uniform
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode


@dataclass(frozen=True, slots=True)
class AdaExploreSettings:
    """Constants of the paper; `expansion` is 0.3 for level 2 of KernelBench and 0.15 for level 3."""

    exploration: float = 0.3
    expansion: float = 0.3
    structural_probability: float = 0.2
    most_local_children: int = 2
    most_shown: int = MOST_SHOWN


class AdaExplore(Expansions):
    """Walks down from the root to the best child until a new child looks better than every existing one, or a leaf is reached."""

    def __init__(self, settings: AdaExploreSettings, seed: int) -> None:
        super().__init__(seed, settings.most_shown)
        self._settings = settings

    def select(self, tree: Tree, step: int) -> Selection:
        """Return what a step expands: the parent by UCT, the move by the parent's children and a draw of this step."""
        parent_step = self.parent(tree)
        return self.expand(tree, step, parent_step, self._move(tree, step, parent_step))

    def parent(self, tree: Tree) -> int:
        """Return the step of the node to expand; it depends on the tree alone.

        Of equal children the oldest wins, and a new child must beat the best existing one strictly.
        """
        step = ROOT_STEP
        while children := tree.children(step):
            best = max(children, key=lambda child: self._uct(tree, step, child.step))
            if self._expand_value(tree, step, children) > self._uct(tree, step, best.step):
                break
            step = best.step
        return step

    def _uct(self, tree: Tree, parent_step: int, child_step: int) -> float:
        spread = math.sqrt(math.log(tree.visits(parent_step)) / tree.visits(child_step))
        return tree.mean_reward(child_step) + self._settings.exploration * spread

    def _expand_value(self, tree: Tree, step: int, children: tuple[TreeNode, ...]) -> float:
        spread = math.sqrt(math.log(tree.visits(step)) / len(tree.expansions(step)) ** 2)
        return max(tree.mean_reward(child.step) for child in children) + self._settings.expansion * spread

    def _move(self, tree: Tree, step: int, parent_step: int) -> Move:
        if not self.allows(tree, parent_step, Move.LOCAL):
            return Move.STRUCTURAL
        if tree.expansions(parent_step).count(Move.LOCAL) >= self._settings.most_local_children:
            return Move.STRUCTURAL
        drawn = uniform(self._seed, step, "move")
        return Move.STRUCTURAL if drawn < self._settings.structural_probability else Move.LOCAL
