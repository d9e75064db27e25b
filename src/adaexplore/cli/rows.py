"""Work on many items at a time whose results are rows of a file, one JSON object a line: what has a row is not done again."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from adaexplore.cli.failures import CliError, in_flags
from adaexplore.runtime.errors import ServiceError

Row = dict[str, Any]
ItemT = TypeVar("ItemT")
_ATTEMPTS = 3
_REFUSALS = frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION"})


class RowFile:
    """Rows by key in a file of JSON Lines; rows are appended as they come, and one that was broken off is dropped.

    Args:
        path: The file; it is made where it is absent.

    Attributes:
        path: The file.
        rows: The rows by key, the last one of each.

    Raises:
        CliError: It holds something else.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows: dict[str, Row] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole, _, broken = text.rpartition("\n")
        if broken:
            path.write_text(whole + "\n" if whole else "", encoding="utf-8")
        for number, line in enumerate(whole.splitlines(), 1):
            self._keep(line, number)

    def done(self, key: str) -> bool:
        """True if there is a row that is no failure of a service."""
        return key in self.rows and "error" not in self.rows[key]

    def add(self, row: Row) -> None:
        """Append a row, whose `key` tells it from others."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.rows[row["key"]] = row

    def _keep(self, line: str, number: int) -> None:
        try:
            row = json.loads(line)
            self.rows[row["key"]] = row
        except (ValueError, TypeError, KeyError) as error:
            raise CliError(f"{self.path}, line {number}: no row of this command; give another --out") from error


def name_of(row: Row) -> str:
    """Return the name with which a row's key begins; rows of what was refused or got no answer have nothing else of it."""
    return str(row["key"]).rpartition("//")[0]


def outcome(row: Row, answer: str) -> str:
    """Return `answer`, unless the row has none."""
    return "NO_ANSWER" if "error" in row else "REFUSED" if "refused" in row else answer


def print_counts(console: Console, file: Path, what: str, counts: Counter[str]) -> None:
    """Print how many rows have each outcome, the most frequent first, and where the rows are."""
    table = Table("result", what)
    for word, count in counts.most_common():
        table.add_row(word, str(count))
    console.print(table)
    console.print(f"{counts.total()} {what}, rows in {file}", markup=False)


async def fill(
    file: RowFile, items: Sequence[tuple[str, ItemT]], work: Callable[[ItemT], Awaitable[Row]], jobs: int, console: Console
) -> None:
    """Do every item, by its key, that has no row yet; so many at a time.

    What is refused for what it is has a row that says so. A service that is busy or lost is asked again twice; what it says then is the
    row's `error`, and the next run tries that item again.
    """
    todo = [(key, item) for key, item in items if not file.done(key)]
    free = asyncio.Semaphore(jobs)
    finished = len(items) - len(todo)

    async def one(key: str, item: ItemT) -> None:
        nonlocal finished
        async with free:
            start_s = time.monotonic()
            row = await _answered(work, item)
        finished += 1
        file.add({"key": key, **row, "seconds": round(time.monotonic() - start_s, 2)})
        status.update(f"{finished} of {len(items)}")

    with console.status(f"{finished} of {len(items)}") as status:
        async with asyncio.TaskGroup() as group:
            for key, item in todo:
                group.create_task(one(key, item))


async def _answered(work: Callable[[ItemT], Awaitable[Row]], item: ItemT) -> Row:
    for attempt in range(_ATTEMPTS):
        try:
            return await work(item)
        except CliError as error:
            return {"refused": str(error)}
        except ServiceError as error:
            if error.code.name in _REFUSALS:
                return {"refused": in_flags(error.message), "reason": error.reason or error.code.name}
            busy = error.code.name in ("UNAVAILABLE", "RESOURCE_EXHAUSTED") and attempt + 1 < _ATTEMPTS
            if not busy:
                return {"error": error.message, "reason": error.reason or error.code.name}
            await asyncio.sleep(2.0**attempt)
    raise AssertionError("unreachable")
