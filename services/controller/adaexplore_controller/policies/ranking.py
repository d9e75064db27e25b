"""How policies other than the paper's rank nodes: by the logarithm of the speedup, so that 0.9 and 1.3 are far apart."""

from __future__ import annotations

import math

from adaexplore_controller.tree import Move, Tree, TreeNode

LEAST_SPEEDUP, MOST_SPEEDUP = 0.1, 10.0


def worth(node: TreeNode) -> float:
    """Return the log-speedup of a right kernel, clipped to 0.1 and 10 (1 where nothing was timed); of another one, less than any."""
    if not node.passed:
        return math.log(LEAST_SPEEDUP) - 1.0
    speedup = 1.0 if node.speedup is None else node.speedup
    return math.log(min(max(speedup, LEAST_SPEEDUP), MOST_SPEEDUP))


def ranked(nodes: tuple[TreeNode, ...]) -> list[TreeNode]:
    """Return nodes with a kernel, the best first and of equals the oldest."""
    return sorted((node for node in nodes if node.has_kernel), key=lambda node: (-worth(node), node.step))


def tried(tree: Tree, step: int, move: Move) -> int:
    """Return how often a node was expanded by a move, expansions in flight included."""
    return tree.expansions(step).count(move)


def failed_in_a_row(tree: Tree, step: int) -> int:
    """Return how many of a node's newest children are not right."""
    count = 0
    for child in reversed(tree.children(step)):
        if child.passed:
            break
        count += 1
    return count
