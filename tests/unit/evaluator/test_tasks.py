from types import SimpleNamespace

import pytest
from adaexplore_evaluator.monitor import KillReason, ProcessEnd
from adaexplore_evaluator.referee.clock import TASK, PhaseClock
from adaexplore_evaluator.referee.reference import TaskSource
from adaexplore_evaluator.referee.runners import (
    RunnerEndedError,
    RunnerErrorReport,
    RunnerFailureError,
    RunnerForgedError,
    RunnerKilledError,
)
from adaexplore_evaluator.referee.tasks import JobCancelledError, TaskBook, WorkerLostError

SOURCE = TaskSource("mine.py", "class Model: ...", "module", "fp32", "any", "digest")


def ended(exit_code=None, signal=None, killed=None):
    return RunnerEndedError(ProcessEnd(killed, exit_code, signal), "last words")


class Fleet:
    """Reference runners that end as told, one after another, when the task is loaded or before."""

    memory_bytes = 2**30
    value_bytes = 2**30

    def __init__(self, *ends, early=False):
        self.ends = list(ends)
        self.early = early
        self.started = 0

    def reference(self):
        end = self.ends[self.started]
        self.started += 1

        def fail(*_args, **_kwargs):
            raise end

        ready = fail if self.early else lambda _clock: None
        return SimpleNamespace(wait_until_ready=ready, place=lambda name, _text: name, command=fail)

    def release(self, _runner):
        pass


def prepare(fleet, cancelled=False):
    clock = PhaseClock({TASK: 60}, lambda: 0.0, lambda *_: None)
    return TaskBook(fleet, 1 << 20, 1024).get(SOURCE, clock, lambda: cancelled)


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ([ended(signal=11), ended(signal=11)], "SIGSEGV"),
        ([ended(signal=6), ended(signal=6)], "SIGABRT"),
        ([ended(exit_code=3)], "exit code 3"),
        ([RunnerForgedError("a frame"), RunnerForgedError("another frame")], "disturbs the process"),
    ],
)
def test_a_task_that_ends_its_runner_the_same_way_twice_is_invalid(ends, word):
    fleet = Fleet(*ends)
    found = prepare(fleet)
    assert found.audit.cause == "REFERENCE_FAILS"
    assert "mine.py" in found.audit.message
    assert word in found.audit.message
    assert fleet.started == len(ends)


@pytest.mark.parametrize(
    "ends",
    [
        [ended(signal=11), RunnerForgedError("a frame")],
        [ended(signal=11), ended(signal=7)],
        [RunnerKilledError("killed"), RunnerKilledError("killed")],
    ],
)
def test_losses_that_do_not_agree_and_kills_by_the_host_are_ours(ends):
    with pytest.raises(WorkerLostError):
        prepare(Fleet(*ends))


def test_a_runner_that_is_lost_before_it_saw_the_task_is_ours():
    with pytest.raises(WorkerLostError):
        prepare(Fleet(ended(signal=11), ended(signal=11), early=True))


def test_a_task_that_nobody_wants_any_more_gets_no_verdict():
    with pytest.raises(JobCancelledError):
        prepare(Fleet(ended(signal=11)), cancelled=True)


def test_a_kill_for_a_caller_who_gave_up_says_nothing_of_the_task():
    given_up = ended(signal=9, killed=KillReason.CANCELLED)
    clock = PhaseClock({TASK: 60}, lambda: 0.0, lambda *_: None)
    book = TaskBook(Fleet(given_up, ended(exit_code=3)), 1 << 20, 1024)
    with pytest.raises(JobCancelledError):
        book.get(SOURCE, clock, lambda: True)
    assert "exit code 3" in book.get(SOURCE, clock, lambda: False).audit.message


@pytest.mark.parametrize("reason", [KillReason.PROCESSES, KillReason.SCRATCH])
def test_a_task_that_starts_processes_or_fills_the_disk_is_invalid(reason):
    assert "starts processes or fills the disk" in prepare(Fleet(ended(signal=9, killed=reason))).audit.message


def test_a_task_without_enough_memory_is_told_the_limit_and_not_the_allocators_words():
    raw = "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"
    found = prepare(Fleet(RunnerFailureError(RunnerErrorReport("out_of_memory", message=raw, line=8))))
    assert (found.audit.cause, found.line) == ("REFERENCE_FAILS", 8)
    assert found.audit.message.startswith(
        "mine.py, line 8: the task needs more than the limit of 1.0 GiB of memory; make its inputs smaller"
    )
    assert "enforce" not in found.audit.message


def test_a_task_that_is_forgotten_is_prepared_anew():
    clock = PhaseClock({TASK: 60}, lambda: 0.0, lambda *_: None)
    fleet = Fleet(ended(exit_code=3), ended(exit_code=3))
    book = TaskBook(fleet, 1 << 20, 1024)
    for started in (1, 1):
        book.get(SOURCE, clock, lambda: False)
        assert fleet.started == started
    book.forget(SOURCE)
    book.get(SOURCE, clock, lambda: False)
    assert fleet.started == 2
