"""Prepares tasks: description, audit and cases, computed once and kept within a memory bound."""

from __future__ import annotations

import ast
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch

from adaexplore_evaluator.monitor import KillReason
from adaexplore_evaluator.referee.audit import Audit, audit
from adaexplore_evaluator.referee.cases import Case, CaseMaker, ReferenceChangedError
from adaexplore_evaluator.referee.clock import TASK, PhaseClock
from adaexplore_evaluator.referee.determinism import answers_alike
from adaexplore_evaluator.referee.families import OWN
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.named import InvalidCasesError, NamedCaseMaker, build_cases, named_inputs, of_one_form, shapes_by_value
from adaexplore_evaluator.referee.numerics import RULES
from adaexplore_evaluator.referee.reference import LoadedTask, Made, ReferenceSession, TaskSource
from adaexplore_evaluator.referee.runners import (
    RunnerEndedError,
    RunnerFailureError,
    RunnerForgedError,
    RunnerKilledError,
    RunnerTimeoutError,
)
from adaexplore_evaluator.referee.sizes import judged_elements_of
from adaexplore_evaluator.referee.values import MalformedReplyError, objects, plain_dtype
from adaexplore_evaluator.referee.verdicts import one_line, signal_name
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import Tree, Value, WireError, encode_types, tensors_of

_MOST_SESSIONS = 3
_MOST_DRAWS = 3


AtWork = Callable[[], AbstractContextManager[None]]


class WorkerLostError(Exception):
    """A runner of ours died twice at the same work; not the candidate's doing."""


class MemoryLostError(WorkerLostError):
    """The GPU had no memory for what is ours; alone on it there may be enough."""


class JobCancelledError(Exception):
    """The caller no longer wants the answer."""


