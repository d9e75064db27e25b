"""The interface that every policy has."""

from __future__ import annotations

from typing import Protocol

from adaexplore_controller.domain import Selection
from adaexplore_controller.tree import Move, Tree


class Policy(Protocol):
    """Decides where a search goes. A policy keeps no state of its own: all it knows is the tree, so it resumes with it."""

    def select(self, tree: Tree, step: int) -> Selection:
        """Return what the given step (1-based) expands."""
        ...

    def expand(self, tree: Tree, step: int, parent_step: int, move: Move) -> Selection:
        """Return the expansion of a given parent by a given move; ValueError if that node does not allow the move."""
        ...

    def allows(self, tree: Tree, parent_step: int, move: Move) -> bool:
        """Tell whether a node can be expanded by a move at all."""
        ...
