import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adaexplore.testing.servers import running_fleet

from .conftest import RUN_LIMIT_S

STEPS = 8
SMALL_TASK = Path(__file__).parent / "inputs" / "small_task.py"


def _tree(nodes):
    keys = ("step", "parent", "move", "kernel_digest", "outcome", "verdict", "cause", "reward")
    return [{key: node[key] for key in keys} | {"us": (node["timing"] or {}).get("median_us")} for node in nodes]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "task.py").write_text(SMALL_TASK.read_text())
    command = [sys.executable, "-m", "adaexplore", "optimize", folder / "task.py", "--steps", str(STEPS), "--seed", "3", "--json"]
    done = subprocess.run([*command, "--out", folder / "out", "--state-dir", folder / "state"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_one_command_ends_with_a_checked_kernel_and_a_report(uninterrupted, adaexplore):
    folder, result = uninterrupted
    assert (result["state"], result["stop_reason"], result["steps"]) == ("SUCCEEDED", "STEPS", STEPS)
    assert result["verdict"] == "PASSED"
    report = (folder / "out" / "report.md").read_text()
    assert "search.svg" in report
    assert (folder / "out" / "search.svg").stat().st_size > 1000
    judged = adaexplore("evaluate", folder / "task.py", folder / "out" / "best_kernel.py", "--json", "--state-dir", folder / "state")
    assert judged.json["verdict"] == "PASSED"
    assert judged.json["timing"]["median_us"] == pytest.approx(result["timing"]["median_us"])


def test_a_failure_of_the_installed_compiler_becomes_a_rule_that_later_steps_respect(adaexplore, tmp_path):
    task = Path(__file__).parents[2] / "examples" / "lowrank_gelu_residual.py"
    words = ["optimize", task, "--steps", 8, "--seed", 7, "--json", "--out", tmp_path / "out", "--state-dir", tmp_path / "state"]
    result = adaexplore(*words).json
    assert result["verdict"] == "PASSED"
    refused = [node for node in result["nodes"] if node["cause"] == "COMPILE"]
    assert refused
    assert "has no attribute" in refused[0]["message"]
    first = result["rules_learnt"][0]
    assert first["rule"].startswith("You cannot use")
    assert first["state"] == "SKILL_STATE_ACTIVE"
    assert first["evidence"]["proof"]["reproducer_failed"]
    later = [item for item in result["rules_respected"] if item["name"] == first["name"] and item["step"] > first["step"]]
    assert later
    spelling = first["rule"].split("`")[1]
    assert all(spelling not in node["summary"] for node in result["nodes"] if node["step"] > first["step"])


def test_finished_searches_are_listed_shown_and_printed(uninterrupted, adaexplore):
    folder, result = uninterrupted
    log = folder / "state" / "logs" / "evaluator.log"
    before = log.stat().st_size
    listed = adaexplore("search", "list", "--json", "--state-dir", folder / "state").json
    assert [search["search"] for search in listed["searches"]] == [result["search"]]
    shown = adaexplore("search", "show", result["search"], "--json", "--state-dir", folder / "state").json
    assert _tree([node for node in shown["nodes"] if node["step"]]) == _tree([node for node in result["nodes"] if node["step"]])
    assert "class ModelNew" in adaexplore("search", "best", result["search"], "--state-dir", folder / "state").out
    assert log.stat().st_size == before  # none of them started an evaluator


def _child(parent, name):
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if name in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    return None


def _finished_steps(state):
    try:
        with sqlite3.connect(f"file:{state / 'controller.sqlite3'}?mode=ro", uri=True, timeout=5) as store:
            return store.execute("SELECT count(*) FROM events WHERE kind LIKE '%NodeRecorded%'").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_a_search_killed_and_resumed_grows_the_same_tree(uninterrupted, adaexplore, tmp_path):
    folder, expected = uninterrupted
    state = tmp_path / "state"
    command = [sys.executable, "-m", "adaexplore", "optimize", folder / "task.py", "--steps", str(STEPS), "--seed", "3", "--json"]
    running = subprocess.Popen([*command, "--out", tmp_path / "out", "--state-dir", state], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while running.poll() is None and _finished_steps(state) < STEPS - 1:
        time.sleep(0.05)
    os.kill(_child(running.pid, b"adaexplore_controller"), signal.SIGKILL)
    _, told = running.communicate(timeout=RUN_LIMIT_S)
    assert running.returncode == 1
    assert b"adaexplore search resume searches/" in told
    name = adaexplore("search", "list", "--json", "--state-dir", state).json["searches"][0]["search"]
    resumed = adaexplore("search", "resume", name, "--json", "--out", tmp_path / "out", "--state-dir", state)
    assert resumed.code == 0, resumed.err
    assert _tree(resumed.json["nodes"]) == _tree(expected["nodes"])
    assert _evaluations(state) <= STEPS + 1


def _evaluations(state):
    log = (state / "logs" / "evaluator.log").read_text()
    return sum("/EvaluateKernel" in line and '"code": "OK"' in line for line in log.splitlines())


def test_a_cost_limit_without_a_known_price_is_refused_before_anything_is_paid(adaexplore, running, task_file, tmp_path):
    flags = ("--max-cost-usd", "1", "--model", "nobody-knows", "--out", tmp_path / "out")
    done = adaexplore("optimize", task_file, *flags, environ=running)
    assert done.code == 2, done.err
    assert "PRICES_FILE" in done.err


def test_a_dry_run_says_what_a_search_would_cost_and_starts_nothing(adaexplore, running, task_file):
    flags = ("--steps", "50", "--max-cost-usd", "0.5", "--model", "gpt-5-mini", "--dry-run", "--json")
    done = adaexplore("optimize", task_file, *flags, environ=running)
    assert done.code == 0, done.err
    found = done.json
    assert (found["provider"], found["model"], found["steps"]) == ("openai", "gpt-5-mini", 50)
    assert 0 < found["expected"]["cost_micro_usd"] < found["worst_case"]["cost_micro_usd"]
    assert 0 < found["affordable_steps"] <= 50
    assert found["price_date"]
    free = adaexplore("optimize", task_file, "--dry-run", environ=running)
    assert "costs nothing" in free.out
    assert adaexplore("search", "list", "--json", environ=running).json["searches"] == []


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Environment of commands that use services that run already."""
    with running_fleet(tmp_path_factory.mktemp("running")) as fleet:
        yield {"ADAEXPLORE_ADDRESS_CONTROLLER": fleet.address("controller")}


def test_an_invalid_task_ends_the_search_with_its_reason(adaexplore, running, tmp_path):
    task = tmp_path / "task.py"
    task.write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 0\n"
        "\ndef get_inputs():\n    return [torch.randn(8, 8)]\n\ndef get_init_inputs():\n    return []\n"
    )
    done = adaexplore("optimize", task, "--steps", "2", "--out", tmp_path / "out", environ=running)
    assert done.code == 3
    assert "task" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("flags", "code", "word"),
    [
        (["--model", "gpt-5-mini"], 2, "OPENAI_API_KEY"),
        (["--generator", "nobody"], 2, "PROVIDER_UNKNOWN"),
        (["--model", "m", "--base-url", "http://127.0.0.1:9/v1"], 1, "http://127.0.0.1:9/v1"),
        (["--model", "m", "--base-url", "nowhere"], 1, "must begin with http"),
        (["--gpu", "0"], 2, "--gpu"),
    ],
)
def test_a_wrong_setting_is_one_line_before_any_search(adaexplore, task_file, tmp_path, flags, code, word):
    state = tmp_path / "state"
    done = adaexplore("optimize", task_file, "--steps", "2", "--state-dir", state, "--out", tmp_path / "out", "--json", *flags)
    assert done.code == code, done.err
    assert word in done.err
    assert done.err.count("\n") == 1
    assert word.strip("-") in done.json["error"]["message"] + str(done.json["error"]["reason"])
    assert not (tmp_path / "out" / "report.md").exists()


def test_a_killed_evaluator_is_started_again_and_the_search_goes_on(tmp_path):
    state = tmp_path / "state"
    command = [sys.executable, "-m", "adaexplore", "optimize", SMALL_TASK, "--steps", "2", "--json", "--out", tmp_path / "out"]
    running = subprocess.Popen([*command, "--state-dir", state], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while running.poll() is None and _finished_steps(state) < 1:
        time.sleep(0.05)
    os.kill(_child(running.pid, b"adaexplore_evaluator"), signal.SIGKILL)
    out, err = running.communicate(timeout=RUN_LIMIT_S)
    assert running.returncode == 0, err
    assert json.loads(out)["steps"] == 2


@pytest.mark.parametrize("flags", [["--target", "sm_12"], ["--precision", "fp8"], ["--device", "cuda"]])
def test_what_the_evaluator_refuses_is_wrong_input_named_by_its_flag(adaexplore, running, task_file, tmp_path, flags):
    done = adaexplore("optimize", task_file, "--steps", "2", "--out", tmp_path / "out", *flags, environ=running)
    assert done.code == 2, done.err
    assert done.err.splitlines()[-1].startswith("error: ")
    assert flags[0] in done.err
