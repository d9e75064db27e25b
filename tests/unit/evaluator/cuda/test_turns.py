"""Turns on a GPU: shared by many, or one alone; the locks are files, so threads stand for processes here."""

import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest
from adaexplore_evaluator.referee.cuda.site import suffers_from_others
from adaexplore_evaluator.referee.cuda.turns import GpuTurns
from adaexplore_evaluator.referee.tasks import JobCancelledError

SOON_S = 30.0
A_MOMENT_S = 0.2
HOLDER = """
import sys
from pathlib import Path
from adaexplore_evaluator.referee.cuda.site import suffers_from_others
from adaexplore_evaluator.referee.cuda.turns import GpuTurns
turns = GpuTurns("GPU-1", Path(sys.argv[1]))
with turns.job(lambda: False), turns.alone():
    print("alone", flush=True)
    sys.stdin.read()
"""


class Other:
    """Another referee in a thread of its own, which does what it is told and says what it has."""

    def __init__(self, folder):
        self.turns = GpuTurns("GPU-1", folder)
        self.cancelled = threading.Event()
        self.has = queue.SimpleQueue()
        self.leave = threading.Event()
        self.thread = None

    def starts(self, alone=False, whole=False):
        self.thread = threading.Thread(target=self._use, args=(alone, whole), daemon=True)
        self.thread.start()
        return self

    def gets_its_turn(self):
        return self.has.get(timeout=SOON_S)

    def waits(self):
        try:
            return self.has.get(timeout=A_MOMENT_S) is None
        except queue.Empty:
            return True

    def leaves(self):
        self.leave.set()
        self.thread.join(SOON_S)
        assert not self.thread.is_alive()

    def _use(self, alone, whole):
        try:
            with ExitStack() as stack:
                stack.enter_context(self.turns.job(self.cancelled.is_set))
                stack.enter_context(self.turns.whole() if whole else self.turns.alone() if alone else self.turns.using())
                self.has.put("turn")
                self.leave.wait(SOON_S)
        except JobCancelledError:
            self.has.put("cancelled")


def sharing(folder):
    return Other(folder).starts(alone=False)


def alone(folder):
    return Other(folder).starts(alone=True)


def test_many_share_and_none_beside_one_that_is_alone(tmp_path):
    first, second = sharing(tmp_path), sharing(tmp_path)
    assert first.gets_its_turn() == second.gets_its_turn() == "turn"
    timing = alone(tmp_path)
    assert timing.waits()
    first.leaves()
    assert timing.waits()
    second.leaves()
    assert timing.gets_its_turn() == "turn"
    late, other = sharing(tmp_path), alone(tmp_path)
    assert late.waits()
    assert other.waits()
    timing.leaves()
    for one in (late, other):
        one.leave.set()
    assert late.gets_its_turn() == other.gets_its_turn() == "turn"


def test_one_that_waits_to_be_alone_is_not_put_off_by_those_who_come_later(tmp_path):
    early = sharing(tmp_path)
    early.gets_its_turn()
    timing = alone(tmp_path)
    assert timing.waits()
    late = sharing(tmp_path)
    assert late.waits()
    early.leaves()
    assert timing.gets_its_turn() == "turn"
    assert late.waits()
    timing.leaves()
    assert late.gets_its_turn() == "turn"
    late.leaves()


def test_what_is_cancelled_waits_no_longer_and_leaves_no_lock(tmp_path):
    timing = alone(tmp_path)
    timing.gets_its_turn()
    late = sharing(tmp_path)
    assert late.waits()
    late.cancelled.set()
    assert late.gets_its_turn() == "cancelled"
    timing.leaves()
    after = alone(tmp_path)
    assert after.gets_its_turn() == "turn"
    after.leaves()


