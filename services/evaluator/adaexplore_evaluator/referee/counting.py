"""Counts what a candidate's launches do at full shape, without judging it: for a profile of what was measured elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from adaexplore_evaluator.referee.answers import Caller
from adaexplore_evaluator.referee.clock import TIMING, PhaseClock
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.rounds import Judge, Options, Round
from adaexplore_evaluator.referee.runners import Runner
from adaexplore_evaluator.referee.tasks import PreparedTask
from adaexplore_evaluator.referee.timing import Timing, time_candidate


class CountingRound(Round):
    """One candidate that is compiled and sampled at full shape, and nothing else; its verdict says whether that went well."""

    def _judge(self) -> Timing:
        self._load()
        self._construct((self._task.default_cases if self._options.seeded else self._task.cases)[0])
        full = self._run_full()
        self._clock.begin(TIMING, "counting")
        return time_candidate(self._task, full, self._options.target)


def counting_judge(fleet: Fleet, now_s: Callable[[], float]) -> Judge:
    """What counts candidates on the cpu device.

    Args:
        fleet: Starts candidate runners.
        now_s: A monotonic clock in seconds.

    """

    def make_round(task: PreparedTask, source: str, options: Options, clock: PhaseClock, runner: Runner) -> Round:
        # It is called for no values, so that its caller has nothing to hold.
        return CountingRound(task, source, options, clock, runner, fleet.memory_bytes, Caller(runner, clock, fleet.value_bytes))

    return Judge(fleet, now_s, make_round)
