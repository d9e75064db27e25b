"""The reference of one task in a process of its own, eager and compiled, timed by the referee's rounds."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from adaexplore_evaluator.devices.cpu.baseline import BaselineKind
from adaexplore_evaluator.referee.clock import TIMING, PhaseClock
from adaexplore_evaluator.referee.cuda.clock import RoundClock, Rounds
from adaexplore_evaluator.referee.cuda.runner import CudaRunner
from adaexplore_evaluator.referee.cuda.slots import Slots
from adaexplore_evaluator.referee.cuda.timing import MeasuredBaseline, baseline_of
from adaexplore_evaluator.referee.cuda.turns import FreeTurns, Turns
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.reference import Made, ReferenceSession
from adaexplore_evaluator.referee.runners import (
    RunnerEndedError,
    RunnerFailureError,
    RunnerForgedError,
    RunnerKilledError,
    RunnerTimeoutError,
)
from adaexplore_evaluator.referee.tasks import MemoryLostError, PreparedTask, WorkerLostError
from adaexplore_evaluator.referee.values import MalformedReplyError, leaves
from adaexplore_evaluator.runner.wire import Value, WireError

_PREPARE_S = 300.0
_FREE = FreeTurns()
_LEAST_SLOTS = 2
# What a task that torch's compiler cannot take may do to the process that tries.
_FAILS_WITH = (RunnerFailureError, RunnerTimeoutError, RunnerEndedError)


class BaselineRunner:
    """The reference of one task in a process of its own, timed by the referee's rounds.

    Args:
        fleet: Starts the process.
        now_s: A monotonic clock in seconds.
        task: The task.
        arguments: Makes arguments and state at the full shape.
        cache_bytes: Size of the GPU's largest cache.
        turns: Turns on the GPU: alone for what is measured, beside others for the rest.

    Attributes:
        even: Whether slots are scaled evenly, see `Slots`; found out with the first baseline.

    Raises:
        WorkerLostError: It does not start, or the task does not load.

    """

    def __init__(
        self,
        fleet: Fleet,
        now_s: Callable[[], float],
        task: PreparedTask,
        arguments: Callable[[], tuple[Made, Value]],
        cache_bytes: int,
        turns: Turns = _FREE,
    ) -> None:
        runner = fleet.reference()
        if not isinstance(runner, CudaRunner):
            raise WorkerLostError("the reference runner is on no GPU")
        self._fleet, self._now_s, self._runner = fleet, now_s, runner
        self._arguments, self._cache_bytes, self._turns = arguments, cache_bytes, turns
        self._bound: BaselineKind | None = None
        self.even = False
        clock = own_clock(now_s)
        self._session = ReferenceSession(runner, clock, fleet.value_bytes)
        with self._closed_on_failure(), reference_at_work():
            runner.wait_until_ready(clock)
            with turns.using():
                self._session.load(task.source)
                self._session.make_state(task.seed, moved=False)

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return self._runner.alive

    def compile(self) -> None:
        """Compile the reference ahead and call it, which takes many seconds in which others may use the GPU.

        What torch compiled for one instance serves the next one of the same process. Where it fails, `measure` tells.
        """
        with self._turns.using(), suppress(WorkerLostError), self._closed_on_failure(), reference_at_work():
            made, state = self._arguments()
            clock = own_clock(self._now_s)
            self._session.under(clock).bind(BaselineKind.COMPILED.value, made, state)
            slots = Slots(self._runner, made.inputs, secrets.SystemRandom())
            try:
                self._runner.command("open_rounds", clock, slots=slots.allocate(_LEAST_SLOTS))
            except RunnerFailureError:  # it refuses to be compiled, or elements scaled one by one: eager is told apart when it is measured
                pass
            finally:
                slots.release()
            self._drop_rounds()

    def measured(self) -> tuple[MeasuredBaseline, ...]:
        """Both kinds, eager first. WorkerLostError if eager fails."""
        return tuple(item for item in map(self.measure, BaselineKind) if item is not None)

    def measure(self, kind: BaselineKind) -> MeasuredBaseline | None:
        """One kind; None if torch's compiler fails on the task, or its process with it. WorkerLostError if eager fails."""
        with self._turns.using():
            made, state = self._arguments()
        with self._closed_on_failure(), reference_at_work():
            try:
                return self._measured(kind, made, state)
            except _FAILS_WITH:
                self._bound = None
                if kind is not BaselineKind.COMPILED:
                    raise
            try:
                self._drop_rounds()
            except _FAILS_WITH:
                self.close()
        return None

    def _measured(self, kind: BaselineKind, made: Made, state: Value) -> MeasuredBaseline:
        clock = own_clock(self._now_s)
        session = self._session.under(clock)
        with self._turns.using():
            if self._bound is not kind:
                session.bind(kind.value, made, state)
            self._bound = kind
            outputs = leaves(session.run(made, state, "class", shape="full"))
        sizes = [item.numel() * item.element_size() for item in outputs]
        del outputs

        def rounds() -> Rounds:
            arguments = (self._runner, clock, made.inputs, sum(sizes), self._cache_bytes, secrets.SystemRandom(), None)
            return self._timed(RoundClock(*arguments, output_tensors=len(sizes), even=self.even, others=made.others))

        try:
            return baseline_of(kind, rounds())
        except RunnerFailureError:
            if self.even or kind is not BaselineKind.EAGER:
                raise
            self.even = True
        try:
            self._drop_rounds()
            return baseline_of(kind, rounds())
        except RunnerFailureError:
            self.even = False
            raise

    def _timed(self, rounds: RoundClock) -> Rounds:
        with self._turns.using():
            rounds.prepare()
        with self._turns.alone():
            found = rounds.run()
        with self._turns.using():
            # A baseline is believed: where its graph tells its kernels, nothing else about them is asked.
            found = found if found.nodes else rounds.profiled(found)
            rounds.close()
        return found

    def _drop_rounds(self) -> None:
        """What a round that failed has left takes memory from the rounds of candidates."""
        self._runner.segments.forget()
        self._runner.command("close_rounds", own_clock(self._now_s))
        self._runner.forget_buffers()

    def close(self) -> None:
        """End the process."""
        self._fleet.release(self._runner)

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def own_clock(now_s: Callable[[], float]) -> PhaseClock:
    """A time budget for what no candidate pays for."""
    clock = PhaseClock({TIMING: _PREPARE_S}, now_s, lambda _phase, _message: None)
    clock.begin(TIMING)
    return clock


@contextmanager
def reference_at_work() -> Iterator[None]:
    """Whatever the reference's runner fails with in the body is no candidate's doing: it becomes WorkerLostError."""
    try:
        yield
    except (
        RunnerFailureError,
        RunnerTimeoutError,
        RunnerEndedError,
        RunnerForgedError,
        RunnerKilledError,
        MalformedReplyError,
        WireError,
    ) as error:
        short_of_memory = isinstance(error, RunnerFailureError) and error.error.kind == "out_of_memory"
        lost = MemoryLostError if short_of_memory else WorkerLostError
        raise lost(f"the reference fails where it did not before: {type(error).__name__}: {error}") from error
