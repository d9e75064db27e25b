"""The example clients, built from the protos, against real services with PostgreSQL, TLS and tokens."""

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import RUN_LIMIT_S
from .secured import secured_fleet

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "examples" / "clients"
SCRIPT = ROOT / "scripts" / "clients.sh"
TASK = Path(__file__).parent / "inputs" / "small_task.py"
NAMES = ("node", "cpp", "go", "java")
SOURCES = {"node": "client.ts", "cpp": "client.cc", "go": "client.go", "java": "Client.java"}
BUILD_LIMIT_S = 500


def _required(name):
    asked = os.environ.get("ADAEXPLORE_REQUIRE_CLIENTS", "")
    return asked == "all" or name in asked.split(",")


def _built(name):
    missing = subprocess.run([SCRIPT, "missing", name], capture_output=True, text=True, check=True).stdout.split()
    if missing and not _required(name):
        pytest.skip(f"the {name} client cannot be built here, not found: {', '.join(missing)}")
    done = subprocess.run([SCRIPT, "build", name], capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(name, *words, environ):
    command = [SCRIPT, "run", name, *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False, env=os.environ | environ)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, postgres):
    with secured_fleet(tmp_path_factory.mktemp("fleet"), postgres) as running:
        yield running


@pytest.mark.timeout(BUILD_LIMIT_S + RUN_LIMIT_S)
@pytest.mark.parametrize("name", NAMES)
def test_a_client_searches_fetches_the_best_kernel_decodes_an_error_and_cancels(name, fleet):
    _built(name)
    done = _run(name, fleet.address("controller"), TASK, 2, environ=fleet.environ)
    assert done.returncode == 0, done.stderr
    assert "class ModelNew" in done.stdout
    compile(done.stdout, "kernel.py", "exec")
    lines = done.stderr.splitlines()
    assert any("step 2: VERDICT_" in line for line in lines), done.stderr
    assert any("SEARCH_STATE_SUCCEEDED" in line for line in lines), done.stderr
    assert any("best: searches/" in line for line in lines), done.stderr
    assert any("error: " in line and "SEARCH_NOT_FOUND: there is no search" in line for line in lines), done.stderr
    assert lines[-1].endswith("cancelled: SEARCH_STATE_CANCELLED"), done.stderr


@pytest.mark.timeout(BUILD_LIMIT_S + RUN_LIMIT_S)
@pytest.mark.parametrize("name", NAMES)
def test_a_client_without_a_token_is_refused(name, fleet):
    _built(name)
    done = _run(name, fleet.address("controller"), TASK, 2, environ={"ADAEXPLORE_CA_FILE": fleet.environ["ADAEXPLORE_CA_FILE"]})
    assert done.returncode != 0
    assert "token" in done.stdout + done.stderr


@pytest.mark.parametrize("source", ["node/answer.mjs", "python/answer.py"])
def test_a_client_that_answers_is_shorter_still(source):
    assert len((CLIENTS / source).read_text().splitlines()) <= 40


@pytest.mark.parametrize("name", NAMES)
def test_a_client_is_short_and_its_readme_too(name):
    assert len((CLIENTS / name / SOURCES[name]).read_text().splitlines()) <= 100
    said = [line for line in (CLIENTS / name / "README.md").read_text().splitlines() if line]
    assert len(said) == 5


def test_nothing_generated_is_committed_with_the_clients():
    tracked = subprocess.run(["git", "ls-files", "examples/clients"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not [path for path in tracked if "/build/" in path or "_pb" in path or ".pb." in path or path.endswith("_grpc.ts")]
