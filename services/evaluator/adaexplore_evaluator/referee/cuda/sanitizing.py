"""Runs a candidate that passed once more under compute-sanitizer, and says what follows."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from adaexplore_evaluator.referee import reports
from adaexplore_evaluator.referee.clock import CHECK
from adaexplore_evaluator.referee.cuda.sanitizer_log import SanitizerError, SanitizerLog, parse_log
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.runners import Runner, RunnerEndedError, RunnerForgedError
from adaexplore_evaluator.referee.tasks import JobCancelledError, PreparedTask
from adaexplore_evaluator.referee.verdicts import FAILED, INCONCLUSIVE, Finding, signed, stop
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.once import GO_FILE, ORDER_FILE, REPLY_FILE
from adaexplore_evaluator.runner.wire import Value, WireError, map_tensors, tensors_of
from adaexplore_evaluator.sandbox import Attended, SandboxError
from adaexplore_evaluator.sanitizers import MISSING, Sanitizer

_BUDGET_S = 180.0
_LOOK_S = 0.1
_LOG_BYTES = 4 << 20
_REPLY_BYTES = 1 << 20
_LISTED = 20
_LOG_FILE = "sanitizer.log"
# Above so many elements of inputs a tool that is 10 to 100 times slower gets a smaller shape, where the task has one.
MOST_ELEMENTS = 2**24
SMALLER_ELEMENTS = 2**20
_CAUSES = {"memcheck": "MEMORY", "initcheck": "MEMORY", "racecheck": "NONDETERMINISTIC", "synccheck": "NONDETERMINISTIC"}
_ADVICE = {
    "memcheck": "mask every load and store by the tensor's true size",
    "initcheck": "write every element before it is read, or mask the load",
    "racecheck": "put a barrier between the write and the read of shared memory",
    "synccheck": "let every thread reach the same barrier",
}

# Done now and then while a runner under a tool is at work.
Meanwhile = Callable[[Runner], None]


@dataclass(frozen=True)
class SanitizedRun:
    """What came of one run under the tool.

    Attributes:
        log: What the tool says.
        problem: Why the run tells nothing, in words; empty if it was complete.
        elapsed_s: Seconds it took, the start included.

    """

    log: SanitizerLog
    problem: str
    elapsed_s: float


@dataclass(frozen=True)
class Order:
    """What is run: a candidate's source under one of the tools, for a target, its state from a seed or the task's."""

    tool: str
    source: str
    target: str
    seeded: bool


def idle(_runner: Runner) -> None:
    """Do nothing while a runner is waited for."""


def elements_of(task: PreparedTask) -> int:
    """Elements of all inputs of a task's first case together."""
    return sum(tensor.numel() for tensor in tensors_of(task.cases[0].made.inputs))


def run_sanitized(
    fleet: Fleet,
    program: Sanitizer | None,
    task: PreparedTask,
    order: Order,
    cancelled: Callable[[], bool],
    budget_s: float = _BUDGET_S,
    meanwhile: Meanwhile = idle,
) -> SanitizedRun:
    """Run a candidate once on the first case's inputs in a fresh process under the tool; JobCancelledError if the caller gave up.

    What is done `meanwhile` takes nothing from the budget.
    """
    start_s = time.monotonic()
    log, problem = SanitizerLog((), None, ""), ""
    try:
        if program is None:
            raise SandboxError(MISSING)
        runner = fleet.attended(Attended(lambda shared: program.argv(order.tool, shared / _LOG_FILE), program.root, _environment()))
        try:
            place_order(runner, task, order)
            problem = wait_for_end(runner, start_s + budget_s, budget_s, cancelled, meanwhile)
            log = parse_log(text_of(runner, _LOG_FILE, _LOG_BYTES))
            problem = problem or reply_problem(text_of(runner, REPLY_FILE, _REPLY_BYTES))
        finally:
            fleet.release(runner)
    except (SandboxError, RunnerEndedError, RunnerForgedError, WireError) as error:
        problem = str(error)
    return SanitizedRun(log, problem, time.monotonic() - start_s)


def finding_of(tool: str, run: SanitizedRun, source: str) -> Finding | None:
    """The verdict that follows from a run; None if the tool saw all of it and found nothing.

    Only errors in kernels that the source names are the candidate's: a library's own may be the tool's misunderstanding.
    """
    own = [error for error in run.log.errors if _is_named(error.kernel, source)]
    # Without its summary the tool may have been stopped in the middle of anything, so that what it printed proves nothing.
    if own and run.log.total:
        return signed(stop(FAILED, _CAUSES[tool], CHECK, _described(tool, own), kernel_name=own[0].kernel[:200]).finding, source)
    if own:
        reason = run.problem or run.log.problem
        problem = f"it ended without its summary{f' ({reason})' if reason else ''} after {own[0].kind} in kernel {own[0].kernel}"
    elif run.log.errors:
        other = run.log.errors[0]
        problem = f"{other.kind} in {other.kernel or 'an unnamed kernel'}, which is no kernel that the candidate names"
    elif run.log.total:
        problem = f"its summary counts {run.log.total} errors of a form that is not known"
    elif run.problem or run.log.problem:
        problem = run.log.problem or run.problem
    elif run.log.total is None:
        problem = "it ended without its summary"
    else:
        return None
    message = f"{tool} did not judge the candidate, which passed everything else: {problem}; evaluate again, or without a sanitizer"
    return signed(stop(INCONCLUSIVE, "NOT_SANITIZED", CHECK, message).finding, source)


