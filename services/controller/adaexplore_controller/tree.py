"""The search tree as a policy sees it: who descends from whom, and what was backed up."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

ROOT_STEP = 0


class Move(StrEnum):
    """How far a proposal departs from its parent."""

    LOCAL = "LOCAL"
    STRUCTURAL = "STRUCTURAL"

    def other(self) -> Move:
        """Return the move that this one is not."""
        return Move.STRUCTURAL if self is Move.LOCAL else Move.LOCAL


@dataclass(frozen=True, slots=True)
class TreeNode:
    """What a policy may know of one node.

    `speedup` is over the best baseline and None if there is no timing; `reward` is the node's own, before any backup.
    """

    step: int
    parent_step: int
    move: Move
    reward: float
    has_kernel: bool
    passed: bool
    speedup: float | None


class Tree:
    """A growing tree of nodes under an empty root (step 0); adding a node backs its reward up to the root.

    What is in flight counts as a visit with no reward until its node is added (a virtual loss), so that steps that are planned beside each
    other do not all take the same way down.
    """

    def __init__(self, nodes: Iterable[TreeNode] = ()) -> None:
        self._nodes: dict[int, TreeNode] = {}
        self._order: list[TreeNode] = []
        self._children: dict[int, list[int]] = {ROOT_STEP: []}
        self._visits: dict[int, int] = {ROOT_STEP: 0}
        self._reward_sums: dict[int, float] = {ROOT_STEP: 0.0}
        self._in_flight: dict[int, tuple[int, Move]] = {}
        for node in sorted(nodes, key=_step_of):
            self.add(node)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, step: object) -> bool:
        return step in self._children

    def begin(self, step: int, parent_step: int, move: Move) -> None:
        """Count a step that is in flight from now on, in place of what was planned for it before; KeyError for an unknown parent."""
        self.drop(step)
        self._visit(parent_step, 1)
        self._in_flight[step] = parent_step, move

    def drop(self, step: int) -> None:
        """Forget a step in flight."""
        planned = self._in_flight.pop(step, None)
        if planned:
            self._visit(planned[0], -1)

    def add(self, node: TreeNode) -> None:
        """Attach a node to its parent and back its reward up; ValueError if the step is taken or the parent unknown."""
        if node.step in self._children:
            raise ValueError(f"step {node.step} is in the tree already")
        if node.parent_step not in self._children:
            raise ValueError(f"step {node.step} has the unknown parent {node.parent_step}")
        self.drop(node.step)
        self._nodes[node.step] = node
        self._children[node.step] = []
        self._visits[node.step] = 0
        self._reward_sums[node.step] = 0.0
        insort(self._order, node, key=_step_of)
        insort(self._children[node.parent_step], node.step)
        self._visit(node.step, 1, node.reward)

    def node(self, step: int) -> TreeNode:
        """Return a node other than the root; KeyError if there is none."""
        return self._nodes[step]

    def nodes(self) -> tuple[TreeNode, ...]:
        """Return all nodes but the root in order of their steps."""
        return tuple(self._order)

    def children(self, step: int) -> tuple[TreeNode, ...]:
        """Return the children of a node, the oldest first."""
        return tuple(self._nodes[child] for child in self._children[step])

    def expansions(self, step: int) -> tuple[Move, ...]:
        """Return the moves by which a node was expanded, then those by which it is being expanded now."""
        done = tuple(self._nodes[child].move for child in self._children[step])
        if not self._in_flight:
            return done
        return done + tuple(move for parent_step, move in self._in_flight.values() if parent_step == step)

    def visits(self, step: int) -> int:
        """Return how many nodes were added at or below a node, or are in flight there."""
        return self._visits[step]

    def reward_sum(self, step: int) -> float:
        """Return the sum of the rewards of the node and of everything below it."""
        return self._reward_sums[step]

    def mean_reward(self, step: int) -> float:
        """Return the mean backed-up reward of a visited node."""
        return self._reward_sums[step] / self._visits[step]

    def path(self, step: int) -> tuple[int, ...]:
        """Return the steps from a node up to the root, both included."""
        steps = [step]
        while step != ROOT_STEP:
            step = self._nodes[step].parent_step
            steps.append(step)
        return tuple(steps)

    def depth(self, step: int) -> int:
        """Return the number of edges from the root."""
        return len(self.path(step)) - 1

    def _visit(self, step: int, count: int, reward: float = 0.0) -> None:
        for above in self.path(step):
            self._visits[above] += count
            self._reward_sums[above] += reward


def _step_of(node: TreeNode) -> int:
    return node.step
