"""Hardware counters of a candidate that passed, read by Nsight Compute in a process of their own; nothing depends on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from adaexplore_evaluator.nsight import NOT_INSTALLED, NOT_PERMITTED, NsightCompute, parse_counters
from adaexplore_evaluator.profiles import profiled
from adaexplore_evaluator.referee.cuda.sanitizing import (
    Meanwhile,
    Order,
    elements_of,
    idle,
    place_order,
    reply_problem,
    text_of,
    wait_for_end,
)
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.runners import RunnerEndedError, RunnerForgedError
from adaexplore_evaluator.referee.tasks import PreparedTask
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.once import REPLY_FILE
from adaexplore_evaluator.runner.wire import WireError
from adaexplore_evaluator.sandbox import Attended, SandboxError

_BUDGET_S = 150.0
_LOG_FILE = "counters.csv"
_LOG_BYTES = 4 << 20
_REPLY_BYTES = 1 << 20
# Inputs are handed over through the host's memory.
_MOST_ELEMENTS = 2**27


def with_counters(evaluation: Mapping[str, Any], counters: JsonObject) -> JsonObject:
    """JSON of the Evaluation, profiled with what became of its counters."""
    return profiled({**evaluation, "profile": {**(evaluation.get("profile") or {}), **counters}})


def read_counters(
    fleet: Fleet,
    program: NsightCompute | None,
    task: PreparedTask,
    order: Order,
    cancelled: Callable[[], bool],
    restricted: bool,
    budget_s: float = _BUDGET_S,
    meanwhile: Meanwhile = idle,
) -> JsonObject:
    """Counters of one call on the first case's inputs, as fields of a Profile; JobCancelledError if the caller gave up.

    Args:
        fleet: Starts the runner.
        program: Nsight Compute; None if it is not installed.
        task: The task.
        order: What is run.
        cancelled: Whether the caller gave up.
        restricted: Whether the driver is known to permit it to nobody.
        budget_s: Seconds that it may take.
        meanwhile: Done now and then while it is at work, at nobody's expense.

    """
    if restricted:
        return _told("NOT_PERMITTED", NOT_PERMITTED)
    if program is None:
        return _told("NOT_INSTALLED", NOT_INSTALLED)
    if elements_of(task) > _MOST_ELEMENTS:
        return _told("FAILED", f"inputs of {elements_of(task):,} elements are too many to be handed over to it")
    try:
        return _read(fleet, program, task, order, cancelled, budget_s, meanwhile)
    except (SandboxError, RunnerEndedError, RunnerForgedError, WireError) as error:
        return _told("FAILED", str(error)[:300])


def _read(
    fleet: Fleet,
    program: NsightCompute,
    task: PreparedTask,
    order: Order,
    cancelled: Callable[[], bool],
    budget_s: float,
    meanwhile: Meanwhile,
) -> JsonObject:
    deadline_s = time.monotonic() + budget_s
    runner = fleet.attended(Attended(lambda shared: program.argv(shared / _LOG_FILE), program.root, {}))
    try:
        place_order(runner, task, order, marked=True)
        problem = wait_for_end(runner, deadline_s, budget_s, cancelled, meanwhile)
        log = parse_counters(text_of(runner, _LOG_FILE, _LOG_BYTES))
        problem = problem or log.error or reply_problem(text_of(runner, REPLY_FILE, _REPLY_BYTES))
    finally:
        fleet.release(runner)
    if log.denied:
        return _told("NOT_PERMITTED", NOT_PERMITTED)
    if not log.kernels:
        return _told("FAILED", problem or "it saw no kernel")
    kernels = [{"kernel_name": item.kernel, "launches": item.launches, "values": item.values} for item in log.kernels]
    return {"counter_status": "COUNTER_STATUS_READ", "counter_message": "", "counters": kernels}


def _told(status: str, message: str) -> JsonObject:
    return {"counter_status": f"COUNTER_STATUS_{status}", "counter_message": message, "counters": []}
