"""The harness that the throughput benchmark compares with does its work: it tells right from wrong and where its time goes."""

import subprocess
import sys
import time

import pytest

from benchmarks.throughput import HERE, alone, environment, parsed, stream, with_hostile

from .conftest import CASES


@pytest.mark.parametrize(("kernel", "passed", "says"), [("scale", True, ""), ("returns_input", False, "another answer")])
def test_a_process_of_its_own_judges_and_tells_its_stages(kernel, passed, says):
    command = alone("fresh_judge.py", CASES / "tasks" / "scale.py", CASES / "kernels" / f"{kernel}.py", "cpu")
    environ = environment() | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True, env=environ)
    answer = parsed(done.stdout)
    assert (answer["passed"], answer["message"]) == (passed, says)
    assert {"imports", "reference", "candidate", "end"} <= answer["stages"].keys()
    assert ("baselines" in answer["stages"]) is passed
    assert all(seconds >= 0 for seconds in answer["stages"].values())


def test_a_checkout_that_cannot_be_imported_is_a_message_and_no_crash(tmp_path):
    script = str(HERE / "kernelbench_judge.py")
    words = [
        sys.executable,
        script,
        str(time.monotonic()),
        str(CASES / "tasks" / "scale.py"),
        str(CASES / "kernels" / "scale.py"),
        str(tmp_path),
    ]
    answer = parsed(subprocess.run(words, capture_output=True, text=True, timeout=400, check=True).stdout)
    assert (answer["passed"], "kernelbench" in answer["message"]) == (False, True)


def test_a_stream_takes_tasks_and_their_candidates_in_turn(tmp_path):
    for name in ("tasks/a.py", "tasks/b.py", "tasks/without.py", "kernels/a/one.py", "kernels/a/two.py", "kernels/b.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}")
    found = stream(tmp_path / "tasks", tmp_path / "kernels", 5)
    assert [item.task.stem for item in found] == ["a", "b", "a", "b", "a"]
    assert [item.source.splitlines()[0] for item in found] == [
        f"# kernels/{name}" for name in ("a/one.py", "b.py", "a/two.py", "b.py", "a/one.py")
    ]
    assert len({item.source for item in found}) == 5
    mixed = with_hostile(found * 3, seed=0)
    assert [item.good for item in mixed].count(False) == 5
    with pytest.raises(SystemExit, match="has candidates"):
        stream(tmp_path / "tasks", tmp_path / "nowhere", 5)


def test_what_a_process_prints_is_its_last_line_or_nothing():
    assert parsed('noise\n{"passed": true}\n') == {"passed": True}
    assert parsed("") == parsed("noise") == parsed("[1]") == {}