def test_turns_within_turns_are_the_same_one_and_a_job_between_turns_keeps_nobody_waiting(tmp_path):
    turns = GpuTurns("GPU-1", tmp_path)
    with turns.job(lambda: False):
        with turns.alone(), turns.alone(), turns.using():
            waits = alone(tmp_path)
            assert waits.waits()
        assert waits.gets_its_turn() == "turn"
        waits.leaves()
        with turns.using():
            with turns.alone():
                waits = sharing(tmp_path)
                assert waits.waits()
            assert waits.gets_its_turn() == "turn"
            waits.leaves()
            waits = alone(tmp_path)
            assert waits.waits()
        assert waits.gets_its_turn() == "turn"
        waits.leaves()
        with turns.using(), turns.using():
            beside = sharing(tmp_path)
            assert beside.gets_its_turn() == "turn"
            beside.leaves()
            waits = alone(tmp_path)
            assert waits.waits()
        assert waits.gets_its_turn() == "turn"
        waits.leaves()


def test_who_has_the_whole_room_waits_for_every_job_and_none_begins_beside_it(tmp_path):
    turns = GpuTurns("GPU-1", tmp_path)
    with turns.job(lambda: False):  # between two turns, its tensors lie on the GPU
        large = Other(tmp_path).starts(whole=True)
        assert large.waits()
        late = sharing(tmp_path)
        assert late.waits()
        with turns.alone():
            pass
        assert large.waits()
    assert large.gets_its_turn() == "turn"
    assert late.waits()
    large.leaves()
    assert late.gets_its_turn() == "turn"
    late.leaves()


def test_two_that_want_the_whole_room_get_it_one_after_the_other_and_share_again(tmp_path):
    turns = GpuTurns("GPU-1", tmp_path)
    with turns.job(lambda: False):
        with turns.whole(), turns.whole(), turns.alone(), turns.using():
            other = Other(tmp_path).starts(whole=True)
            assert other.waits()
        assert other.waits(), "the share that is left is one of a job that may hold memory"
        with turns.using():
            pass
    assert other.gets_its_turn() == "turn"
    other.leaves()


def test_a_process_that_is_killed_loses_its_turn(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"alone\n"
    late = sharing(tmp_path)
    assert late.waits()
    holder.kill()
    holder.communicate()
    assert late.gets_its_turn() == "turn"
    late.leaves()


@pytest.mark.parametrize("umask", [0o077, 0o022])
def test_other_users_of_the_host_may_lock_the_same_files(tmp_path, umask):

    before = os.umask(umask)
    try:
        with GpuTurns("GPU-2", tmp_path).job(lambda: False):
            assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o666"}
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("result", "suffers"),
    [
        ({"cause": "CAUSE_OUT_OF_MEMORY", "checks": []}, True),
        ({"cause": "CAUSE_TIMEOUT", "checks": [{"family": "own"}]}, True),
        ({"cause": "CAUSE_TIMEOUT", "checks": []}, False),
        ({"cause": "CAUSE_NUMERIC", "checks": [{"family": "own"}]}, False),
        ({"verdict": "VERDICT_PASSED"}, False),
        ({"valid": True}, False),
    ],
)
def test_verdicts_that_others_may_have_caused_are_reached_once_more_alone(result, suffers):
    assert suffers_from_others(result) is suffers


def test_a_job_that_needs_all_of_the_room_is_known_to_those_that_keep_something(tmp_path):
    idle = GpuTurns("GPU-1", tmp_path)
    at_work = sharing(tmp_path)
    at_work.gets_its_turn()
    assert not idle.room_is_wanted()
    assert not at_work.turns.room_is_wanted()
    needy = Other(tmp_path).starts(whole=True)
    until = time.monotonic() + SOON_S
    # Whoever comes holds the gate for a moment, whatever it comes for.
    while not (needy.waits() and idle.room_is_wanted()) and time.monotonic() < until:
        pass
    assert idle.room_is_wanted()
    assert at_work.turns.room_is_wanted()
    at_work.leaves()
    assert needy.gets_its_turn() == "turn"
    assert idle.room_is_wanted()
    assert not needy.turns.room_is_wanted()
    needy.leaves()
    assert not idle.room_is_wanted()
