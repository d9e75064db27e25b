"""What a referee is asked to do, from plain JSON to plain JSON."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch

from adaexplore_evaluator.referee import reports
from adaexplore_evaluator.referee.clock import CHECK, COMPILE, SETUP, TASK, TIMING, PhaseClock
from adaexplore_evaluator.referee.counting import counting_judge
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.reference import TaskSource
from adaexplore_evaluator.referee.rounds import Judge, Judgement, Options
from adaexplore_evaluator.referee.runners import RunnerKilledError
from adaexplore_evaluator.referee.snippets import SnippetCompiler
from adaexplore_evaluator.referee.tasks import JobCancelledError, PreparedTask, TaskBook, WorkerLostError
from adaexplore_evaluator.referee.timing import baselines_of
from adaexplore_evaluator.runner.frames import JsonObject

Progress = Callable[[str, str], None]
# How many times fewer elements the largest tensor has where the judged shape is too large for the interpreter.
_SMALLER = 16


@dataclass(frozen=True)
class JobSettings:
    """Settings of a referee.

    Attributes:
        task_memory_bytes: Memory that prepared tasks may hold.
        judged_elements: Size of the shape at which numbers are judged.
        task_s: Seconds to prepare a task.
        compile_s: Seconds to compile a snippet.
        harness_version: Version of the harness, for the platform.

    """

    task_memory_bytes: int
    judged_elements: int
    task_s: float
    compile_s: float
    harness_version: str

    @classmethod
    def parse(cls, settings: dict[str, Any]) -> Self:
        """The settings out of the server's JSON, which may hold more."""
        return cls(**{name: settings[name] for name in cls.__dataclass_fields__})


class Jobs:
    """Does one job at a time.

    Args:
        fleet: Starts the runners.
        settings: Settings of the referee.
        now_s: A monotonic clock in seconds.
        tasks: Prepares tasks; those of the cpu device by default.
        judge: Judges candidates; on the cpu device by default.

    Attributes:
        current: Number of the job at hand; None between jobs.

    """

    def __init__(
        self,
        fleet: Fleet,
        settings: JobSettings,
        now_s: Callable[[], float],
        tasks: TaskBook | None = None,
        judge: Judge | None = None,
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._now_s = now_s
        self._tasks = tasks or TaskBook(fleet, settings.task_memory_bytes, settings.judged_elements)
        self._judge = judge or Judge(fleet, now_s)
        self._counter = counting_judge(fleet, now_s)
        self._snippets = SnippetCompiler(fleet, now_s)
        self.current: int | None = None

    def do(self, number: int, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        """Do a job and return its result.

        Raises:
            WorkerLostError, JobCancelledError, SandboxError: As the modules behind say.

        """
        self.current = number
        try:
            if cancelled():
                raise JobCancelledError
            known = {"evaluate": self._evaluate, "describe": self._describe, "compile": self._compile, "count": self._count}
            return known[job["job"]](job, progress, cancelled)
        finally:
            self.current = None

    def idle(self) -> None:
        """What there is to do now and then while there is no job: nothing on this device."""

    def platform(self, target: str = "") -> JsonObject:
        """JSON of a Platform for a target."""
        return {
            "device": "DEVICE_KIND_CPU",
            "device_name": "cpu (interpreted)",
            "target": target,
            "torch_version": torch.__version__,
            "triton_version": importlib.metadata.version("triton"),
            "harness_version": self._settings.harness_version,
            "sandbox_level": self._fleet.level.value,
        }

    def _evaluate(self, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        options, budgets_s = self._options(job)

        def judged() -> JsonObject:
            clock = PhaseClock(budgets_s, self._now_s, progress)
            task = self._task(job, clock, cancelled)
            judgement = self._judge.judge(task, job["kernel"], options, clock, cancelled)
            if judgement.too_slow:
                task, judgement = self._smaller(task, judgement, job["kernel"], options, clock, cancelled)
            return reports.evaluation(task, judgement, self.platform(job["target"]))

        return unless_killed(judged, cancelled)

    def _count(self, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        """An Evaluation whose launches hold their work at full shape; its verdict says only whether they could be counted."""
        options, budgets_s = self._options(job)

        def counted() -> JsonObject:
            clock = PhaseClock(budgets_s, self._now_s, progress)
            task = self._task(job, clock, cancelled)
            judgement = self._counter.judge(task, job["kernel"], options, clock, cancelled)
            return reports.evaluation(task, judgement, self.platform(job["target"]))

        return unless_killed(counted, cancelled)

    def _options(self, job: dict[str, Any]) -> tuple[Options, dict[str, float]]:
        limits = job["limits"]
        budgets_s = {TASK: self._settings.task_s, SETUP: limits["setup_s"], COMPILE: limits["compile_s"]}
        budgets_s |= {CHECK: limits["check_s"], TIMING: limits["timing_s"]}
        return Options(job["target"], job["state_mode"] == "seeded", budgets_s), budgets_s

    def _smaller(
        self, task: PreparedTask, judgement: Judgement, source: str, options: Options, clock: PhaseClock, cancelled: Callable[[], bool]
    ) -> tuple[PreparedTask, Judgement]:
        """The judgement at a smaller shape, where the task has one and the interpreter is fast enough there."""
        smaller = self._tasks.get(task.source, clock, cancelled, self._settings.judged_elements // _SMALLER)
        if smaller.audit.cause or smaller.judged == task.judged:
            return task, judgement
        again = self._judge.judge(smaller, source, options, clock, cancelled)
        # It was seen to make progress, so that time is all it lacks.
        out_of_time = again.finding is not None and again.finding.cause == "TIMEOUT"
        return (task, judgement) if out_of_time else (smaller, again)

    def _describe(self, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        task = self._task(job, PhaseClock({TASK: self._settings.task_s}, self._now_s, progress), cancelled)
        baselines = () if task.audit.cause else baselines_of(task, job["target"])[0]
        return reports.description(task, baselines, self.platform(job["target"]))

    def _compile(self, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        def compiled() -> JsonObject:
            clock = PhaseClock({COMPILE: self._settings.compile_s, SETUP: self._settings.compile_s}, self._now_s, progress)
            found = self._snippets.compile({**job["snippet"], "target": job["target"]}, clock, cancelled)
            return {**found, "platform": self.platform(job["target"])}

        return unless_killed(compiled, cancelled)

    def _task(self, job: dict[str, Any], clock: PhaseClock, cancelled: Callable[[], bool]) -> PreparedTask:
        return self._tasks.get(TaskSource(**job["task"]), clock, cancelled)


def unless_killed(work: Callable[[], JsonObject], cancelled: Callable[[], bool]) -> JsonObject:
    """The result of work that is repeated once, from its beginning, if the host kills its runner.

    Raises:
        WorkerLostError: The host killed it again; no verdict follows from that.
        JobCancelledError: The caller gave up.

    """
    try:
        return work()
    except RunnerKilledError as killed:
        if cancelled():
            raise JobCancelledError from killed
    try:
        return work()
    except RunnerKilledError as killed:
        raise WorkerLostError(f"the host killed a runner twice: {killed}") from killed