def with_run(found: JsonObject, tool: str, version: str, run: SanitizedRun, source: str, reduced: bool) -> JsonObject:
    """JSON of the Evaluation with the run as evidence, and its verdict where one follows; the timing stays."""
    evidence: JsonObject = {
        "sanitizer": f"SANITIZER_{tool.upper()}",
        "version": version,
        "errors": [_report(error) for error in run.log.errors[:_LISTED]],
        "elapsed": f"{run.elapsed_s:.6f}s",
        "reduced_shape": reduced,
    }
    if run.log.total is not None:
        evidence["error_count"] = run.log.total
    found = {**found, "sanitization": evidence}
    finding = finding_of(tool, run, source)
    if finding is None:
        return found
    return {name: value for name, value in found.items() if name != "profile"} | {
        "verdict": f"VERDICT_{finding.verdict}",
        "cause": f"CAUSE_{finding.cause}",
        "phase": f"PHASE_{finding.phase}",
        "failure": reports.failure(finding.failure),
    }


def _environment() -> dict[str, str]:
    # Each tensor is an allocation of its own, so that an access beyond it is one beyond an allocation.
    return {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def place_order(runner: Runner, task: PreparedTask, order: Order, marked: bool = False) -> None:
    """Give a runner its order, a call on the first case's inputs; `marked` has two, of which a profiler looks at the second."""
    case = (task.default_cases if order.seeded else task.cases)[0]
    path = runner.place("candidate.py", order.source)
    names = [task.entry_point] if task.format == "module" else [task.entry_point, "kernel_function"]
    precision, target = task.source.precision, order.target
    commands: list[JsonObject] = [
        {"command": "load_candidate", "path": path, "entry_points": names, "format": task.format, "precision": precision, "target": target},
        {"command": "construct", "init_inputs": runner.encode(_on_host(case.made.init_inputs)), "seed": task.seed},
    ]
    commands += [] if order.seeded else [{"command": "load_state", "state": runner.encode(_on_host(case.state))}]
    # Nothing stands between the candidate and torch: no poison.
    run: JsonObject = {"command": "run", "inputs": runner.encode(_on_host(case.made.inputs)), "order_seed": 0, "poison": -1}
    commands += [run, {**run, "marked": True}] if marked else [run]
    runner.place(ORDER_FILE, json.dumps(commands))
    runner.place(GO_FILE, "")


def _on_host(value: Value) -> Value:
    return map_tensors(value, torch.Tensor.cpu)


def wait_for_end(runner: Runner, deadline_s: float, budget_s: float, cancelled: Callable[[], bool], meanwhile: Meanwhile = idle) -> str:
    """Wait for a runner's end; why it tells nothing, if that is known by now, and JobCancelledError if the caller gave up."""
    while (end := runner.ended(_LOOK_S)) is None:
        if cancelled():
            raise JobCancelledError
        since_s = time.monotonic()
        meanwhile(runner)
        deadline_s += time.monotonic() - since_s
        if time.monotonic() >= deadline_s:
            return f"it took longer than {budget_s:g} s"
    if end.killed is not None:
        return f"its process was ended for its use of {end.killed.name.lower()}"
    return f"its process was killed by signal {end.signal}" if end.signal is not None else ""


def text_of(runner: Runner, name: str, limit_bytes: int) -> str:
    """Text of a file that the runner left, empty if it left none; RunnerForgedError if it is none that a runner leaves."""
    try:
        return runner.read_file(name, limit_bytes).decode(errors="replace")
    except RunnerForgedError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ""
        raise
    except SandboxError:
        return ""  # it was never written


def reply_problem(text: str) -> str:
    """Why a runner's answer tells that its order was not done, in words; empty if it was."""
    try:
        reply = json.loads(text)
    except ValueError:
        return "the candidate did not come to its end"
    if isinstance(reply, dict) and reply.get("ok") is True:
        return ""
    error = reply.get("error") if isinstance(reply, dict) else None
    return f"the candidate fails there alone: {str(error.get('message'))[:200] if isinstance(error, dict) else 'without a message'}"


def _is_named(kernel: str, source: str) -> bool:
    return bool(kernel) and re.search(rf"\b{re.escape(kernel)}\b", source) is not None


def _described(tool: str, errors: list[SanitizerError]) -> str:
    first = errors[0]
    where = f" by thread {first.thread} of block {first.block}" if first.thread else ""
    address = f", address {first.address} {first.distance}".rstrip() if first.address else ""
    more = f"; {len(errors) - 1} further kinds of error" if len(errors) > 1 else ""
    return f"{tool}: kernel {first.kernel}: {first.kind}, seen {first.count} times{where}{address}; {_ADVICE[tool]}{more}"


def _report(error: SanitizerError) -> JsonObject:
    fields = dict(vars(error))
    return {
        "kernel_name": str(fields.pop("kernel"))[:200],
        **{name: value[:300] if isinstance(value, str) else value for name, value in fields.items()},
    }
