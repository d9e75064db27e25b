"""Where else to look when the generator has nothing new for a node and a move."""

from __future__ import annotations

from adaexplore_controller.domain import Attempt, Outcome, Selection
from adaexplore_controller.policies import Policy
from adaexplore_controller.tree import ROOT_STEP, Move, Tree

# Asking costs a call each time; a provider that runs dry says so quickly, and nodes of small reward have little left.
MOST_ATTEMPTS = 16


def next_expansion(policy: Policy, tree: Tree, step: int, attempts: tuple[Attempt, ...]) -> Selection | None:
    """Return the next expansion to try after others gave nothing, None if there is no other.

    First the other move at the selected node. Only if the generator is EXHAUSTED everywhere so far: a rewrite at the root, then local
    edits of the other nodes, the best reward first.
    """
    tried = {(attempt.parent_step, attempt.move) for attempt in attempts}
    first = attempts[0]
    options = [(first.parent_step, first.move.other())]
    if all(attempt.outcome is Outcome.EXHAUSTED for attempt in attempts) and len(attempts) < MOST_ATTEMPTS:
        ranked = sorted(tree.nodes(), key=lambda node: (-node.reward, node.step))
        options += [(ROOT_STEP, Move.STRUCTURAL), *((node.step, Move.LOCAL) for node in ranked)]
    for parent_step, move in options:
        if (parent_step, move) not in tried and policy.allows(tree, parent_step, move):
            return policy.expand(tree, step, parent_step, move)
    return None
