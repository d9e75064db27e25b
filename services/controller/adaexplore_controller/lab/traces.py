"""Recorded searches as numbers, read from JSON with every field checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adaexplore_controller.tree import ROOT_STEP, Move

_MOVES = {"local": Move.LOCAL, "structural": Move.STRUCTURAL}
_COLUMNS = ("step", "node", "parent", "move", "compiled", "correct", "speedup")


class TraceError(Exception):
    """A trace file cannot be used; the message is one line that says where and why.

    Args:
        reason: TRACE_UNREADABLE or TRACE_INVALID.
        message: What is wrong, where, and what is expected instead.

    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded step: the node it created, its recorded parent (0 is the root) and its outcome; `speedup` is None if unknown."""

    step: int
    node: int
    parent: int
    move: Move
    compiled: bool
    correct: bool
    speedup: float | None


@dataclass(frozen=True, slots=True)
class Trace:
    """One recorded search, its rows in order of steps."""

    problem: str
    rows: tuple[TraceRow, ...]


def read_traces(path: Path) -> tuple[Trace, ...]:
    """Return the searches in a file `{"columns": [name, …], "problems": {name: [[value, …], …]}}`.

    The columns `step, node, parent, move, compiled, correct, speedup` are needed, in any order; others are passed over.

    Raises:
        TraceError: The file cannot be read or its content is malformed.

    """
    document = _load(path)
    if not isinstance(document, dict):
        raise TraceError("TRACE_INVALID", f"{path}: the top level must be an object with `columns` and `problems`")
    columns, problems = document.get("columns"), document.get("problems")
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise TraceError("TRACE_INVALID", f"{path}: `columns` must be a list of names")
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        raise TraceError("TRACE_INVALID", f"{path}: `columns` lacks {', '.join(missing)}")
    if not isinstance(problems, dict) or not problems:
        raise TraceError("TRACE_INVALID", f"{path}: `problems` must be an object with at least one search")
    return tuple(_trace(f"{path}: problem {name!r}", name, rows, columns) for name, rows in problems.items())


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError("TRACE_UNREADABLE", f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TraceError("TRACE_INVALID", f"{path}: not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise TraceError("TRACE_INVALID", f"{path}: not JSON: {str(error) or 'nested too deeply'}") from error


def _trace(where: str, name: str, rows: object, columns: Sequence[str]) -> Trace:
    if not isinstance(rows, list) or not rows:
        raise TraceError("TRACE_INVALID", f"{where}: must be a list with at least one row")
    known, last_step = {ROOT_STEP}, 0
    parsed: list[TraceRow] = []
    for position, values in enumerate(rows, start=1):
        here = f"{where}, row {position}"
        if not isinstance(values, list) or len(values) != len(columns):
            raise TraceError("TRACE_INVALID", f"{here}: must be a list of {len(columns)} values, one a column")
        row = _row(here, dict(zip(columns, values, strict=True)))
        if row.step <= last_step:
            raise TraceError("TRACE_INVALID", f"{here}: `step` must rise from row to row, starting at 1 or later")
        if row.node in known:
            raise TraceError("TRACE_INVALID", f"{here}: `node` {row.node} exists already")
        if row.parent not in known:
            raise TraceError("TRACE_INVALID", f"{here}: `parent` {row.parent} is no earlier node")
        known.add(row.node)
        last_step = row.step
        parsed.append(row)
    return Trace(name, tuple(parsed))


def _row(here: str, values: Mapping[str, object]) -> TraceRow:
    move = values["move"]
    if not isinstance(move, str) or move.lower() not in _MOVES:
        raise TraceError("TRACE_INVALID", f"{here}: `move` must be `local` or `structural`")
    numbers = [_whole(here, name, values[name]) for name in ("step", "node", "parent")]
    flags = [_flag(here, name, values[name]) for name in ("compiled", "correct")]
    return TraceRow(numbers[0], numbers[1], numbers[2], _MOVES[move.lower()], flags[0], flags[1], _speedup(here, values["speedup"]))


def _whole(here: str, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TraceError("TRACE_INVALID", f"{here}: `{name}` must be a whole number of at least 0")
    return value


def _flag(here: str, name: str, value: object) -> bool:
    if value not in (0, 1) or isinstance(value, float):
        raise TraceError("TRACE_INVALID", f"{here}: `{name}` must be 0, 1, true or false")
    return bool(value)


def _speedup(here: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise TraceError("TRACE_INVALID", f"{here}: `speedup` must be a finite number of at least 0, or null")
    return float(value)
