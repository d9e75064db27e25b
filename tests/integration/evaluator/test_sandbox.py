import json
import os
import shutil
import signal
import site
import subprocess
import sys
from pathlib import Path

import pytest
from adaexplore_evaluator import launcher
from adaexplore_evaluator.sandbox import Limits, Sandbox, SandboxLevel, interpreter_place, outermost


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_an_interpreter_below_the_temporary_folder_is_seen_from_inside(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    script = (
        f"import site; [site.addsitedir(place) for place in {site.getsitepackages()!r}]\n"
        "from adaexplore_evaluator.sandbox import Limits, Sandbox, SandboxLevel; print(Sandbox(SandboxLevel.PROCESS, Limits()).level.value)"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "namespaces"


def test_the_root_of_the_host_is_never_bound(tmp_path):
    assert outermost([Path("/"), Path("/usr"), tmp_path, tmp_path / "lib"]) == [str(tmp_path)]


def test_a_program_among_other_things_is_bound_alone(tmp_path):
    program = tmp_path / "bin" / "python3"
    assert interpreter_place(program) == program
    (tmp_path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}").mkdir(parents=True)
    assert interpreter_place(program) == tmp_path


def test_files_of_a_runner_leave_half_of_the_disk_free(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: usage._replace(free=3 << 30))
    assert Sandbox(SandboxLevel.PROCESS, Limits(scratch_bytes=4 << 30), tmp_path).limits.scratch_bytes == 3 << 29
    assert Sandbox(SandboxLevel.PROCESS, Limits(scratch_bytes=1 << 20), tmp_path).limits.scratch_bytes == 1 << 20


def test_processor_time_that_is_used_up_does_not_look_like_a_kill_by_the_host():
    order = {
        "parent": os.getpid(),
        "new_session": False,
        "group": "",
        "limits": {"CPU": 1},
        "argv": [sys.executable, "-c", "while True: pass"],
        "env": {},
    }
    done = subprocess.run([sys.executable, "-I", "-S", launcher.__file__, json.dumps(order)], check=False)
    assert done.returncode == -signal.SIGXCPU
