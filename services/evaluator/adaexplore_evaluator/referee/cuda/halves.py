"""The captured graphs of both halves of a round, with what they wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adaexplore_evaluator.referee.cuda.outputs import Regions
from adaexplore_evaluator.runner.wire import Value


@dataclass
class Halves:
    """Outputs of both halves, the numbers of their graphs, and nodes of one call; further graphs follow."""

    outputs: list[list[Value]] = field(default_factory=list)
    graphs: list[int] = field(default_factory=list)
    nodes: float = 0.0
    _regions: dict[tuple[int, ...], Regions] = field(default_factory=dict)

    def regions(self, graphs: Sequence[int]) -> Regions:
        """Where the outputs of a round over some graphs lie."""
        key = tuple(graphs)
        if key not in self._regions:
            beside = [output for half in (0, 1) if half not in graphs for output in self.outputs[half]]
            self._regions[key] = Regions([output for graph in graphs for output in self.outputs[graph]], beside)
        return self._regions[key]

    def drop(self) -> None:
        """Look at the runner's memory no more."""
        self.outputs.clear()
        self._regions.clear()
