"""What the endurance benchmark makes of its samples."""

import os
import subprocess
import sys

import pytest

from benchmarks.endurance import ROLES, Sample, growth, is_stray, left_behind, role_of, started, summary
from benchmarks.hostile_stream import KINDS, right, stream


def samples(*values):
    return [Sample(10 * at, dict.fromkeys(ROLES, value), 8, 40, 2, 0) for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "grown"),
    [
        ((100.0, 200.0, 200.0, 200.0, 200.0), 0.0),
        ((100.0, 200.0, 210.0, 220.0, 230.0), 40.0),
        ((100.0, 200.0, 200.0, 900.0, 200.0), 0.0),
        ((100.0, 200.0), 0.0),
    ],
)
def test_growth_leaves_out_warming_up_and_single_peaks(values, grown):
    assert growth(samples(*values), values) == pytest.approx(grown)


def test_memory_that_grows_is_told_with_its_role_and_what_shrinks_is_no_fault(capsys):
    assert summary(samples(100.0, 200.0, 230.0, 260.0, 290.0)) == list(ROLES)
    assert "not flat" in capsys.readouterr().out
    assert summary(samples(100.0, 300.0, 200.0, 100.0, 50.0)) == []
    assert summary(samples(100.0, 200.0, 205.0, 201.0, 204.0)) == []


def heads(found):
    return {text.partition(":")[0] for text in found}


def test_a_process_a_folder_and_a_stray_of_a_runner_are_found_behind_a_stopped_evaluator(tmp_path):
    environ = {**os.environ, "ADAEXPLORE_RUNNER": "adaexplore-test"}
    words = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    known = subprocess.Popen(words, stdin=subprocess.PIPE)
    stray = subprocess.Popen(words, stdin=subprocess.PIPE, env=environ)
    (tmp_path / "private").mkdir()
    try:
        found = left_behind({(known.pid, started(known.pid)), (stray.pid, "another start")}, set(), tmp_path)
        assert {f"process {known.pid}", f"process {stray.pid}", f"folder {tmp_path / 'private'}"} <= heads(found)
        before = left_behind({(known.pid, "another start")}, {stray.pid}, tmp_path)
        assert not heads(before) & {f"process {known.pid}", f"process {stray.pid}"}
    finally:
        for process in (known, stray):
            process.communicate()
    assert f"process {known.pid}" not in heads(left_behind({(known.pid, started(known.pid))}, set(), tmp_path))
    assert not is_stray(os.getpid(), {})
    assert role_of(os.getpid(), os.getpid()) == "server"


def test_a_stream_has_as_many_of_each_as_asked_and_the_same_for_a_seed():
    found = stream(15, 5, seed=3)
    assert found == stream(15, 5, seed=3)
    assert len({source for _kind, source in found}) == 20
    assert [kind == "good" for kind, _source in found].count(True) == 15
    assert right("good", "PASSED", "UNSPECIFIED")
    assert all(right(kind, "FAILED", KINDS[kind].causes[0]) and not right(kind, "PASSED", "UNSPECIFIED") for kind in KINDS)
