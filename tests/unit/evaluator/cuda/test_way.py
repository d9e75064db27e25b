"""A shared turn that lasts is given up in between: locks are files, a thread stands for another referee, runners are real processes."""

import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from adaexplore_evaluator.referee.clock import CHECK, PhaseClock
from adaexplore_evaluator.referee.cuda import turns as module
from adaexplore_evaluator.referee.cuda.runner import CudaRunner
from adaexplore_evaluator.referee.cuda.turns import GpuTurns
from adaexplore_evaluator.referee.cuda.way import Quiet, Way
from adaexplore_evaluator.sandbox import Launch, Limits, Role

SOON_S = 30.0
ALONE_US = 10_000.0
RUNNER = """
import sys, time
from adaexplore_evaluator.runner.frames import read_frame, write_frame
command_fd, reply_fd = int(sys.argv[1]), int(sys.argv[2])
while (command := read_frame(command_fd)) is not None:
    for _ in range(command.get("moments", 0)):
        time.sleep(0.01)
    write_frame(reply_fd, {"id": command["id"], "ok": True})
"""


class Sandboxed:
    limits = Limits(memory_bytes=512 << 20)

    def __init__(self, folder):
        self.folder = folder

    def start(self, _role):
        for name in ("shared", "source"):
            (self.folder / name).mkdir(parents=True)
        command_in, command_out = os.pipe()
        reply_in, reply_out = os.pipe()
        arguments = [sys.executable, "-c", RUNNER, str(command_in), str(reply_out)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(command_in, reply_out))
        os.close(command_in)
        os.close(reply_out)
        return Launch(process, command_out, reply_in, self.folder, self.folder, "adaexplore-test-of-the-way")


class Gpu:
    """In place of one: what counting takes while so many others compute."""

    def __init__(self, *loads):
        self.loads = list(loads)

    def spin_us(self):
        return ALONE_US * (1 + (self.loads.pop(0) if self.loads else 0))


@pytest.fixture
def turns(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_S", 0.0)
    return GpuTurns("GPU-1", tmp_path)


def quiet_of(gpu, folder):
    quiet = Quiet("GPU-1", gpu.spin_us, folder)
    quiet.learn()
    return quiet


def alone_after(folder, told):
    """A referee that wants to be alone; it says what `told` gives when it is, and when it has left."""
    said = queue.SimpleQueue()

    def run():
        other = GpuTurns("GPU-1", folder)
        with other.job(lambda: False), other.alone():
            said.put(told())
        said.put("left")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return said, thread


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]


def test_whoever_waits_to_be_alone_passes_while_a_runner_stands_still(tmp_path, turns):
    clock = PhaseClock({CHECK: SOON_S}, time.monotonic, lambda *_: None)
    clock.begin(CHECK)
    way = Way(turns, quiet_of(Gpu(), tmp_path))
    with CudaRunner(Sandboxed(tmp_path / "private"), Role.CANDIDATE, lambda _launch: None, way) as runner:
        runner.command("run", clock)
        with turns.job(lambda: False), turns.using():
            held_s = 1.0

            def told():
                state = state_of(runner.pid)
                time.sleep(held_s)
                return state

            said, thread = alone_after(tmp_path, told)
            start_s, before_s = time.monotonic(), clock.spent_s[CHECK]
            runner.command("run", clock, moments=100)
            spent_s, wall_s = clock.spent_s[CHECK] - before_s, time.monotonic() - start_s
            assert said.get(timeout=SOON_S) == "T", "the runner is stopped while another one is alone"
            assert said.get(timeout=SOON_S) == "left"
            thread.join(SOON_S)
            assert spent_s <= wall_s - held_s, "nobody pays for the wait"
            late, _thread = alone_after(tmp_path, lambda: "alone")
            with pytest.raises(queue.Empty):
                late.get(timeout=0.2)  # the turn was taken again
        assert late.get(timeout=SOON_S) == "alone"


def test_nobody_passes_while_the_gpu_is_still_at_work(tmp_path, turns):
    way = Way(turns, quiet_of(gpu := Gpu(), tmp_path))
    with turns.job(lambda: False), turns.using():
        said, _thread = alone_after(tmp_path, lambda: "alone")
        until_s = time.monotonic() + SOON_S
        while not way.is_asked_for() and time.monotonic() < until_s:
            time.sleep(0.01)
        gpu.loads = [1] * 1_000_000
        way.give()
        assert said.empty()
        gpu.loads = [1, 1]  # it is done after two looks
        way.give()
        assert said.get(timeout=SOON_S) == "alone"


def test_a_turn_is_given_up_only_after_a_while_only_if_shared_and_only_for_one_that_waits(tmp_path, turns, monkeypatch):
    way = Way(turns, quiet_of(Gpu(), tmp_path))
    with turns.job(lambda: False):
        assert not way.is_asked_for(), "no turn is held"
        with turns.using():
            assert not way.is_asked_for(), "nobody waits"
            said, _thread = alone_after(tmp_path, lambda: "alone")
            until_s = time.monotonic() + SOON_S
            while not way.is_asked_for() and time.monotonic() < until_s:
                time.sleep(0.01)
            assert way.is_asked_for()
            monkeypatch.setattr(module, "_LEAST_S", 1000.0)
            assert not way.is_asked_for(), "it has just begun"
        assert said.get(timeout=SOON_S) == "alone"
        monkeypatch.setattr(module, "_LEAST_S", 0.0)
        with turns.alone():
            _said, _thread = alone_after(tmp_path, lambda: "alone")
            time.sleep(0.1)
            assert not way.is_asked_for(), "what is timed stays alone"


def test_without_knowing_what_counting_takes_alone_nobody_passes(tmp_path, turns):
    quiet = Quiet("GPU-1", Gpu().spin_us, tmp_path)
    assert not quiet.reached(0.0)
    with turns.job(lambda: False), turns.using():
        alone_after(tmp_path, lambda: "alone")
        time.sleep(0.1)
        assert not Way(turns, quiet).is_asked_for()


def test_the_quiet_gpu_is_told_by_the_fastest_count(tmp_path):
    gpu = Gpu(0.5, 0.2, 0.0, 0.1, 0.3)
    quiet = Quiet("GPU-1", gpu.spin_us, tmp_path)
    quiet.learn()
    gpu.loads = [0.25]
    assert quiet.reached(0.0)
    gpu.loads = [0.35]
    assert not quiet.reached(0.0)
