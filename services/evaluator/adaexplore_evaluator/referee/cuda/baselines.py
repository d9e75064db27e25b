"""Baselines of a task on this GPU: PyTorch eager and torch.compile, in a process of their own, timed by the referee's rounds."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from adaexplore_evaluator.devices.cpu.baseline import BaselineKind
from adaexplore_evaluator.devices.cpu.datasheet import UnknownTargetError, datasheet
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.cuda.baseline_runner import BaselineRunner, own_clock, reference_at_work
from adaexplore_evaluator.referee.cuda.canary import Canary, Reading
from adaexplore_evaluator.referee.cuda.ceilings import MeasuredCeilings
from adaexplore_evaluator.referee.cuda.first_look import Bar, bar_of
from adaexplore_evaluator.referee.cuda.slots import SCALED, drawn, same_types
from adaexplore_evaluator.referee.cuda.timing import STEADY, MeasuredBaseline, spread
from adaexplore_evaluator.referee.cuda.turns import FreeTurns, Turns
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.reference import Made, ReferenceSession
from adaexplore_evaluator.referee.runners import (
    RunnerFailureError,
)
from adaexplore_evaluator.referee.sizes import bytes_of, is_large
from adaexplore_evaluator.referee.tasks import PreparedTask, WorkerLostError
from adaexplore_evaluator.referee.values import objects
from adaexplore_evaluator.runner.wire import Value, tensors_of

_FREE = FreeTurns()
_LOOKS = 3
_OTHER_DRAWS = 3
_MOST_DRAWN_BYTES = 1 << 30


class Baselines:
    """Baselines by task, measured when they are first asked for, and again when the GPU is not as fast as it was then.

    Args:
        fleet: Starts reference runners on the GPU.
        now_s: A monotonic clock in seconds.
        canary: Tells whether the GPU's speed has drifted.
        turns: Turns on the GPU: alone for what is measured, beside others for the rest.

    Attributes:
        value_bytes: Size that the tensors of one value may have together.
        cache_bytes: Size of the GPU's largest cache.
        ceilings: What the GPU reaches.

    """

    def __init__(self, fleet: Fleet, now_s: Callable[[], float], canary: Canary, turns: Turns = _FREE) -> None:
        self._turns = turns
        self._fleet = fleet
        self._now_s = now_s
        self._canary = canary
        self._known: dict[str, _Known] = {}
        self._even: dict[str, bool] = {}
        self._changed = ""
        self._kept: tuple[str, BaselineRunner] | None = None
        self.value_bytes = fleet.value_bytes
        self.ceilings = MeasuredCeilings()
        self.cache_bytes = int(torch.cuda.get_device_properties(0).L2_cache_size)

    def session(self, task: PreparedTask) -> ReferenceSession:
        """The task's reference under a time budget of its own: no candidate pays for it.

        Raises:
            WorkerLostError: It is gone.

        """
        if task.session is None:
            raise WorkerLostError("the reference runner of the task is gone")
        return task.session.under(own_clock(self._now_s))

    def full(self, task: PreparedTask, own: Case, seeded: bool) -> tuple[Made, Value]:
        """Arguments and state at the full shape; those of the first case where numbers are judged at that shape.

        Raises:
            WorkerLostError: The reference fails where it did not before.

        """
        if task.judged is task.full:
            return replace(own.made, others=self._others(task, own.made)), own.state
        session, moved = self.session(task), bool(tensors_of(own.state)) and not seeded
        with reference_at_work():
            made = replace(session.make_inputs(secrets.randbits(31), shape="full"), changed=own.made.changed)
            made = replace(made, others=self._others(task, made))
            return made, session.make_state(task.seed, moved=moved, shape="full")

    def _others(self, task: PreparedTask, made: Made) -> tuple[Value, ...]:
        """Further draws of inputs that hold what no factor varies; none where the task's own inputs are of another form."""
        tensors = tensors_of(made.inputs)
        size = sum(item.untyped_storage().nbytes() for item in tensors)
        if all(item.dtype in SCALED for item in tensors) or size > _MOST_DRAWN_BYTES:
            return ()
        session = self.session(task)
        try:
            drawn = [session.make_inputs(secrets.randbits(31), shape="full").inputs for _ in range(_OTHER_DRAWS)]
        except RunnerFailureError:  # it has named cases only
            return ()
        return tuple(other for other in drawn if same_types(tensors_of(other), tensors))

    def prepare(self, task: PreparedTask) -> None:
        """Start what measures the task's baselines and compile them, unless they are known; others use the GPU meanwhile.

        Beside a candidate of a large task there is no memory for them: they are compiled when they are measured.

        Raises:
            WorkerLostError: The reference cannot be loaded.

        """
        key = _key(task)
        if is_large(task.full):
            self.release()
        elif key not in self._known:
            self._runner(key, task).compile()

    def reading(self) -> Reading:
        """How fast the GPU is now."""
        with self._turns.alone():
            return self._canary.read()

    def refresh(self, task: PreparedTask, timed: Reading | None = None) -> bool:
        """Measure the task's baselines unless they are known and the GPU was as fast then; whether that was needed.

        To be called when a candidate has just been timed, and while none is alive, which could slow them down.

        Args:
            task: The task.
            timed: How fast the GPU was when the candidate was timed; as fast as now by default.

        Raises:
            WorkerLostError: The reference cannot be timed.

        """
        key = _key(task)
        self._changed = ""
        if key in self._known and not self._drift_from(self._known[key].reading, timed):
            return False
        for _look in range(_LOOKS):
            before = self.reading()
            runner = self._runner(key, task)
            found = runner.measured()
            if any(spread(item.rounds.samples_us) > STEADY for item in found):
                runner = self._runner(key, task)
                found = runner.measured()
            best_us = self._known[key].best_us if key in self._known else math.inf
            self._known[key], self._even[key] = _Known(found, before, best_us), runner.even
            self._changed = self._drift_from(before) or (before.drifted_from(timed) if timed else "")
            if not self._changed:
                break
        return True

    def changed(self) -> str:
        """How the GPU's speed has changed while `refresh` measured, in words; empty if it has not, or only for a moment."""
        return self._changed

    def known(self, task: PreparedTask) -> tuple[MeasuredBaseline, ...]:
        """Eager and compiled, as `refresh` left them; compiled is left out where torch.compile fails on the task."""
        return self._known[_key(task)].baselines

    def bar(self, task: PreparedTask) -> Bar:
        """The best baselines, as far as they are known by now."""
        known = self._known.get(_key(task))
        found = [item.rounds for item in known.baselines] if known else []
        return bar_of([item.busy_us for item in found], [item.end_to_end_us for item in found])

    def even(self, task: PreparedTask, made: Made, state: Value) -> bool:
        """Whether slots of its rounds must be scaled evenly, since the reference refuses others."""
        key = _key(task)
        if key not in self._even:
            self._even[key] = self._refuses_uneven(self.session(task), made, state)
        return self._even[key]

    def _refuses_uneven(self, session: ReferenceSession, made: Made, state: Value) -> bool:
        draw = secrets.SystemRandom()
        for _look in range(_LOOKS):
            try:
                with torch.no_grad():
                    session.run(replace(made, inputs=drawn(made.inputs, draw)), state, "class", shape="full")
            except RunnerFailureError:
                return True
        return False

    def leads(self, task: PreparedTask, median_us: float) -> bool:
        """True if nothing that was `measured` was faster on this task so far, and no baseline is."""
        known = self._known[_key(task)]
        return median_us < min([known.best_us, *(item.median_us for item in known.baselines)])

    def measured(self, task: PreparedTask, median_us: float) -> None:
        """Remember a latency that counts."""
        known = self._known[_key(task)]
        known.best_us = min(known.best_us, median_us)

    def drift(self, task: PreparedTask) -> str:
        """How the GPU's speed has changed since the task's baselines were measured, in words; empty if it has not, or only for a moment."""
        return self._drift_from(self._known[_key(task)].reading)

    def _drift_from(self, reading: Reading, timed: Reading | None = None) -> str:
        found = timed.drifted_from(reading) if timed else ""
        for _look in range(0 if timed else _LOOKS):
            found = self.reading().drifted_from(reading)
            if not found:
                break
        return found

    def again(self, task: PreparedTask, kind: BaselineKind) -> MeasuredBaseline:
        """One baseline once more; no candidate may be alive.

        Raises:
            WorkerLostError: The reference cannot be timed.

        """
        found = self._runner(_key(task), task).measure(kind)
        if found is None:
            raise WorkerLostError("a baseline that was measured cannot be measured again")
        return found

    def release(self) -> None:
        """End the process that is kept for the last task."""
        if self._kept is not None:
            self._kept[1].close()
            self._kept = None

    def _runner(self, key: str, task: PreparedTask) -> BaselineRunner:
        """The runner of the last task is kept: what it compiled is still there when a leader asks for it."""
        if self._kept is None or self._kept[0] != key or not self._kept[1].alive:
            self.release()
            # Drawn when they are needed: at full shape they may be large.
            arguments = partial(self.full, task, task.cases[0], seeded=False)
            self._kept = (key, BaselineRunner(self._fleet, self._now_s, task, arguments, self.cache_bytes, self._turns))
            self._kept[1].even = self._even.get(key, False)
        return self._kept[1]


@dataclass
class _Known:
    baselines: tuple[MeasuredBaseline, ...]
    reading: Reading
    best_us: float


def _key(task: PreparedTask) -> str:
    # The track says nothing about the reference.
    return hashlib.sha256("\0".join((task.source.source, task.source.format, task.source.precision)).encode()).hexdigest()


def device_floor_us(task: PreparedTask, target: str) -> float:
    """Least time in which the outputs can reach memory at the datasheet's rate, in microseconds; 0 for a GPU without a datasheet."""
    total = sum(bytes_of(output) for output in objects(task.full, "outputs"))
    try:
        return 1e6 * total / datasheet(target).dram_bytes_per_second
    except UnknownTargetError:
        return 0.0
