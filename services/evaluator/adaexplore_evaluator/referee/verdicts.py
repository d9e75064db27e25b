"""Verdicts with their causes and messages; a cause follows from structure, never from text that a candidate controls."""

from __future__ import annotations

import ast
import re
import signal
from dataclasses import dataclass, replace
from typing import Final

from adaexplore_evaluator.monitor import KillReason
from adaexplore_evaluator.referee.clock import COMPILE, TUNE, PhaseClock
from adaexplore_evaluator.referee.runners import RunnerEndedError, RunnerErrorReport

PASSED, FAILED, REJECTED = "PASSED", "FAILED", "REJECTED"
TASK_INVALID, INCONCLUSIVE = "TASK_INVALID", "INCONCLUSIVE"
# The kind of error of a runner whose interpreter makes progress but would not finish in time.
TOO_SLOW: Final = "too_slow"

_BY_KIND: Final = {
    "syntax": (FAILED, "SYNTAX"),
    "contract": (FAILED, "CONTRACT"),
    "compile": (FAILED, "COMPILE"),
    "launch": (FAILED, "LAUNCH"),
    "runtime": (FAILED, "RUNTIME"),
    "tune": (FAILED, "RUNTIME"),
    "memory": (FAILED, "MEMORY"),
    "fault": (FAILED, "FAULT"),
    "out_of_memory": (FAILED, "OUT_OF_MEMORY"),
    "lazy_output": (REJECTED, "LAZY_OUTPUT"),
    "tamper": (REJECTED, "TAMPER"),
    "not_interpretable": (INCONCLUSIVE, "NOT_INTERPRETABLE"),
    TOO_SLOW: (INCONCLUSIVE, "NOT_INTERPRETABLE"),
}
_MESSAGE_CHARS: Final = 500


@dataclass(frozen=True)
class Failure:
    """Why a candidate did not pass; `line` is 1-based, 0 when unknown."""

    message: str
    exception_type: str = ""
    detail: str = ""
    line: int = 0
    excerpt: str = ""
    signature: str = ""
    kernel_name: str = ""


@dataclass(frozen=True)
class Finding:
    """A verdict that is not PASSED."""

    verdict: str
    cause: str
    phase: str
    failure: Failure


class StopError(Exception):
    """Ends an evaluation with a finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.cause)
        self.finding = finding


def stop(verdict: str, cause: str, phase: str, message: str, line: int = 0, kernel_name: str = "") -> StopError:
    """A finding of the referee's own, ready to be raised."""
    return StopError(Finding(verdict, cause, phase, Failure(one_line(message), line=line, kernel_name=kernel_name)))


def from_report(report: RunnerErrorReport, phase: str) -> Finding:
    """Finding for an error that a candidate's runner reports."""
    verdict, cause = _BY_KIND.get(report.kind, (FAILED, "RUNTIME"))
    phase = TUNE if report.kind == "tune" else phase
    message = report.message or report.exception_type or "the candidate failed without a message"
    place = f"line {report.line}: " if report.line and f"line {report.line}" not in message else ""
    kernel = f"kernel {report.kernel_name}: " if report.kernel_name and report.kernel_name not in message else ""
    failure = Failure(
        message=one_line(f"{place}{kernel}{message}"),
        exception_type=report.exception_type,
        detail=report.detail,
        line=report.line,
        excerpt=report.excerpt,
        kernel_name=report.kernel_name,
    )
    return Finding(verdict, cause, phase, failure)


def from_end(ended: RunnerEndedError, clock: PhaseClock, memory_bytes: int) -> Finding:
    """Finding for a candidate's process that ended before it answered."""
    detail = ended.log[-2000:]
    if ended.end.killed is KillReason.MEMORY:
        message = f"the candidate used more than {memory_bytes / 2**30:.1f} GiB of memory; allocate less"
        return Finding(FAILED, "OUT_OF_MEMORY", clock.phase, Failure(message, detail=detail))
    if ended.end.killed is KillReason.SCRATCH:
        return Finding(FAILED, "OUT_OF_MEMORY", clock.phase, Failure("the candidate filled its disk; write no files", detail=detail))
    if ended.end.killed is KillReason.PROCESSES:
        return Finding(REJECTED, "TAMPER", clock.phase, Failure("the candidate started too many processes; start none", detail=detail))
    if ended.end.signal is not None:
        name = signal_name(ended.end.signal)
        message = f"the candidate's process was killed by {name}; look for an access out of bounds or an endless recursion"
    else:
        message = f"the candidate ended its own process with exit code {ended.end.exit_code}; return the result instead"
    return Finding(FAILED, "FAULT", clock.phase, Failure(message, detail=detail))


def timed_out(clock: PhaseClock) -> Finding:
    """Finding for a phase that used up its time."""
    message = f"the candidate took longer than {clock.budget_s():g} s in phase {clock.phase.lower()}; make it do less work or end its loop"
    if clock.phase in (TUNE, COMPILE) and clock.learnt:
        message += f"; so far: {clock.learnt}"
    return Finding(FAILED, "TIMEOUT", clock.phase, Failure(message))


def signed(finding: Finding, source: str) -> Finding:
    """The finding with its signature: phase, cause, exception and diagnostic without what differs from file to file."""
    failure = finding.failure
    text = failure.detail.strip().splitlines()[-1] if failure.exception_type and failure.detail.strip() else failure.message
    parts = (finding.phase, finding.cause, failure.exception_type, fold(text, defined_names(source)))
    return replace(finding, failure=replace(failure, signature="|".join(parts)))


def fold(text: str, own_names: frozenset[str]) -> str:
    """The text with numbers (#), paths (@) and the file's own names ($) replaced; names of libraries stay, since they are the diagnosis."""
    text = re.sub(r"(?:/[\w.+-]+){2,}", "@", text)
    text = re.sub(r"\b[A-Za-z_]\w*", lambda match: "$" if match[0] in own_names else match[0], text)
    text = re.sub(r"\b0x[0-9a-fA-F]+|\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b", "#", text)
    return " ".join(text.split())[:300]


def defined_names(source: str) -> frozenset[str]:
    """Names that a source file defines itself; empty if it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return frozenset(found)


def one_line(text: str) -> str:
    """The text on one line, at most 500 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _MESSAGE_CHARS else flat[: _MESSAGE_CHARS - 1] + "…"


def signal_name(number: int) -> str:
    """A signal's name, or its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
