"""Searches whose kernels come from whoever answers: a command, and the example clients."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adaexplore.testing.servers import running_fleet

from .conftest import RUN_LIMIT_S
from .test_clients import CLIENTS, _built

SMALL = Path(__file__).parent / "inputs" / "small_task.py"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("running")) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def environ(fleet):
    return {f"ADAEXPLORE_ADDRESS_{name.upper()}": fleet.address(name) for name in ("controller", "generator")}


def _answerer(name, address):
    if name == "node":
        _built("node")
        return ["node", str(CLIENTS / "node" / "answer.mjs"), address]
    return [sys.executable, str(CLIENTS / "python" / "answer.py"), address]


@pytest.mark.timeout(RUN_LIMIT_S)
@pytest.mark.parametrize("name", ["python", "node"])
def test_an_example_client_answers_a_running_search(adaexplore, fleet, environ, tmp_path, name):
    with subprocess.Popen(_answerer(name, fleet.address("generator")), stderr=subprocess.PIPE, text=True) as answering:
        try:
            flags = ("--generator", "external", "--steps", "3", "--seed", "1", "--no-memory", "--json", "--out", tmp_path / "out")
            done = adaexplore("optimize", SMALL, *flags, environ=environ)
        finally:
            answering.terminate()
    assert done.code == 0, done.err
    nodes = done.json["nodes"]
    assert [(node["provider"], node["verdict"]) for node in nodes] == [("external", "PASSED")] * 3
    assert {node["model"] for node in nodes} == {f"answer.{'mjs' if name == 'node' else 'py'}"}
    assert done.json["usage"]["cost_micro_usd"] == 0


@pytest.mark.timeout(RUN_LIMIT_S)
def test_a_command_answers_a_running_search(adaexplore, environ, tmp_path):
    script = tmp_path / "agent.py"
    script.write_text(
        "import re, sys\nprompt = sys.stdin.read()\n"
        "program = re.search(r'The PyTorch program:\\nBEGIN DATA\\n(.*?)\\nEND DATA', prompt, re.DOTALL)[1]\n"
        "print('Why not.\\n```python\\n' + re.sub(r'\\bModel\\b', 'ModelNew', program) + '\\n```')\n"
    )
    command = [sys.executable, "-m", "adaexplore", "generator", "answer", "--count", "1", "--command", f"{sys.executable} {script}"]
    with subprocess.Popen(command, env=os.environ | environ, stderr=subprocess.PIPE, text=True) as answering:
        flags = ("--generator", "external", "--steps", "1", "--no-memory", "--json", "--out", tmp_path / "out")
        done = adaexplore("optimize", SMALL, *flags, environ=environ)
        _, told = answering.communicate(timeout=60)
    assert done.code == 0, done.err
    assert [node["verdict"] for node in done.json["nodes"]] == ["PASSED"]
    assert "answered a prompt of" in told


@pytest.mark.timeout(RUN_LIMIT_S)
def test_an_ensemble_tells_what_each_of_its_models_has_brought(adaexplore, fleet, environ, tmp_path):
    with subprocess.Popen(_answerer("python", fleet.address("generator")), stderr=subprocess.PIPE, text=True) as answering:
        try:
            flags = ("--model", "templates", "--model", "external", "--steps", "4", "--no-memory", "--json", "--out", tmp_path / "out")
            done = adaexplore("optimize", SMALL, *flags, environ=environ)
        finally:
            answering.terminate()
    assert done.code == 0, done.err
    assert {node["provider"] for node in done.json["nodes"]} == {"templates", "external"}
    models = {item["model"]: item for item in done.json["models"]}
    assert models.keys() == {"templates", "external"}
    assert sum(item["steps"] for item in models.values()) == 4
    assert all(item["cost_micro_usd"] == 0 for item in models.values())
    assert "## Models" in (tmp_path / "out" / "report.md").read_text()


def test_answering_without_a_running_generator_says_how_to_start_one(adaexplore):
    done = adaexplore("generator", "answer")
    assert done.code == 2
    assert "adaexplore serve all" in done.err
