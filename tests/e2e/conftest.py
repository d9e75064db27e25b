import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from adaexplore.testing.servers import running_fleet

INPUTS = Path(__file__).parent / "inputs"
RUN_LIMIT_S = 500


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def adaexplore():
    def run(*words, environ=None, timeout_s=RUN_LIMIT_S):
        foreign = ("ADAEXPLORE_", "OPENAI_", "ANTHROPIC_", "GEMINI_")
        own = {key: value for key, value in os.environ.items() if not key.startswith(foreign) or key.startswith("ADAEXPLORE_EVALUATOR_")}
        env = own | (environ or {})
        command = [sys.executable, "-m", "adaexplore", *(str(word) for word in words)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout_s, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="module")
def evaluator_address(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("evaluator"), ["evaluator"]) as fleet:
        yield fleet.address("evaluator")


@pytest.fixture(scope="session", autouse=True)
def unhurried():
    """Phases of an evaluation may take as long as a slow host needs; the environment of this process is that of all it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for phase in ("TASK", "SETUP", "COMPILE", "CHECK", "TIMING"):
            patch.setenv(f"ADAEXPLORE_EVALUATOR_{phase}_S", "400")
        yield


@pytest.fixture
def task_file(tmp_path):
    path = tmp_path / "task.py"
    path.write_text((INPUTS / "task.py").read_text())
    return path


@pytest.fixture
def kernel_file(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text((INPUTS / "kernel.py").read_text())
    return path
