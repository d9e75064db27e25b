"""Wires a referee for one GPU: its runners, its task book, its judge, and its turns beside other referees."""

from __future__ import annotations

import importlib.metadata
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from adaexplore_evaluator.nsight import find_nsight_compute, restricted
from adaexplore_evaluator.processes import paused_tree
from adaexplore_evaluator.referee import reports
from adaexplore_evaluator.referee.clock import TASK, PhaseClock
from adaexplore_evaluator.referee.cuda.baselines import Baselines
from adaexplore_evaluator.referee.cuda.canary import Canary
from adaexplore_evaluator.referee.cuda.counters import read_counters, with_counters
from adaexplore_evaluator.referee.cuda.judge import CudaRound
from adaexplore_evaluator.referee.cuda.runner import CudaRunner
from adaexplore_evaluator.referee.cuda.sanitizing import MOST_ELEMENTS, SMALLER_ELEMENTS, Order, elements_of, run_sanitized, with_run
from adaexplore_evaluator.referee.cuda.turns import GpuTurns
from adaexplore_evaluator.referee.cuda.way import Quiet, Way
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.jobs import Jobs, JobSettings, Progress
from adaexplore_evaluator.referee.rounds import Judge, Options, Round
from adaexplore_evaluator.referee.runners import Runner
from adaexplore_evaluator.referee.tasks import MemoryLostError, PreparedTask, TaskBook, WorkerLostError
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.sandbox import GpuAccess, Role, Sandbox
from adaexplore_evaluator.sanitizers import find_sanitizer

# Shares of the GPU's memory: tensors of one value of a runner, and all that is kept of prepared tasks.
_VALUE_SHARE = 0.35
_TASK_SHARE = 0.15
_JUDGED_ELEMENTS = 2**27
# Less free memory than this share of all makes a referee keep nothing from job to job.
_SCARCE_SHARE = 0.5
# More of one runner need not all stand still: the GPU is found to be at work then, and nobody passes.
_MOST_PROCESSES = 512
_SPARE_CANDIDATES = 2
# A new task takes one for its truth, and one for its baselines.
_SPARE_REFERENCES = 2


class GpuLostError(Exception):
    """The GPU does not compute any more; only a new process, if any, can use it."""


