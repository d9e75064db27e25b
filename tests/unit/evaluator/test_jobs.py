from types import SimpleNamespace

import pytest
from adaexplore_evaluator.referee.clock import CHECK, PhaseClock
from adaexplore_evaluator.referee.jobs import Jobs, JobSettings, unless_killed
from adaexplore_evaluator.referee.rounds import Judgement
from adaexplore_evaluator.referee.runners import RunnerKilledError
from adaexplore_evaluator.referee.tasks import JobCancelledError, WorkerLostError
from adaexplore_evaluator.referee.timing import Timing
from adaexplore_evaluator.referee.verdicts import Failure, Finding


class Work:
    def __init__(self, kills):
        self.kills = kills
        self.tries = 0

    def __call__(self):
        self.tries += 1
        if self.tries <= self.kills:
            raise RunnerKilledError("killed")
        return {"tries": self.tries}


@pytest.mark.parametrize(("kills", "tries"), [(0, 1), (1, 2)])
def test_work_that_the_host_kills_is_repeated_once(kills, tries):
    assert unless_killed(Work(kills), lambda: False) == {"tries": tries}


def test_work_that_the_host_kills_twice_is_lost_and_no_verdict():
    work = Work(2)
    with pytest.raises(WorkerLostError, match="twice"):
        unless_killed(work, lambda: False)
    assert work.tries == 2


def test_work_that_is_not_wanted_any_more_is_not_repeated():
    work = Work(1)
    with pytest.raises(JobCancelledError):
        unless_killed(work, lambda: True)
    assert work.tries == 1


class Shapes:
    """A task that is judged at a shape of so many elements as are asked for, but of no fewer than `least`."""

    def __init__(self, least):
        self.least = least

    def get(self, source, clock, cancelled, judged_elements=1600):
        return SimpleNamespace(source=source, judged={"elements": max(judged_elements, self.least)}, audit=SimpleNamespace(cause=""))


class Slow:
    """Judges what the interpreter is too slow for above 1000 elements."""

    def __init__(self, smaller):
        self.smaller = smaller
        self.judged = []

    def judge(self, task, source, options, clock, cancelled):
        self.judged.append(task.judged["elements"])
        slow = Judgement(Finding("INCONCLUSIVE", "NOT_INTERPRETABLE", CHECK, Failure("slow")), Timing("NOT_RUN"), (), {}, too_slow=True)
        return slow if task.judged["elements"] > 1000 else Judgement(self.smaller, Timing("NOT_RUN"), (), {})


@pytest.mark.parametrize(
    ("least", "smaller", "judged", "cause"),
    [
        (1, None, [1600, 100], ""),
        (1, Finding("FAILED", "NUMERIC", CHECK, Failure("wrong")), [1600, 100], "NUMERIC"),
        (1, Finding("FAILED", "TIMEOUT", CHECK, Failure("late")), [1600, 100], "NOT_INTERPRETABLE"),
        (1600, None, [1600], "NOT_INTERPRETABLE"),
    ],
)
def test_what_the_interpreter_is_too_slow_for_is_judged_at_a_smaller_shape(least, smaller, judged, cause, monkeypatch):
    monkeypatch.setattr(
        "adaexplore_evaluator.referee.reports.evaluation", lambda _task, judgement, _platform: {"finding": judgement.finding}
    )
    judge = Slow(smaller)
    fleet = SimpleNamespace(level=SimpleNamespace(value="process"))
    jobs = Jobs(fleet, JobSettings(0, 1600, 60.0, 60.0, "test"), lambda: 0.0, tasks=Shapes(least), judge=judge)
    limits = {"setup_s": 1.0, "compile_s": 1.0, "check_s": 1.0, "timing_s": 1.0}
    source = {"name": "task.py", "source": "", "format": "module", "precision": "fp32", "track": "any", "digest": "d"}
    job = {"job": "evaluate", "limits": limits, "target": "sm_90", "state_mode": "", "kernel": "", "task": source}
    found = jobs.do(1, job, lambda *_: None, lambda: False)["finding"]
    assert judge.judged == judged
    assert (found.cause if found else "") == cause


def test_each_phase_tells_what_is_left_of_its_budget():
    now_s = [0.0]
    clock = PhaseClock({CHECK: 10.0, "COMPILE": 5.0}, lambda: now_s[0], lambda *_: None)
    clock.begin(CHECK)
    now_s[0] = 4.0
    assert (clock.left_s(), clock.left_s("TUNE")) == (6.0, 5.0)
