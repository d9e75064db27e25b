"""Landscapes: what a proposal comes to, without a model or a GPU."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from adaexplore_controller.domain import Selection
from adaexplore_controller.lab.traces import Trace, TraceError, TraceRow
from adaexplore_controller.policies import AdaExplore, AdaExploreSettings, PaperReward
from adaexplore_controller.tree import ROOT_STEP, Move, Tree, TreeNode

# Recorded transitions among which an outcome is drawn.
NEIGHBOURS = 15
_REWARD = PaperReward()
# Speedups of right kernels that were recorded as 0 have a logarithm too.
_LEAST = 1e-6


class Landscape(Protocol):
    """Where a simulated search looks for kernels."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        ...

    def node(self, tree: Tree, selection: Selection, step: int, drawn: float) -> TreeNode:
        """Return the node that an expansion gives, by a number drawn from [0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class _Transition:
    """A recorded step: the log-speedup of what it began with, if that was right, and what came of it."""

    start: float | None
    outcome: TraceRow


class ResampledTraces:
    """One recorded search, whose steps are drawn anew.

    A LOCAL move from a right kernel draws among the recorded LOCAL steps whose parents were right and nearest in log-speedup, one from a
    wrong kernel among all from wrong parents. A STRUCTURAL move draws among the recorded STRUCTURAL steps nearest in the log of the best
    speedup that was shown; without any shown, among all without. Outcomes are the recorded ones.

    Args:
        trace: The recorded search.

    Raises:
        TraceError: It lacks the steps that one of these moves needs.

    """

    def __init__(self, trace: Trace) -> None:
        self.name = trace.problem
        local, structural = _transitions(trace)
        self._from_right = _sorted([item for item in local if item.start is not None])
        self._from_wrong = [item.outcome for item in local if item.start is None]
        self._shown = _sorted([item for item in structural if item.start is not None])
        self._unshown = [item.outcome for item in structural if item.start is None]
        if not self._unshown:
            raise TraceError("TRACE_INVALID", f"problem {trace.problem!r} records no structural step without a kernel to show")

    def node(self, tree: Tree, selection: Selection, step: int, drawn: float) -> TreeNode:
        """Return the node that an expansion gives, by a number drawn from [0, 1)."""
        among = self._local(tree, selection.parent_step) if selection.move is Move.LOCAL else self._structural(tree, selection.pool)
        row = among[int(drawn * len(among))]
        return node_of(row, step, selection.parent_step, selection.move)

    def _local(self, tree: Tree, parent_step: int) -> Sequence[TraceRow]:
        parent = tree.node(parent_step)
        if parent.passed and self._from_right[0]:
            return _nearest(self._from_right, _log(parent.speedup))
        return self._from_wrong or self._unshown

    def _structural(self, tree: Tree, pool: tuple[int, ...]) -> Sequence[TraceRow]:
        shown = [tree.node(step).speedup for step in pool]
        if shown and self._shown[0]:
            return _nearest(self._shown, max(map(_log, shown)))
        return self._unshown


def node_of(row: TraceRow, step: int, parent_step: int, move: Move) -> TreeNode:
    """The node that a recorded outcome makes."""
    speedup = row.speedup if row.correct else None
    reward = _REWARD.of_outcome(compiled=row.compiled, correct=row.correct, speedup=speedup)
    return TreeNode(step, parent_step, move, reward, True, row.correct, speedup)


def _transitions(trace: Trace) -> tuple[list[_Transition], list[_Transition]]:
    """The local and the structural steps of a recorded search, with what each began from."""
    tree, numbers, policy = Tree(), {ROOT_STEP: ROOT_STEP}, AdaExplore(AdaExploreSettings(), 0)
    local: list[_Transition] = []
    structural: list[_Transition] = []
    for number, row in enumerate(trace.rows, start=1):
        parent = numbers[row.parent]
        if row.move is Move.LOCAL:
            node = tree.node(parent) if parent != ROOT_STEP else None
            local.append(_Transition(_log(node.speedup) if node is not None and node.passed else None, row))
        else:
            pool = policy.expand(tree, number, parent, Move.STRUCTURAL).pool
            structural.append(_Transition(max((_log(tree.node(step).speedup) for step in pool), default=None), row))
        numbers[row.node] = number
        tree.add(node_of(row, number, parent, row.move))
    return local, structural


def _log(speedup: float | None) -> float:
    return math.log(max(speedup or 0.0, _LEAST))


_Sorted = tuple[list[float], list[TraceRow]]


def _sorted(transitions: list[_Transition]) -> _Sorted:
    ordered = sorted(transitions, key=lambda item: item.start or 0.0)
    return [item.start or 0.0 for item in ordered], [item.outcome for item in ordered]


def _nearest(known: _Sorted, start: float) -> Sequence[TraceRow]:
    """The transitions whose starts are nearest; of two as near, the slower one."""
    starts, outcomes = known
    low = high = bisect.bisect_left(starts, start)
    while high - low < min(NEIGHBOURS, len(starts)):
        if high == len(starts) or (low > 0 and start - starts[low - 1] <= starts[high] - start):
            low -= 1
        else:
            high += 1
    return outcomes[low:high]
