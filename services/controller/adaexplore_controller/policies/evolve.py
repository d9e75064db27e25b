"""Evolution on islands, each with an archive of its best, in the spirit of ShinkaEvolve and OpenEvolve."""

from __future__ import annotations

from adaexplore_controller.domain import Selection
from adaexplore_controller.policies.moves import Expansions
from adaexplore_controller.policies.ranking import ranked
from adaexplore_controller.randomness import uniform
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode

_ISLANDS = 3
_ARCHIVE = 6
_STRUCTURAL = 0.25
# Of so many steps, one takes its parent from the best of all islands.
_MIGRATE_EVERY = 4


class Evolve(Expansions):
    """Islands take turns; the parent is drawn from the island's archive, the better the likelier, and now and then from all of them.

    An island is what descends from every third rewrite at the root, of which there is one each at first.
    """

    def select(self, tree: Tree, step: int) -> Selection:
        """Return what a step expands."""
        heads = tree.children(ROOT_STEP)
        if len(tree.expansions(ROOT_STEP)) < _ISLANDS:
            return self.expand(tree, step, ROOT_STEP, Move.STRUCTURAL)
        island = step % _ISLANDS
        members = tuple(node for node in tree.nodes() if step % _MIGRATE_EVERY == 0 or _island_of(tree, node, heads) == island)
        archive = ranked(members)[:_ARCHIVE]
        if not archive:
            return self.expand(tree, step, ROOT_STEP, Move.STRUCTURAL)
        parent = archive[self._rank(step, len(archive))]
        move = Move.STRUCTURAL if uniform(self._seed, step, "move") < _STRUCTURAL else Move.LOCAL
        return self.expand(tree, step, parent.step, move)

    def _rank(self, step: int, count: int) -> int:
        """A place in the archive: each is half as likely as the one before it."""
        drawn, place = uniform(self._seed, step, "rank"), 0
        while drawn < 0.5 and place + 1 < count:
            drawn, place = drawn * 2.0, place + 1
        return place


def _island_of(tree: Tree, node: TreeNode, heads: tuple[TreeNode, ...]) -> int:
    head = tree.path(node.step)[-2]
    return next(number for number, item in enumerate(heads) if item.step == head) % _ISLANDS
