"""Feeds a recorded search to the paper's policy and compares the parents it selects with the recorded ones.

Run as `python -m adaexplore_controller.lab replay FILE [--json]`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from adaexplore_controller.lab.traces import Trace, TraceRow, read_traces
from adaexplore_controller.policies import AdaExplore, AdaExploreSettings, PaperReward
from adaexplore_controller.tree import Tree, TreeNode


@dataclass(frozen=True, slots=True)
class Difference:
    """A step in which the policy selects another parent than the recorded one; parents are node numbers, 0 is the root."""

    step: int
    recorded_parent: int
    selected_parent: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How one recorded search compares with the policy."""

    problem: str
    steps: int
    differences: tuple[Difference, ...]

    @property
    def matched(self) -> int:
        """Steps in which the policy selects the recorded parent."""
        return self.steps - len(self.differences)


def replay(trace: Trace, settings: AdaExploreSettings | None = None) -> ReplayResult:
    """Return how the policy's choices compare with a trace; the tree always grows as recorded, whatever the policy selects."""
    policy, reward, tree = AdaExplore(settings or AdaExploreSettings(), seed=0), PaperReward(), Tree()
    differences: list[Difference] = []
    for row in trace.rows:
        selected = policy.parent(tree)
        if selected != row.parent:
            differences.append(Difference(row.step, row.parent, selected))
        tree.add(_node(row, reward))
    return ReplayResult(trace.problem, len(trace.rows), tuple(differences))


def _node(row: TraceRow, reward: PaperReward) -> TreeNode:
    earned = reward.of_outcome(compiled=row.compiled, correct=row.correct, speedup=row.speedup)
    return TreeNode(row.node, row.parent, row.move, earned, has_kernel=True, passed=row.correct, speedup=row.speedup)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the `replay` command."""
    paper = AdaExploreSettings()
    parser.add_argument("file", type=Path, help="JSON file of recorded searches")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--exploration", type=_constant, default=paper.exploration, help="constant c of UCT (default %(default)s)")
    parser.add_argument("--expansion", type=_constant, default=paper.expansion, help="constant c_exp of Expand (default %(default)s)")


def run(options: argparse.Namespace) -> tuple[str, int]:
    """Return what the `replay` command prints, and its exit code: 0 if every step agrees, 1 if one differs; TraceError on a bad file."""
    settings = AdaExploreSettings(exploration=options.exploration, expansion=options.expansion)
    results = [replay(trace, settings) for trace in read_traces(options.file)]
    text = _as_json(options.file, settings, results) if options.json else _as_text(results)
    return text, 1 if any(result.differences for result in results) else 0


def _constant(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"`{text}` is no finite number of at least 0")
    return value


def _as_text(results: Sequence[ReplayResult]) -> str:
    lines: list[str] = []
    for result in results:
        lines.append(f"problem {result.problem}: {result.matched:,} of {result.steps:,} steps select the recorded parent")
        lines += [f"  step {d.step}: recorded {d.recorded_parent}, selected {d.selected_parent}" for d in result.differences]
    matched, steps = sum(r.matched for r in results), sum(r.steps for r in results)
    return "\n".join([*lines, f"total: {matched:,} of {steps:,} steps select the recorded parent"])


def _as_json(file: Path, settings: AdaExploreSettings, results: Sequence[ReplayResult]) -> str:
    document = {
        "file": str(file),
        "policy": "adaexplore",
        "exploration": settings.exploration,
        "expansion": settings.expansion,
        "problems": [{**asdict(result), "matched": result.matched} for result in results],
        "steps": sum(result.steps for result in results),
        "matched": sum(result.matched for result in results),
    }
    return json.dumps(document)
