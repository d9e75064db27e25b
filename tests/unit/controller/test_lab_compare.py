"""Comparing policies on resampled searches: which recorded steps an outcome is drawn among, and what is printed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from adaexplore_controller.domain import Selection
from adaexplore_controller.lab.__main__ import main
from adaexplore_controller.lab.landscapes import ResampledTraces
from adaexplore_controller.lab.simulate import search
from adaexplore_controller.lab.traces import Trace, TraceError, TraceRow, read_traces
from adaexplore_controller.tree import Move, Tree, TreeNode

EXCERPT = Path(__file__).with_name("trace_excerpt.json")
LOCAL, STRUCTURAL = Move.LOCAL, Move.STRUCTURAL


def row(number: int, parent: int, move: Move, speedup: float = 0.0) -> TraceRow:
    return TraceRow(number, number, parent, move, True, speedup > 0, speedup)


def recorded() -> ResampledTraces:
    """Rewrites of 1x to 20x, each edited once to a hundredth more, and one wrong kernel that became 7x."""
    rows: list[TraceRow] = []
    for at in range(1, 21):
        rows += [row(2 * at - 1, 0, STRUCTURAL, float(at)), row(2 * at, 2 * at - 1, LOCAL, at + 0.01)]
    rows += [row(41, 0, STRUCTURAL), row(42, 41, LOCAL, 7.0), row(43, 3, STRUCTURAL, 99.0)]
    return ResampledTraces(Trace("made", tuple(rows)))


def outcomes(tree: Tree, selection: Selection) -> set[float | None]:
    landscape = recorded()
    return {landscape.node(tree, selection, 50, drawn / 1000).speedup for drawn in range(1000)}


def right(step: int, speedup: float) -> TreeNode:
    return TreeNode(step, 0, STRUCTURAL, 0.5, True, True, speedup)


def test_an_edit_of_a_right_kernel_is_drawn_among_the_fifteen_nearest_in_the_logarithm() -> None:
    assert outcomes(Tree([right(1, 1.0)]), Selection(1, LOCAL)) == {at + 0.01 for at in range(1, 16)}
    assert outcomes(Tree([right(1, 500.0)]), Selection(1, LOCAL)) == {at + 0.01 for at in range(6, 21)}
    middle = outcomes(Tree([right(1, 8.0)]), Selection(1, LOCAL))
    assert len(middle) == 15
    assert middle == {at + 0.01 for at in sorted(range(1, 21), key=lambda at: abs(math.log(at / 8)))[:15]}


def test_an_edit_of_a_wrong_kernel_is_drawn_among_all_from_wrong_ones() -> None:
    assert outcomes(Tree([TreeNode(1, 0, STRUCTURAL, 0.05, True, False, None)]), Selection(1, LOCAL)) == {7.0}


def test_a_rewrite_is_drawn_by_the_best_that_is_shown_and_without_any_among_those_without() -> None:
    tree = Tree([right(1, 2.0), right(2, 3.0)])
    assert outcomes(tree, Selection(1, STRUCTURAL, pool=(1, 2))) == {99.0}
    assert outcomes(tree, Selection(0, STRUCTURAL)) == {None, *map(float, range(1, 21))}


def test_a_search_is_repeated_by_its_seed_and_never_loses_its_best() -> None:
    landscape = ResampledTraces(read_traces(EXCERPT)[0])
    curve = search("default", landscape, 3, 40)
    assert curve == search("default", landscape, 3, 40)
    assert curve != search("default", landscape, 4, 40)
    assert list(curve) == sorted(curve)
    assert all(math.log(0.1) <= value <= math.log(10.0) for value in curve)


def test_the_json_has_every_policy_mark_and_pair(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--traces", str(EXCERPT), "--policies", "default,best_of_n", "--seeds", "4", "--steps", "25", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"policies", "paired"}
    assert list(found["policies"]) == ["default", "best_of_n"]
    assert all(list(item["best_at"]) == ["10", "25"] and isinstance(item["auc"], float) for item in found["policies"].values())
    pairs = {(item["policy"], item["baseline"], item["at"]) for item in found["paired"]}
    assert pairs == {(a, b, at) for a, b in (("default", "best_of_n"), ("best_of_n", "default")) for at in ("10", "25", "auc")}
    for item in found["paired"]:
        low, high = item["ci95"]
        assert low <= high
        if item["policy"] == "default" and item["at"] == "25":
            ratio = math.log(found["policies"]["default"]["best_at"]["25"] / found["policies"]["best_of_n"]["best_at"]["25"])
            assert item["log_ratio_mean"] == pytest.approx(ratio)


def test_without_json_there_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--traces", str(EXCERPT), "--policies", "beam,evolve", "--seeds", "2", "--steps", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["policy", "best", "at", "10", "area"]
    assert [line.split()[0] for line in lines[1:3]] == ["beam", "evolve"]
    assert "evolve" in lines[-1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policies", "default,nonsense"], "no policy is called nonsense"),
        (["--policies", ","], "no policy is called nothing"),
        (["--seeds", "0"], "must be at least 1"),
    ],
)
def test_flags_that_cannot_be_used_are_refused_in_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--traces", str(EXCERPT), *words]) == 2
    assert says in capsys.readouterr().err


def test_a_search_that_records_too_little_is_refused() -> None:
    with pytest.raises(TraceError, match="without a kernel to show"):
        ResampledTraces(Trace("odd", (row(1, 0, LOCAL),)))
