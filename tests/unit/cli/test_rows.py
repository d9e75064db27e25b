"""Rows of a batch: what was done is not done again, what failed is, and what is refused says so."""

import asyncio
import json

import pytest
from rich.console import Console

from adaexplore.cli.batch import print_rows
from adaexplore.cli.failures import CliError
from adaexplore.cli.rows import RowFile, fill
from adaexplore.runtime.errors import InvalidArgumentError, UnavailableError

QUIET = Console(quiet=True)


async def filled(file, names, work, jobs=2):
    await fill(file, [(name, name) for name in names], work, jobs, QUIET)


@pytest.fixture
def no_waiting(monkeypatch):
    """Waiting between attempts takes no time."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _seconds: sleep(0))


async def test_what_has_a_row_is_not_done_again(tmp_path):
    asked = []

    async def work(name):
        asked.append(name)
        return {"result": name.upper()}

    await filled(RowFile(tmp_path / "deep" / "rows.jsonl"), ["a", "b"], work)
    again = RowFile(tmp_path / "deep" / "rows.jsonl")
    await filled(again, ["a", "b", "c"], work)
    assert sorted(asked) == ["a", "b", "c"]
    assert [again.rows[name]["result"] for name in "abc"] == ["A", "B", "C"]


async def test_no_more_are_done_at_one_time_than_asked(tmp_path):
    at_work, most = 0, 0

    async def work(_name):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.01)
        at_work -= 1
        return {}

    await filled(RowFile(tmp_path / "rows.jsonl"), "abcdefgh", work, jobs=3)
    assert most == 3


async def test_a_busy_service_is_asked_again_and_one_that_stays_lost_leaves_the_item_to_the_next_run(tmp_path, no_waiting):
    asked = []

    async def work(name):
        asked.append(name)
        if name == "lost" or asked.count(name) < 2:
            raise UnavailableError("busy", reason="BUSY")
        return {"result": "done"}

    file = RowFile(tmp_path / "rows.jsonl")
    await filled(file, ["busy", "lost"], work)
    assert file.rows["busy"]["result"] == "done"
    assert file.rows["lost"]["error"] == "busy"
    assert (asked.count("busy"), asked.count("lost")) == (2, 3)
    assert not RowFile(tmp_path / "rows.jsonl").done("lost")


async def test_what_is_refused_for_what_it_is_has_a_row(tmp_path):
    async def work(name):
        if name == "empty":
            raise CliError("empty.py: the file is empty")
        raise InvalidArgumentError("task.precision: fp8 is not supported", reason="TASK_INVALID")

    file = RowFile(tmp_path / "rows.jsonl")
    await filled(file, ["empty", "class"], work)
    assert file.done("empty")
    assert file.done("class")
    assert file.rows["class"]["refused"] == "--precision: fp8 is not supported"


def test_a_row_that_was_broken_off_is_dropped(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"key": "a"}) + "\n" + '{"key": "b", "mess')
    assert list(RowFile(path).rows) == ["a"]
    RowFile(path).add({"key": "c"})
    assert list(RowFile(path).rows) == ["a", "c"]


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("a note\nanother\n")
    with pytest.raises(CliError, match="line 1: no row"):
        RowFile(path)
    assert path.read_text() == "a note\nanother\n"


def test_rows_without_an_answer_are_listed_by_the_name_in_their_key(tmp_path, capsys):
    rows = [
        {"key": "relu/empty//0f", "refused": "empty.py: the file is empty"},
        {"key": "relu/lost//1e", "error": "busy", "reason": "BUSY"},
        {"key": "relu/wrong//2d", "name": "relu/wrong", "verdict": "FAILED", "cause": "NUMERIC", "message": "the output[0] is 1"},
    ]
    print_rows(rows, tmp_path)
    told = capsys.readouterr().out
    assert "relu/empty: REFUSED: empty.py: the file is empty" in told
    assert "relu/lost: NO_ANSWER: busy" in told
    assert "relu/wrong: FAILED NUMERIC: the output[0] is 1" in told
    assert "3 kernels" in told
