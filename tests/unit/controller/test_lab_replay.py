"""Replaying recorded searches: the policy selects the recorded parents, and bad files are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from adaexplore_controller.lab.__main__ import main
from adaexplore_controller.lab.replay import replay
from adaexplore_controller.lab.traces import read_traces
from adaexplore_controller.policies import AdaExploreSettings

EXCERPT = Path(__file__).with_name("trace_excerpt.json")


def excerpt() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(EXCERPT.read_text())
    return document


def written(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def test_the_policy_selects_the_recorded_parent_in_every_step_of_published_trees() -> None:
    results = [replay(trace) for trace in read_traces(EXCERPT)]
    assert [(result.problem, result.matched, result.steps) for result in results] == [("18", 60, 60), ("63", 60, 60)]


@pytest.mark.parametrize("other", [AdaExploreSettings(expansion=0.15), AdaExploreSettings(exploration=0.5)])
def test_other_constants_do_not_explain_the_published_trees(other: AdaExploreSettings) -> None:
    assert all(replay(trace, other).differences for trace in read_traces(EXCERPT))


def test_a_replay_of_agreeing_steps_prints_each_problem_and_the_total_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(EXCERPT)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "problem 18: 60 of 60 steps select the recorded parent",
        "problem 63: 60 of 60 steps select the recorded parent",
        "total: 120 of 120 steps select the recorded parent",
    ]


def test_a_step_that_differs_is_named_and_the_exit_code_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = excerpt()
    row = document["problems"]["63"][-1]
    recorded = row[2]
    row[2] = 0 if recorded else 1
    assert main(["replay", written(tmp_path / "t.json", document), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["matched"], found["steps"]) == (119, 120)
    assert found["problems"][1]["differences"] == [{"step": row[0], "recorded_parent": row[2], "selected_parent": recorded}]


def test_the_order_of_columns_is_free_and_further_columns_are_passed_over(tmp_path: Path) -> None:
    document = excerpt()
    document["columns"] = ["note", *reversed(document["columns"])]
    document["problems"] = {name: [["x", *reversed(row)] for row in rows] for name, rows in document["problems"].items()}
    assert main(["replay", written(tmp_path / "t.json", document)]) == 0


def with_cell(column: int, value: object) -> dict[str, Any]:
    document = excerpt()
    document["problems"]["18"][4][column] = value
    return document


def with_row(row: object) -> dict[str, Any]:
    document = excerpt()
    document["problems"]["18"][4] = row
    return document


@pytest.mark.parametrize(
    ("document", "where"),
    [
        pytest.param([1], "top level", id="no object"),
        pytest.param({"problems": {"1": []}}, "`columns` must be", id="no columns"),
        pytest.param({"columns": ["step", "node"], "problems": {"1": []}}, "`columns` lacks parent, move", id="columns missing"),
        pytest.param({**excerpt(), "problems": {}}, "at least one search", id="no problems"),
        pytest.param({**excerpt(), "problems": {"1": []}}, "at least one row", id="no rows"),
        pytest.param(with_row([5, 5, 1]), "row 5: must be a list of 7 values", id="short row"),
        pytest.param(with_row(7), "row 5: must be a list", id="row is no list"),
        pytest.param(with_cell(0, 1), "row 5: `step` must rise", id="steps fall"),
        pytest.param(with_cell(0, 5.5), "row 5: `step` must be a whole number", id="fraction for a step"),
        pytest.param(with_cell(1, 4), "row 5: `node` 4 exists", id="same node twice"),
        pytest.param(with_cell(2, 99), "row 5: `parent` 99", id="unknown parent"),
        pytest.param(with_cell(2, 5), "row 5: `parent` 5", id="its own parent"),
        pytest.param(with_cell(2, -1), "row 5: `parent` must be a whole number", id="negative parent"),
        pytest.param(with_cell(2, True), "row 5: `parent` must be a whole number", id="truth value for a parent"),
        pytest.param(with_cell(3, "diagonal"), "row 5: `move`", id="unknown move"),
        pytest.param(with_cell(3, None), "row 5: `move`", id="no move"),
        pytest.param(with_cell(4, "yes"), "row 5: `compiled`", id="text for a flag"),
        pytest.param(with_cell(5, []), "row 5: `correct`", id="list for a flag"),
        pytest.param(with_cell(6, "fast"), "row 5: `speedup`", id="text for a speedup"),
        pytest.param(with_cell(6, float("inf")), "row 5: `speedup`", id="endless speedup"),
        pytest.param(with_cell(6, float("nan")), "row 5: `speedup`", id="speedup is no number"),
        pytest.param(with_cell(6, 10**400), "row 5: `speedup`", id="huge speedup"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line_that_says_where(
    document: object, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", written(tmp_path / "t.json", document)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: TRACE_INVALID: ")
    assert captured.err.count("\n") == 1
    assert where in captured.err


@pytest.mark.parametrize("content", [b"", b"\xff\xfe{", b"{", b"[" * 100_000, b"not json"])
def test_what_is_not_json_is_refused_in_one_line(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    assert main(["replay", str(path), "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["reason"] == "TRACE_INVALID"
    assert captured.err.count("\n") == 1


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "absent.json")]) == 2
    assert "TRACE_UNREADABLE" in capsys.readouterr().err
    assert main(["replay", str(tmp_path)]) == 2


def test_a_constant_that_is_no_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["replay", str(EXCERPT), "--expansion", "nan"])
    assert stopped.value.code == 2
    assert "finite number" in capsys.readouterr().err