class CudaJobs(Jobs):
    """Does one job at a time on one GPU, beside other referees of it but alone while it times.

    Args:
        fleet: Starts the runners.
        settings: Settings of the referee.
        gpu: The GPU.
        now_s: A monotonic clock in seconds.
        sharers: Referees of this server on this GPU.
        turns: Turns on the GPU.
        way: Lets others pass in the middle of a turn; nobody passes by default.

    """

    def __init__(
        self,
        fleet: Fleet,
        settings: JobSettings,
        gpu: GpuAccess,
        now_s: Callable[[], float],
        sharers: int = 1,
        turns: GpuTurns | None = None,
        way: Way | None = None,
    ) -> None:
        self._gpu = gpu
        self._turns = turns or GpuTurns(gpu.uuid)
        self._way = way
        torch.zeros(1, device="cuda")  # makes this process's context, in which memory of runners is opened
        torch.cuda.manual_seed(secrets.randbits(63))  # torch begins every process with one seed, which a candidate knows
        self._baselines = Baselines(fleet, now_s, Canary(now_s), self._turns)
        self._surely_invalid: set[str] = set()
        tasks = TaskBook(fleet, int(_TASK_SHARE * _memory_bytes() / sharers), _JUDGED_ELEMENTS, "cuda", self._turns.using)
        super().__init__(fleet, settings, now_s, tasks, Judge(fleet, now_s, self._round))

    def do(self, number: int, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        """Do a job and return its result; raises as `Jobs.do` does, and GpuLostError if the GPU does not work any more."""
        with self._turns.job(cancelled):
            if self._way is not None:
                self._way.learn()
            try:
                return self._done(number, job, progress, cancelled)
            finally:
                torch.cuda.empty_cache()
                self._make_room()
                _demand_health()

    def _done(self, number: int, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        """The result of a job, done once more with all of the GPU where others may have left it too little of it."""
        try:
            found = super().do(number, job, progress, cancelled)
        except MemoryLostError:
            found = None
        if found is not None and not suffers_from_others(found):
            return found
        self._give_back()
        with self._turns.whole():
            return super().do(number, job, progress, cancelled)

    def _evaluate(self, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        """The Evaluation, and for what passed the run under a sanitizer where the job asks for one."""
        found, tool = super()._evaluate(job, progress, cancelled), job.get("sanitizer")
        if job.get("profile") and found.get("verdict") == "VERDICT_PASSED":
            found = self._with_counters(found, job, progress, cancelled)
        if not tool or found.get("verdict") != "VERDICT_PASSED":
            return found
        clock = PhaseClock({TASK: self._settings.task_s}, self._now_s, progress)
        task = full = self._task(job, clock, cancelled)
        if elements_of(full) > MOST_ELEMENTS:
            smaller = self._tasks.get(full.source, clock, cancelled, SMALLER_ELEMENTS)
            task = full if smaller.audit.cause else smaller
        program, order = find_sanitizer(), Order(tool, job["kernel"], job["target"], job["state_mode"] == "seeded")
        with self._turns.using():
            run = run_sanitized(self._fleet, program, task, order, cancelled, meanwhile=self._let_pass)
        return with_run(found, tool, program.version() if program else "", run, job["kernel"], task.judged != full.judged)

    def _with_counters(self, found: JsonObject, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        task = self._task(job, PhaseClock({TASK: self._settings.task_s}, self._now_s, progress), cancelled)
        order = Order("", job["kernel"], job["target"], job["state_mode"] == "seeded")
        with self._turns.using():
            program = find_nsight_compute()
            counters = read_counters(self._fleet, program, task, order, cancelled, restricted(), meanwhile=self._let_pass)
        return with_counters(found, counters)

    def _let_pass(self, runner: Runner) -> None:
        """Let those pass who wait to be alone, while a runner under a tool stands still."""
        if self._way is not None and self._way.is_asked_for():
            with paused_tree(runner.pid, _MOST_PROCESSES):
                self._way.give()

    def _make_room(self) -> None:
        """What is kept for the next job is given back where it may be what another one lacks."""
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        if free_bytes < _SCARCE_SHARE * total_bytes or self._turns.room_is_wanted():
            self._give_back()

    def idle(self) -> None:
        """Give back what is kept for the next job where another referee needs all of the GPU."""
        if self._turns.room_is_wanted():
            self._give_back()

    def _give_back(self) -> None:
        self._baselines.release()
        self._tasks.forget()
        torch.cuda.empty_cache()

    def platform(self, target: str = "") -> JsonObject:
        """JSON of a Platform; the target is the GPU's own."""
        major, minor = torch.cuda.get_device_capability(0)
        return super().platform(target) | {
            "device": "DEVICE_KIND_CUDA",
            "device_name": torch.cuda.get_device_name(0),
            "target": f"sm_{major}{minor}",
            "gpu_uuid": self._gpu.uuid,
            "driver_version": _driver_version(),
            "triton_version": importlib.metadata.version("triton"),
        }

    def _round(self, task: PreparedTask, source: str, options: Options, clock: PhaseClock, runner: Runner) -> Round:
        if not isinstance(runner, CudaRunner):
            raise WorkerLostError("the candidate runner is on no GPU")
        return CudaRound(task, source, options, clock, runner, self._baselines, self._turns)

    def _describe(self, job: dict[str, Any], progress: Progress, cancelled: Callable[[], bool]) -> JsonObject:
        """The task with its baselines, which are measured now unless they are known."""
        task = self._task(job, PhaseClock({TASK: self._settings.task_s}, self._now_s, progress), cancelled)
        if task.audit.cause:
            return reports.description(task, (), self.platform())
        self._baselines.prepare(task)
        self._baselines.refresh(task)
        return reports.description(task, self._baselines.known(task), self.platform())

    def _task(self, job: dict[str, Any], clock: PhaseClock, cancelled: Callable[[], bool]) -> PreparedTask:
        """The task; one that seems invalid is prepared once more alone, since another's candidate may have left it no memory."""
        task = super()._task(job, clock, cancelled)
        if not task.audit.cause or task.source.digest in self._surely_invalid:
            return task
        with self._turns.whole():
            clock.excuse()
            self._tasks.forget(task.source)
            task = super()._task(job, clock, cancelled)
        if task.audit.cause:
            self._surely_invalid.add(task.source.digest)
        return task


def suffers_from_others(result: JsonObject) -> bool:
    """True for a verdict that other candidates on the GPU could have caused: no memory was left, or calls that went well took too long."""
    return result.get("cause") == "CAUSE_OUT_OF_MEMORY" or (result.get("cause") == "CAUSE_TIMEOUT" and bool(result.get("checks")))


@contextmanager
def cuda_jobs(sandbox: Sandbox, settings: JobSettings, gpu: GpuAccess, sharers: int = 1) -> Iterator[tuple[Fleet, CudaJobs]]:
    """Runners and jobs of one of so many referees that share the GPU that the sandbox shows."""
    turns = GpuTurns(gpu.uuid)
    way = Way(turns, Quiet(gpu.uuid))
    spares = {Role.CANDIDATE: _SPARE_CANDIDATES if sharers == 1 else 1, Role.REFERENCE: _SPARE_REFERENCES}
    started = partial(CudaRunner, way=way)
    # A large value is no less allowed where others share the GPU: what lacks memory then is done once more without them.
    with Fleet(sandbox, int(_VALUE_SHARE * _memory_bytes()), started, spares, eager=True) as fleet:
        yield fleet, CudaJobs(fleet, settings, gpu, time.monotonic, sharers, turns, way)


def _memory_bytes() -> int:
    return int(torch.cuda.mem_get_info()[1])


def _demand_health() -> None:
    """A known sum, computed on the GPU: what a candidate did to it must not reach the next one."""
    try:
        right = int(torch.arange(1 << 20, device="cuda").sum()) == (1 << 20) * ((1 << 20) - 1) // 2
    except RuntimeError as error:
        raise GpuLostError(f"the GPU does not answer: {error}") from error
    if not right:
        raise GpuLostError("the GPU computes a known sum wrongly")


def _driver_version() -> str:
    try:
        first = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return ""
    return next((word for word in first.split() if word.count(".") >= 1 and word.replace(".", "").isdigit()), "")
