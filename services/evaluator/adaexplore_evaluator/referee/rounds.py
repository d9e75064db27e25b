"""One candidate from its first line to its verdict."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

from adaexplore_evaluator.devices.cpu.launches import Launch
from adaexplore_evaluator.referee.answers import Caller, demand_types, refuse_violations
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.checks import Check, Checker
from adaexplore_evaluator.referee.clock import COMPILE, LOAD, SETUP, TIMING, PhaseClock
from adaexplore_evaluator.referee.conduct import demand_alone, demand_quiet
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.numerics import RULES
from adaexplore_evaluator.referee.outline import arranged
from adaexplore_evaluator.referee.runners import Runner, RunnerEndedError, RunnerFailureError, RunnerForgedError, RunnerTimeoutError
from adaexplore_evaluator.referee.structure import (
    coverage_of,
    defines_kernels,
    forbidden,
    kernels_of,
    leaves_gaps,
    parsed_launches,
    signature_of,
    triton_names,
    written_less,
)
from adaexplore_evaluator.referee.tasks import JobCancelledError, PreparedTask, WorkerLostError
from adaexplore_evaluator.referee.timing import DEFAULTS_ONLY, Timing, time_candidate
from adaexplore_evaluator.referee.values import MalformedReplyError, objects, plain_type, types_of
from adaexplore_evaluator.referee.verdicts import (
    FAILED,
    INCONCLUSIVE,
    REJECTED,
    TASK_INVALID,
    TOO_SLOW,
    Failure,
    Finding,
    StopError,
    from_end,
    from_report,
    signed,
    stop,
    timed_out,
)
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import WireError, encode_types

_START_S = 180.0
# Calls besides one for each case.
_MORE_CALLS = 3
# Programs of a launch that are asked what they write: at first, and where that leaves gaps.
_FEW_PROGRAMS = 4
_MANY_PROGRAMS = 64
# Errors of host code and of launches that sizes alone may cause.
_BY_SHAPE = frozenset({"runtime", "launch", "compile"})
_CANDIDATE_FILE = "candidate.py"


@dataclass(frozen=True)
class Options:
    """How a candidate is judged.

    Attributes:
        target: Compile target.
        seeded: Judge default parameters, both sides built from one seed.
        budgets_s: Seconds by phase.

    """

    target: str
    seeded: bool
    budgets_s: dict[str, float]


@dataclass(frozen=True)
class Judgement:
    """What came of a candidate; `finding` is None if it passed, `too_slow` if the interpreter alone is to blame for it."""

    finding: Finding | None
    timing: Timing
    checks: tuple[Check, ...]
    spent_s: dict[str, float]
    too_slow: bool = False


MakeRound = Callable[[PreparedTask, str, Options, PhaseClock, Runner], "Round"]


class Judge:
    """Judges candidates of prepared tasks.

    Args:
        fleet: Starts candidate runners.
        now_s: A monotonic clock in seconds.
        make_round: Makes what judges one candidate; without, it is judged on the cpu device.

    """

    def __init__(self, fleet: Fleet, now_s: Callable[[], float], make_round: MakeRound | None = None) -> None:
        self._fleet = fleet
        self._now_s = now_s
        self._make_round = make_round or self._on_cpu

    def judge(self, task: PreparedTask, source: str, options: Options, clock: PhaseClock, cancelled: Callable[[], bool]) -> Judgement:
        """Judge one candidate.

        Raises:
            WorkerLostError: Two runners died before the candidate was loaded.
            JobCancelledError: The caller gave up.

        """
        if task.audit.cause:
            failure = Failure(task.audit.message, line=task.line)
            finding = Finding(TASK_INVALID, task.audit.cause, "TASK", failure)
            return Judgement(signed(finding, task.source.source), Timing("NOT_RUN"), (), clock.spent_s)
        runner = ready_runner(self._fleet, self._now_s, cancelled)
        try:
            return self._make_round(task, source, options, clock, runner).run(cancelled)
        finally:
            self._fleet.release(runner)

    def _on_cpu(self, task: PreparedTask, source: str, options: Options, clock: PhaseClock, runner: Runner) -> Round:
        cases = len(task.default_cases if options.seeded else task.cases)
        caller = Caller(runner, clock, self._fleet.value_bytes, cases + _MORE_CALLS)
        return Round(task, source, options, clock, runner, self._fleet.memory_bytes, caller)


def ready_runner(fleet: Fleet, now_s: Callable[[], float], cancelled: Callable[[], bool]) -> Runner:
    """A candidate runner whose imports are done; one that dies before is replaced once.

    Raises:
        WorkerLostError: Both died.
        JobCancelledError: The caller gave up.

    """
    lost: Exception | None = None
    for _attempt in range(2):
        runner = fleet.candidate()
        clock = PhaseClock({LOAD: _START_S, SETUP: _START_S}, now_s, lambda _phase, _message: None)
        clock.begin(LOAD)
        try:
            runner.wait_until_ready(clock)
        except (RunnerEndedError, RunnerForgedError, RunnerTimeoutError) as error:
            lost = error
            log = runner.log[-500:]
            fleet.release(runner)
            if cancelled():
                raise JobCancelledError from error
        else:
            return runner
    raise WorkerLostError(f"the candidate runner does not start: {type(lost).__name__}: {log}") from lost


class Round:
    """One candidate in one runner.

    Args:
        task: The task, prepared.
        source: Source of the candidate.
        options: How it is judged.
        clock: Time budgets.
        runner: Its runner, ready.
        memory_bytes: What its runner may use.
        caller: Calls it.

    """

    def __init__(
        self,
        task: PreparedTask,
        source: str,
        options: Options,
        clock: PhaseClock,
        runner: Runner,
        memory_bytes: int,
        caller: Caller,
    ) -> None:
        self._task = task
        self._source = source
        self._options = options
        self._clock = clock
        self._runner = runner
        self._memory_bytes = memory_bytes
        self._checker = Checker(caller, RULES[task.source.precision], lambda: secrets.randbits(31))

    def run(self, cancelled: Callable[[], bool]) -> Judgement:
        """Judge it; JobCancelledError if the caller gave up."""
        try:
            timing = self._judge()
        except (
            StopError,
            RunnerFailureError,
            RunnerEndedError,
            RunnerForgedError,
            RunnerTimeoutError,
            MalformedReplyError,
            WireError,
        ) as error:
            if cancelled():
                raise JobCancelledError from error
            finding = signed(self._finding(error), self._source)
            too_slow = isinstance(error, RunnerFailureError) and error.error.kind == TOO_SLOW
            return Judgement(finding, Timing("NOT_RUN"), tuple(self._checker.checks), self._clock.spent_s, too_slow)
        return Judgement(None, timing, tuple(self._checker.checks), self._clock.spent_s)

    def _finding(self, error: Exception) -> Finding:
        if isinstance(error, StopError):
            return error.finding
        if isinstance(error, RunnerFailureError):
            return from_report(error.error, self._clock.phase)
        if isinstance(error, RunnerTimeoutError):
            return timed_out(self._clock)
        if isinstance(error, RunnerEndedError):
            return from_end(error, self._clock, self._memory_bytes)
        message = f"the candidate's process sent what no runner sends ({error}); write to no descriptor that the candidate did not open"
        return stop(REJECTED, "FORGED_RESULT", self._clock.phase, message).finding

    def _judge(self) -> Timing:
        self._load()
        demand_alone(self._runner, self._clock.phase)
        cases = self._task.default_cases if self._options.seeded else self._task.cases
        if self._task.shapes_by_value:
            self._judge_values(cases)
        first = True
        for _state, group in itertools.groupby(cases, key=lambda case: id(case.state)):
            items = list(group)
            self._construct(items[0])
            if first:
                full = self._run_full()
            for case in items:
                self._check(case)
                if first:
                    self._compare_structure(full, case)
                    first = False
        demand_alone(self._runner, self._clock.phase)
        launches = parsed_launches(full)
        self._hold_to_track(launches, cases)
        self._clock.begin(TIMING, "estimating")
        timing = time_candidate(self._task, full, self._options.target)
        return replace(timing, explanation=DEFAULTS_ONLY + timing.explanation) if self._options.seeded else timing

    def _check(self, case: Case) -> None:
        """Judge a case; what runs at full shape and raises at the judged one for its sizes alone is no failure."""
        try:
            self._checker.check(case)
        except RunnerFailureError as error:
            if error.error.kind not in _BY_SHAPE or not self._fails_by_shape(case):
                raise
            message = f"it runs at full shape but not at the judged one: {error.error.message}; take sizes from the inputs and arguments"
            raise stop(INCONCLUSIVE, "SHAPE_DEPENDENT", self._clock.phase, message, error.error.line) from error

    def _fails_by_shape(self, case: Case) -> bool:
        """True if the judged shape is refused even where no values are computed, as the full one was not."""
        if self._task.judged is self._task.full:
            return False
        try:
            self._sampled(encode_types(case.made.init_inputs), encode_types(case.made.inputs), _FEW_PROGRAMS, judged=True)
        except RunnerFailureError:
            return True
        return False

    def _judge_values(self, cases: tuple[Case, ...]) -> None:
        """Judge numbers alone; right ones are INCONCLUSIVE, since at full shape this device has none."""
        self._construct(cases[0])
        for case in cases:
            self._check(case)
        message = "the shape of the output depends on values, which this device does not have at full shape; only a real one can judge it"
        raise stop(INCONCLUSIVE, "SHAPE_DEPENDENT", self._clock.phase, message)

    def _load(self) -> None:
        self._clock.begin(LOAD, "importing the candidate")
        task = self._task
        names = [task.entry_point] if task.format == "module" else [task.entry_point, "kernel_function"]
        self._command(
            "load_candidate",
            path=self._runner.place(_CANDIDATE_FILE, self._source),
            entry_points=names,
            format=task.format,
            target=self._options.target,
            precision=task.source.precision,
        )

    def _construct(self, case: Case) -> None:
        self._clock.begin(SETUP, "constructing it")
        self._command("construct", init_inputs=self._runner.encode(case.made.init_inputs), seed=self._task.seed)
        if not self._options.seeded:
            reply = self._command("load_state", state=self._runner.encode(case.state))
            self._demand_state(reply)
        self._runner.forget_buffers()

    def _demand_state(self, reply: JsonObject) -> None:
        missing, mismatched = reply.get("missing"), objects(reply, "mismatched")
        if not isinstance(missing, list):
            raise MalformedReplyError("missing is no list")
        if missing:
            listed = ", ".join(str(name) for name in missing[:20])
            message = f"the candidate lacks parameters or buffers of the task: {listed}; give its layers the reference's names"
            raise stop(FAILED, "CONTRACT", SETUP, message)
        if mismatched:
            listed = ", ".join(f"{item.get('name')} is {item.get('found')}, must be {item.get('expected')}" for item in mismatched[:5])
            raise stop(FAILED, "CONTRACT", SETUP, f"parameters of another shape: {listed}; keep the reference's shapes and derive others")

    def _run_full(self) -> JsonObject:
        self._clock.begin(COMPILE, "compiling its kernels at full shape")
        reply = self._sampled(self._task.full_init_inputs, self._task.full_inputs, _FEW_PROGRAMS)
        refuse_violations(reply, "at full shape: ")
        return reply

    def _sampled(self, init_inputs: object, inputs: object, programs: int, judged: bool = False) -> JsonObject:
        options = {"seed": secrets.randbits(31), "store_programs": programs, "judged": judged}
        return self._command("run_full", init_inputs=init_inputs, inputs=inputs, **options)

    def _compare_structure(self, full: JsonObject, case: Case) -> None:
        right = [plain_type(item) for item in objects(self._task.full, "outputs")]
        outputs = arranged(full.get("outputs"), case.outline, "at full shape")
        demand_types(types_of(outputs), right, "at full shape")
        answer = self._checker.first
        judged = signature_of(answer.launches) if answer else []
        at_full = signature_of(parsed_launches(full))
        if judged != at_full:
            message = (
                f"at full shape it launches {_listed(at_full)}, at the judged shape {_listed(judged)}; "
                "only a real device can judge a kernel that depends on the shape"
            )
            raise stop(INCONCLUSIVE, "SHAPE_DEPENDENT", self._clock.phase, message)
        if answer and answer.kernels != kernels_of(full):
            message = "at full shape it launches other kernels of the same names; only a real device can judge them"
            raise stop(INCONCLUSIVE, "SHAPE_DEPENDENT", self._clock.phase, message)
        if self._task.judged is not self._task.full and leaves_gaps(coverage_of(full)):
            self._compare_coverage(case)

    def _compare_coverage(self, case: Case) -> None:
        """Look closer at what seems not to be written at full shape: many programs there, and as many at the judged shape."""
        self._clock.begin(COMPILE, "comparing what is written at both shapes")
        full = coverage_of(self._sampled(self._task.full_init_inputs, self._task.full_inputs, _MANY_PROGRAMS))
        made = case.made
        judged = coverage_of(self._sampled(encode_types(made.init_inputs), encode_types(made.inputs), _MANY_PROGRAMS, judged=True))
        for name, line, argument in written_less(full, judged):
            item = full.get((name, line, argument))
            share = max(0.0, item.high) if item else 0.0
            message = (
                f"kernel {name}, line {line}: at full shape it writes {min(share, 1.0):.0%} of what {argument} points to, less than at the "
                "judged shape; launch as many programs as the shape needs"
            )
            raise stop(INCONCLUSIVE, "SHAPE_DEPENDENT", self._clock.phase, message, line, name[:200])

    def _hold_to_track(self, launches: list[Launch], cases: tuple[Case, ...]) -> None:
        track = self._task.source.track
        names = forbidden(launches, track)
        if track == "triton_only":
            self._demand_kernels(launches, cases[0], names)
        if names:
            message = f"the track {track} forbids {_listed(names)}; compute it in a Triton kernel"
            raise stop(FAILED, "TRACK", self._clock.phase, message)

    def _demand_kernels(self, launches: list[Launch], case: Case, operators: list[str]) -> None:
        """StopError where the answer comes from none of the Triton kernels that the candidate has; one that has none breaks the track."""
        if not triton_names(launches):
            if operators and not defines_kernels(self._source):
                return
            raise stop(REJECTED, "NO_KERNEL", self._clock.phase, "the track triton_only demands a Triton kernel and none is launched")
        self._construct(case)
        if self._checker.unused_kernels(case):
            message = f"the result does not use what the Triton kernels write ({_listed(triton_names(launches))}); return their output"
            raise stop(REJECTED, "NO_KERNEL", self._clock.phase, message)

    def _command(self, name: str, **arguments: object) -> JsonObject:
        reply = self._runner.command(name, self._clock, **arguments)
        demand_quiet(self._runner, reply, self._clock.phase)
        return reply


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "nothing"
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