class _InvalidTaskError(Exception):
    def __init__(self, cause: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.cause, self.message, self.line = cause, one_line(message), line


class _SuspectError(Exception):
    """A loss of the runner that may be the task's doing; the same `what` twice is.

    Attributes:
        what: The signal, or that a reply was forged.
        task: The task as invalid for that reason.

    """

    def __init__(self, what: str, task: PreparedTask) -> None:
        super().__init__(what)
        self.what, self.task = what, task


@dataclass(frozen=True)
class PreparedTask:
    """A task with all that judging its candidates takes.

    Attributes:
        source: The task.
        format: `module` or `function`; empty if the task does not load.
        entry_point: Name that candidates define.
        full: Description at full shape; empty if the task does not load.
        judged: Description at the judged shape; the same object where the shapes are equal.
        audit: Whether it can judge; its cause is empty if so.
        line: Line of the task that makes it invalid; 0 when unknown.
        cases: Cases with parameters moved off their defaults, the own inputs first.
        default_cases: Cases with the default parameters.
        seed: Seed from which the default parameters were drawn.
        full_init_inputs: Constructor arguments at full shape, tensors as types.
        full_inputs: Arguments of a call at full shape, tensors as types.
        session: The reference, still loaded; None on the cpu device.
        shapes_by_value: Whether shapes of outputs depend on the values of inputs, so that no pass without values can tell them.

    """

    source: TaskSource
    format: str
    entry_point: str
    full: JsonObject
    judged: JsonObject
    audit: Audit
    line: int = 0
    cases: tuple[Case, ...] = ()
    default_cases: tuple[Case, ...] = ()
    seed: int = 0
    full_init_inputs: Tree | None = None
    full_inputs: Tree | None = None
    session: ReferenceSession | None = None
    shapes_by_value: bool = False

    @property
    def bytes(self) -> int:
        """Memory that it holds, roughly."""
        return sum(case.bytes for case in (*self.cases, *self.default_cases))


class TaskBook:
    """Prepared tasks by digest, the least recently used dropped first.

    Args:
        fleet: Starts reference runners.
        max_bytes: Memory that all tasks together may hold.
        judged_elements: Size of the judged shape.
        device: Where truth is computed and compared: `cpu` or `cuda`. On a GPU the reference stays at hand for timed rounds.
        at_work: Gives a context for what uses the device.

    """

    def __init__(self, fleet: Fleet, max_bytes: int, judged_elements: int, device: str = "cpu", at_work: AtWork = nullcontext) -> None:
        self._fleet = fleet
        self._device = device
        self._at_work = at_work
        self._max_bytes = max_bytes
        self._judged_elements = judged_elements
        self._tasks: OrderedDict[tuple[str, int], PreparedTask] = OrderedDict()

    def get(self, source: TaskSource, clock: PhaseClock, cancelled: Callable[[], bool], judged_elements: int | None = None) -> PreparedTask:
        """The task, prepared for the judged shape of this size or of the usual one; a lost runner is replaced once.

        Raises:
            WorkerLostError: The second runner was lost too.
            JobCancelledError: The caller gave up.

        """
        key = source.digest, judged_elements or self._judged_elements
        known = self._tasks.get(key)
        if known is not None and (known.session is None or known.session.runner.alive):
            self._tasks.move_to_end(key)
            return known
        clock.begin(TASK, "preparing the task")
        lost: list[str] = []
        for _attempt in range(2):
            try:
                return self._keep(key, self._prepare(source, clock, key[1]))
            except (_SuspectError, RunnerEndedError, RunnerKilledError, RunnerForgedError, RunnerTimeoutError) as error:
                if cancelled():
                    raise JobCancelledError from error
                if isinstance(error, _SuspectError) and error.what in lost:
                    return self._keep(key, error.task)
                lost.append(_loss(error))
        raise WorkerLostError(f"the reference runner was lost twice: {'; then '.join(lost)}")

    def forget(self, source: TaskSource | None = None) -> None:
        """Drop what is known of a task, at every shape, or of all tasks."""
        for key in [key for key in self._tasks if source is None or key[0] == source.digest]:
            self._drop(self._tasks.pop(key))

    def _keep(self, key: tuple[str, int], task: PreparedTask) -> PreparedTask:
        self._drop(self._tasks.pop(key, None))
        self._tasks[key] = task
        while len(self._tasks) > 1 and self._too_many():
            self._drop(self._tasks.popitem(last=False)[1])
        return task

    def _too_many(self) -> bool:
        sessions = sum(1 for item in self._tasks.values() if item.session is not None)
        return sessions > _MOST_SESSIONS or sum(item.bytes for item in self._tasks.values()) > self._max_bytes

    def _drop(self, task: PreparedTask | None) -> None:
        if task is not None and task.session is not None:
            self._fleet.release(task.session.runner)

    def _prepare(self, source: TaskSource, clock: PhaseClock, judged_elements: int) -> PreparedTask:
        progress = _Progress(source)
        runner = self._fleet.reference()
        try:
            runner.wait_until_ready(clock)
        except (RunnerEndedError, RunnerKilledError, RunnerForgedError, RunnerTimeoutError):
            # Nothing of the task was loaded yet: whatever went wrong is ours.
            self._fleet.release(runner)
            raise
        kept = False
        try:
            session = ReferenceSession(runner, clock, self._fleet.value_bytes)
            with self._at_work():
                clock.excuse()
                task = _prepare(progress, session, judged_elements, self._device)
            kept = self._device != "cpu" and not task.audit.cause
            return replace(task, session=session) if kept else task
        except _InvalidTaskError as invalid:
            return progress.invalid(invalid)
        except RunnerFailureError as failure:
            return progress.invalid(_reference_fails(source, failure, self._fleet.memory_bytes))
        except RunnerTimeoutError:
            message = f"{source.name} did not finish within {clock.budget_s():g} s; make its inputs smaller or its reference faster"
            return progress.invalid(_InvalidTaskError("REFERENCE_FAILS", message))
        except RunnerEndedError as ended:
            if ended.end.killed not in _OWN_FAULTS:  # whoever gave up has killed it, which says nothing of the task
                raise
            fault = _own_fault(source, ended, self._fleet.memory_bytes)
            if ended.end.killed is None and ended.end.signal is not None:
                raise _SuspectError(signal_name(ended.end.signal), progress.invalid(fault)) from ended
            return progress.invalid(fault)
        except (RunnerForgedError, MalformedReplyError, WireError) as error:
            message = f"{source.name} disturbs the process that runs it ({error}); a reference may only compute"
            raise _SuspectError("forged reply", progress.invalid(_InvalidTaskError("REFERENCE_FAILS", message))) from error
        finally:
            if not kept:
                self._fleet.release(runner)


@dataclass
class _Progress:
    """What is known of a task when its preparation stops."""

    source: TaskSource
    format: str = ""
    entry_point: str = ""
    full: JsonObject | None = None
    judged: JsonObject | None = None

    def invalid(self, invalid: _InvalidTaskError) -> PreparedTask:
        verdict = Audit(invalid.cause, invalid.message, (), 0.0, 0.0)
        return self.task(verdict, line=invalid.line)

    def task(self, result: Audit, line: int = 0) -> PreparedTask:
        full = self.full or {}
        return PreparedTask(self.source, self.format, self.entry_point, full, self.judged or full, result, line)


def _prepare(progress: _Progress, session: ReferenceSession, judged_elements: int, device: str) -> PreparedTask:
    loaded = session.load(progress.source)
    progress.format, progress.entry_point = loaded.format, loaded.entry_point
    progress.full = session.describe("full")
    reduced = loaded.has_inputs and session.judged_shape(judged_elements_of(progress.full, judged_elements))
    progress.judged = session.describe("judged") if reduced else progress.full
    generator = torch.Generator(device).manual_seed(secrets.randbits(63))
    seeds = [secrets.randbits(31) for _ in range(2)]
    if loaded.has_cases:
        return _prepare_named(progress, session, loaded, generator, seeds)
    return _prepare_unnamed(progress, session, generator, seeds)


def _prepare_unnamed(progress: _Progress, session: ReferenceSession, generator: torch.Generator, seeds: list[int]) -> PreparedTask:
    rules = RULES[progress.source.precision]
    maker = CaseMaker(session, rules, generator)
    made = [session.make_inputs(seed) for seed in seeds]
    default_state = session.make_state(seeds[0], moved=False)
    _demand_determinism(progress.source, session, made[0], default_state)
    try:
        own = maker.case(OWN, made[0], default_state)
    except ReferenceChangedError as error:
        raise _InvalidTaskError("UNSATISFIABLE", f"{progress.source.name}: {error}; its results must not depend on the dtype") from error
    default_cases = [own, *maker.families(own, made[1])]
    result = audit(rules, default_cases)
    base = progress.task(result)
    if result.cause:
        return base
    return replace(
        base,
        cases=tuple(_judging_cases(session, maker, made, default_cases, seeds)),
        default_cases=tuple(default_cases),
        seed=seeds[0],
        full_init_inputs=_types_tree(objects(base.full, "init_inputs")),
        full_inputs=_types_tree(objects(base.full, "inputs")),
    )


def _prepare_named(
    progress: _Progress, session: ReferenceSession, loaded: LoadedTask, generator: torch.Generator, seeds: list[int]
) -> PreparedTask:
    rules = RULES[progress.source.precision]
    maker = NamedCaseMaker(session, rules, generator, loaded.contract)
    state = session.make_state(seeds[0], moved=False)
    for _attempt in range(_MOST_DRAWS):
        try:
            cases = build_cases(session, maker, named_inputs(session, loaded, seeds), state, loaded.contract)
        except InvalidCasesError as error:
            raise _InvalidTaskError(error.cause, f"{progress.source.name}: {error.message}") from error
        result = audit(rules, of_one_form(cases))
        if result.cause != "UNSATISFIABLE":
            break
        # A random matrix may be ill-conditioned by chance, which says nothing of the task.
        seeds = [secrets.randbits(31) for _ in seeds]
    base = replace(progress.task(result), seed=seeds[0])
    return base if result.cause else _with_named(base, session, maker, loaded, cases)


def _with_named(
    base: PreparedTask, session: ReferenceSession, maker: NamedCaseMaker, loaded: LoadedTask, cases: list[Case]
) -> PreparedTask:
    own = cases[0] if cases[0].comparer is not None else _with_lookalikes(maker, cases[0], cases[0].state)
    # Arguments of a case may be lists of tensors, which no description tells; its shape is the full one, unless the task makes others.
    full_inputs = _types_tree(objects(base.full, "inputs")) if loaded.has_inputs else encode_types(own.made.inputs)
    return replace(
        base,
        cases=(own, *cases[1:]),
        default_cases=tuple(cases),
        full_init_inputs=_types_tree([]),
        full_inputs=full_inputs,
        shapes_by_value=shapes_by_value(session, own),
    )


def _judging_cases(
    session: ReferenceSession, maker: CaseMaker, made: list[Made], default_cases: list[Case], seeds: list[int]
) -> list[Case]:
    own = default_cases[0]
    if not tensors_of(own.state):
        return [_with_lookalikes(maker, own, own.state), *default_cases[1:]]
    moved = maker.case(OWN, made[0], session.make_state(seeds[0], moved=True))
    cases = [_with_lookalikes(maker, moved, own.state), *maker.families(moved, made[1])]
    other = maker.moved(made[1], session.make_state(seeds[1], moved=True), moved)
    return cases if other is None else [*cases, other]


def _with_lookalikes(maker: CaseMaker, own: Case, default_state: Value) -> Case:
    return replace(own, lookalikes=maker.lookalikes(own, default_state))


def _demand_determinism(source: TaskSource, session: ReferenceSession, made: Made, state: Value) -> None:
    if not answers_alike(session, made, state):
        raise _InvalidTaskError(
            "NONDETERMINISTIC_REFERENCE",
            f"{source.name} answers differently for the same inputs; remove its randomness (dropout needs eval mode or p = 0)",
        )


def _types_tree(arguments: list[JsonObject]) -> Tree:
    items: list[object] = []
    for argument in arguments:
        tensor = argument.get("tensor")
        if isinstance(tensor, dict):
            dtype = plain_dtype(tensor.get("dtype"))
            items.append({"t": "tensor", "offset": 0, "storage_elements": 0, "parameter": False, **tensor, "dtype": dtype})
        else:
            items.append(encode_types(_literal(argument)))
    return {"t": "list", "items": items}


def _literal(argument: JsonObject) -> object:
    try:
        return ast.literal_eval(str(argument.get("literal")))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise _InvalidTaskError(
            "REFERENCE_FAILS",
            f"argument {argument.get('name')} is neither a tensor nor a plain value; pass numbers, strings, lists or tensors",
        ) from None


def _reference_fails(source: TaskSource, failure: RunnerFailureError, memory_bytes: int) -> _InvalidTaskError:
    error = failure.error
    place = f"{source.name}, line {error.line}" if error.line else source.name
    if error.kind == "out_of_memory":
        return _InvalidTaskError("REFERENCE_FAILS", f"{place}: the task {_needs_more(memory_bytes)}", error.line)
    text = error.message.replace("task.py", source.name) or error.exception_type or "it failed without a message"
    message = text if source.name in text else f"{place}: {text}"
    return _InvalidTaskError("REFERENCE_FAILS", message, error.line)


# What a runner that we killed, or that ended by itself, tells of its task.
_OWN_FAULTS = (None, KillReason.MEMORY, KillReason.PROCESSES, KillReason.SCRATCH)


def _own_fault(source: TaskSource, ended: RunnerEndedError, memory_bytes: int) -> _InvalidTaskError:
    """What the task did to its runner."""
    if ended.end.killed is KillReason.MEMORY:
        what = _needs_more(memory_bytes)
    elif ended.end.killed is not None:
        what = "starts processes or fills the disk; a reference may only compute"
    elif ended.end.signal is not None:
        what = (
            f"was killed by {signal_name(ended.end.signal)} each time it was run; look for an access out of bounds or an endless recursion"
        )
    else:
        what = f"ended its own process with exit code {ended.end.exit_code}; let it return a tensor"
    return _InvalidTaskError("REFERENCE_FAILS", f"{source.name} {what}")


def _needs_more(memory_bytes: int) -> str:
    return f"needs more than the limit of {memory_bytes / 2**30:.1f} GiB of memory; make its inputs smaller or raise --runner-memory-bytes"


def _loss(error: Exception) -> str:
    if isinstance(error, RunnerEndedError):
        return f"exit code {error.end.exit_code}, signal {error.end.signal}; last output: {error.log[-300:]}"
    return str(error) if isinstance(error, _SuspectError) else f"{type(error).__name__}: {error}"
