"""The kernel's bound on a runner's processes and threads, on hosts that let us set it. Every bomb here is bounded and ends by itself."""

import sys

import pytest
from adaexplore_evaluator import monitor, sandbox
from adaexplore_evaluator.groups import remove_stale_groups, usable_groups
from adaexplore_evaluator.monitor import KillReason
from adaexplore_evaluator.referee.clock import CHECK, PhaseClock
from adaexplore_evaluator.referee.runners import Runner, RunnerEndedError
from adaexplore_evaluator.sandbox import Limits, Role, Sandbox, SandboxLevel

# A runner that needs no torch: it runs the code of each command and answers that all is well.
SCRIPT = """
import sys
from adaexplore_evaluator.runner.frames import read_frame, write_frame
command_fd, reply_fd = int(sys.argv[1]), int(sys.argv[2])
while (command := read_frame(command_fd)) is not None:
    exec(command.get("code", ""))
    write_frame(reply_fd, {"id": command["id"], "ok": True})
"""
# At most 1024 processes, all of them asleep, for 20 s: that is what a host without the bound would see.
UNTIL_FULL = """
import os, time
end_s = time.monotonic() + 20
while time.monotonic() < end_s:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    time.sleep(0.02)
"""
SHELL_BOMB = """
import subprocess
subprocess.Popen(["/bin/sh", "-c", "b() { if [ $1 -lt 9 ]; then b $(($1+1)) & b $(($1+1)) & fi; sleep 20; }; b 0"])
"""
C_BOMB = """
import ctypes, os, time
first = os.getpid()
for _ in range(10):
    ctypes.CDLL(None).fork()
if os.getpid() != first:
    time.sleep(20)
    os._exit(0)
"""
THREADS = """
import threading, time
threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(150)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""

pytestmark = pytest.mark.skipif(usable_groups() is None, reason="this host gives no control groups with the pids controller to this user")


@pytest.fixture
def clock():
    made = PhaseClock({CHECK: 60}, lambda: 0.0, lambda *_: None)
    made.begin(CHECK)
    return made


@pytest.fixture(params=list(SandboxLevel))
def runner(request, tmp_path, monkeypatch):
    def argv(_role, command_fd, reply_fd, _shared, _device):
        return [sys.executable, "-B", "-s", "-P", "-c", SCRIPT, str(command_fd), str(reply_fd)]

    monkeypatch.setattr(sandbox, "_runner_argv", argv)
    if request.param is SandboxLevel.PROCESS:
        monkeypatch.setenv("PATH", str(tmp_path))
    host = Sandbox(SandboxLevel.PROCESS, Limits(), tmp_path)
    if host.level is not request.param:
        pytest.skip("this host allows no namespaces")
    with Runner(host, Role.CANDIDATE, lambda _launch: None) as started:
        yield started


def group_of(runner):
    return runner._launch.group


@pytest.mark.parametrize("bomb", [SHELL_BOMB, C_BOMB], ids=["shell", "c"])
def test_no_bomb_outruns_the_bound_though_nobody_looks(runner, clock, bomb, monkeypatch):
    runner.wait_until_ready(clock)
    monkeypatch.setattr(monitor.Monitor, "_excess", lambda *_arguments, **_fields: None)
    group = group_of(runner)
    with pytest.raises(RunnerEndedError) as ended:
        runner.command("run", clock, code=bomb + UNTIL_FULL)
    assert ended.value.end.killed is KillReason.PROCESSES
    assert int((group.folder / "pids.peak").read_text()) <= Limits().tasks
    assert group.members() == []
    runner.close()
    assert not group.folder.exists()


def test_many_threads_are_no_bomb(runner, clock):
    runner.command("run", clock, code=THREADS)
    assert not group_of(runner).was_full
    assert runner.alive


def test_groups_of_dead_referees_are_removed_and_those_of_living_ones_stay(runner, clock):
    runner.wait_until_ready(clock)
    own = group_of(runner).folder
    stale = own.with_name("adaexplore-runner-99999999-0")
    stale.mkdir()
    remove_stale_groups()
    assert not stale.exists()
    assert own.exists()
