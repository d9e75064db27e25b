"""The search tree as a policy sees it: who descends from whom, and what was backed up."""

from __future__ import annotations

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
    """A growing tree of nodes under an empty root (step 0); adding a node backs its reward up to the root."""

    def __init__(self, nodes: Iterable[TreeNode] = ()) -> None:
        self._nodes: dict[int, TreeNode] = {}
        self._children: dict[int, list[int]] = {ROOT_STEP: []}
        self._visits: dict[int, int] = {ROOT_STEP: 0}
        self._reward_sums: dict[int, float] = {ROOT_STEP: 0.0}
        for node in nodes:
            self.add(node)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, step: object) -> bool:
        return step in self._children

    def add(self, node: TreeNode) -> None:
        """Attach a node to its parent and back its reward up; ValueError if the step is taken or the parent unknown."""
        if node.step in self._children:
            raise ValueError(f"step {node.step} is in the tree already")
        if node.parent_step not in self._children:
            raise ValueError(f"step {node.step} has the unknown parent {node.parent_step}")
        self._nodes[node.step] = node
        self._children[node.step] = []
        self._visits[node.step] = 0
        self._reward_sums[node.step] = 0.0
        self._children[node.parent_step].append(node.step)
        for step in self.path(node.step):
            self._visits[step] += 1
            self._reward_sums[step] += node.reward

    def node(self, step: int) -> TreeNode:
        """Return a node other than the root; KeyError if there is none."""
        return self._nodes[step]

    def nodes(self) -> tuple[TreeNode, ...]:
        """Return all nodes but the root in order of creation."""
        return tuple(self._nodes.values())

    def children(self, step: int) -> tuple[TreeNode, ...]:
        """Return the children of a node, the oldest first."""
        return tuple(self._nodes[child] for child in self._children[step])

    def visits(self, step: int) -> int:
        """Return how many nodes were added at or below a node."""
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
