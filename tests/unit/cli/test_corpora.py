"""Which files a path means."""

import json

import pytest

from adaexplore.cli.batch import Candidate, candidates
from adaexplore.cli.corpora import task_files
from adaexplore.cli.failures import CliError
from adaexplore.cli.inputs import InitChoice, PrecisionChoice, TrackChoice


def made(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    return root


def names(place):
    return [item.name for item in task_files(place)]


def test_a_file_is_a_task_and_a_folder_holds_all_below_it(tmp_path):
    made(tmp_path, "b.py", "a.py", "deep/c.py", "notes.md", ".hidden/d.py", "__pycache__/e.py", "_private.py")
    assert names(tmp_path / "b.py") == ["b"]
    assert names(tmp_path) == ["a", "b", "deep/c"]


def test_kernelbench_has_three_levels_in_the_order_of_their_numbers(tmp_path):
    tasks = ("level1/10_a.py", "level1/2_b.py", "level2/1_c.py", "level3/1_d.py", "level4/1_e.py")
    made(tmp_path, *(f"KernelBench/{name}" for name in tasks), "src/other.py")
    assert names(tmp_path) == ["level1/2_b", "level1/10_a", "level2/1_c", "level3/1_d"]


def test_kernelbench_x_keeps_its_tasks_below_its_data(tmp_path):
    made(tmp_path, "data/kernelbenchx/Math/sqrt.py", "data/kernelbenchx/Loss/nll.py", "EVAL/run.py")
    assert names(tmp_path) == ["Loss/nll", "Math/sqrt"]


def test_a_place_without_tasks_is_refused(tmp_path):
    with pytest.raises(CliError, match="no Python file"):
        task_files(tmp_path)
    with pytest.raises(CliError, match="no such file or folder"):
        task_files(tmp_path / "nowhere")


@pytest.fixture
def common(tmp_path):
    return Candidate("", tmp_path, tmp_path, PrecisionChoice.FP32, TrackChoice.ANY, InitChoice.BY_NAME)


def test_a_folder_of_folders_holds_tasks_with_their_kernels(tmp_path, common):
    made(tmp_path, "relu/task.py", "relu/fast.py", "relu/slow.py", "mm/task.py", "mm/k.py", "stray/k.py")
    assert [item.name for item in candidates(tmp_path, common)] == ["mm/k", "relu/fast", "relu/slow"]


def lines(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def test_a_line_names_task_and_kernel_and_what_differs(tmp_path, common):
    path = lines(tmp_path, {"task": "t.py", "kernel": "k.py"}, "", {"task": "t.py", "kernel": "k.py", "name": "again", "precision": "tf32"})
    first, second = candidates(path, common)
    assert (first.name, first.task, first.precision) == ("t/k", tmp_path / "t.py", PrecisionChoice.FP32)
    assert (second.name, second.precision, second.init) == ("again", PrecisionChoice.TF32, InitChoice.BY_NAME)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "line 1: not JSON"),
        ({"task": "t.py"}, "line 1: an object with the strings task and kernel"),
        ({"task": "t.py", "kernel": "k.py", "class": "tf32"}, "line 1: class is no field"),
        ({"task": "t.py", "kernel": "k.py", "precision": "fp7"}, "line 1: precision is 'fp7'; fp32, tf32"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, common, row, said):
    with pytest.raises(CliError, match=said):
        candidates(lines(tmp_path, row), common)


def test_two_candidates_of_one_name_and_none_at_all_are_refused(tmp_path, common):
    row = {"task": "t.py", "kernel": "k.py"}
    with pytest.raises(CliError, match="two candidates are called t/k"):
        candidates(lines(tmp_path, row, row), common)
    with pytest.raises(CliError, match="no candidate"):
        candidates(made(tmp_path / "empty", "k.py"), common)
    with pytest.raises(CliError, match="not a readable file"):
        candidates(tmp_path / "nowhere", common)
