"""What a policy may expand, and what the generator is shown for it: the same for every policy."""

from __future__ import annotations

from adaexplore_controller.domain import Selection
from adaexplore_controller.randomness import sample
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode

MOST_SHOWN = 5


class Expansions:
    """Expansions of nodes by moves, as the paper shows them to the generator.

    Args:
        seed: Seed of what is drawn for the pool.
        most_shown: Kernels that one generation is shown.

    """

    def __init__(self, seed: int, most_shown: int = MOST_SHOWN) -> None:
        self._seed = seed
        self._most_shown = most_shown

    def expand(self, tree: Tree, step: int, parent_step: int, move: Move) -> Selection:
        """Return the expansion of a parent by a move with what the generator is shown; ValueError if the move is not allowed there."""
        if not self.allows(tree, parent_step, move):
            raise ValueError(f"step {parent_step} cannot be expanded by a {move} move")
        if move is Move.LOCAL:
            return Selection(parent_step, move, context=self._context(tree, parent_step))
        return Selection(parent_step, move, pool=self._pool(tree, step, parent_step))

    def allows(self, tree: Tree, parent_step: int, move: Move) -> bool:
        """Tell whether a node allows a move: LOCAL needs a kernel to edit, so never the empty root."""
        return move is Move.STRUCTURAL or bool(self._context(tree, parent_step))

    def _context(self, tree: Tree, parent_step: int) -> tuple[int, ...]:
        kernels: list[int] = []
        for step in tree.path(parent_step):
            if step == ROOT_STEP or len(kernels) == self._most_shown:
                break
            node = tree.node(step)
            if node.has_kernel:
                kernels.append(step)
            if node.move is Move.STRUCTURAL:
                break
        return tuple(reversed(kernels))

    def _pool(self, tree: Tree, step: int, parent_step: int) -> tuple[int, ...]:
        heads = [s for s in reversed(tree.path(parent_step)) if s != ROOT_STEP and tree.node(s).move is Move.STRUCTURAL]
        best = [node.step for head in heads if (node := _best_of_segment(tree, head)) is not None]
        return sample(best, self._most_shown, seed=self._seed, step=step, purpose="pool")


def _best_of_segment(tree: Tree, head: int) -> TreeNode | None:
    """Return the fastest correct node among a structural node and all that is reached from it by local edges, None if none is."""
    members = [tree.node(head)]
    for node in members:
        members.extend(child for child in tree.children(node.step) if child.move is Move.LOCAL)
    correct = [node for node in members if node.passed and node.has_kernel]
    return max(correct, key=lambda node: (node.speedup or 0.0, -node.step), default=None)
