"""Short functions over a database, several of them in one transaction where they come together."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Executable, exc
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.sql import settle, transaction, typed

ResultT = TypeVar("ResultT")
_MOST_AT_ONCE = 128
_NO_VALUES: Mapping[str, Any] = MappingProxyType({})
_DIALECT = sqlite.dialect()


@dataclass(frozen=True, slots=True)
class Done:
    """What a statement did.

    Attributes:
        rows: The rows that it returned.
        count: How many rows it has changed; without meaning for one that changes none.

    """

    rows: Sequence[Sequence[Any]]
    count: int


class Transaction(Protocol):
    """What a function sees of its transaction.

    Attributes:
        dialect: `sqlite` or `postgresql`.

    """

    dialect: str

    def execute(self, statement: Executable, values: Mapping[str, Any] = _NO_VALUES) -> Done:
        """Run a statement with its values by name. One that is made once and run often is compiled once."""
        ...


@dataclass(frozen=True)
class _Job:
    work: Callable[[Transaction], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Batches:
    """Runs functions, each of which is written as a whole or not at all, and answers when they are on the disk.

    On PostgreSQL each has a transaction of its own. On SQLite, which writes one transaction at a time, a thread takes all that have come
    meanwhile into one: many writers then wait for one flush of the disk, and for no turn of the event loop in between. Where one fails,
    all run again, each behind a savepoint of its own: failures are rare, and a savepoint costs as much as the statements behind it.

    The thread uses SQLite's own module: SQLAlchemy makes the statements, but to run one through it takes ten times as long as to run it.

    Args:
        engine: Where; a SQLite file waits for other processes as long as this engine does.

    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._file: _File | None = None

    async def run(self, work: Callable[[Transaction], ResultT]) -> ResultT:
        """Return what a function returns, or raise what it raises; it may be called again if its transaction has to be.

        Raises:
            UnavailableError: The store is locked, full, unreadable or gone (STORE_UNAVAILABLE).

        """
        if self._engine.dialect.name != "sqlite":
            async with transaction(self._engine) as connection:
                return await connection.run_sync(lambda plain: work(_Served(plain)))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="batches", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ResultT] = loop.create_future()
        self._jobs.put(_Job(work, loop, answer))
        # What is under way is written even if nobody waits for it any more: the thread does not ask.
        return await answer

    async def close(self) -> None:
        """Write what has come and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    def _serve(self) -> None:
        try:
            while (first := self._jobs.get()) is not None:
                jobs, last = self._others(first)
                self._write(jobs)
                if last:
                    return
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _others(self, first: _Job) -> tuple[list[_Job], bool]:
        """Return a job with those that wait behind it, and whether no more will come."""
        jobs = [first]
        while len(jobs) < _MOST_AT_ONCE:
            try:
                following = self._jobs.get_nowait()
            except queue.Empty:
                break
            if following is None:
                return jobs, True
            jobs.append(following)
        return jobs, False

    def _write(self, jobs: list[_Job]) -> None:
        """Run jobs in one transaction; one that fails leaves nothing of itself and does not disturb the others."""
        try:
            file = self._opened()
            outcomes = file.whole(lambda: [_Outcome(job.work(file)) for job in jobs])
        except (sqlite3.Error, OSError) as error:
            outcomes = [_Outcome(error=typed(error, self._engine))] * len(jobs)
        except Exception:
            outcomes = self._apart(jobs)
        for loop in {job.loop for job in jobs}:
            theirs = [(job.answer, outcome) for job, outcome in zip(jobs, outcomes, strict=True) if job.loop is loop]
            with suppress(RuntimeError):  # a loop that has been closed waits for nothing
                loop.call_soon_threadsafe(_answer, theirs)

    def _apart(self, jobs: list[_Job]) -> list[_Outcome]:
        try:
            file = self._opened()
            return file.whole(lambda: [file.apart(job.work) for job in jobs])
        except (sqlite3.Error, OSError) as error:
            return [_Outcome(error=typed(error, self._engine))] * len(jobs)
        except Exception as error:
            return [_Outcome(error=error)] * len(jobs)

    def _opened(self) -> _File:
        if self._file is None:
            waits_ms = int(self._engine.sync_engine.get_execution_options()["busy_timeout_ms"])
            self._file = _File(str(self._engine.url.database), waits_ms)
        return self._file


@dataclass(frozen=True)
class _Outcome:
    result: Any = None
    error: Exception | None = None


def _answer(outcomes: list[tuple[asyncio.Future[Any], _Outcome]]) -> None:
    for waiting, outcome in outcomes:
        if waiting.done():
            continue
        if outcome.error is None:
            waiting.set_result(outcome.result)
        else:
            waiting.set_exception(outcome.error)


class _Served:
    """A transaction of PostgreSQL."""

    dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: Executable, values: Mapping[str, Any] = _NO_VALUES) -> Done:
        result = self._connection.execute(statement, values or None)
        return Done(result.fetchall() if result.returns_rows else (), getattr(result, "rowcount", -1))


class _File:
    """A SQLite file, one transaction after the other."""

    dialect = "sqlite"

    def __init__(self, path: str, busy_timeout_ms: int) -> None:
        self._connection = sqlite3.connect(path, timeout=busy_timeout_ms / 1e3)
        settle(self._connection, busy_timeout_ms)

    def execute(self, statement: Executable, values: Mapping[str, Any] = _NO_VALUES) -> Done:
        text, names, given = _compiled(statement)
        try:
            cursor = self._connection.execute(text, [values[name] if name in values else given[name] for name in names])
        except sqlite3.IntegrityError as error:
            raise exc.IntegrityError(text, dict(values), error) from error
        return Done(cursor.fetchall(), cursor.rowcount)

    def whole(self, run: Callable[[], ResultT]) -> ResultT:
        """Return what a function returns whose statements are written together, or not at all if it fails."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = run()
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return result

    def apart(self, work: Callable[[Transaction], Any]) -> _Outcome:
        """Return what became of a function that leaves nothing of itself if it fails."""
        self._connection.execute("SAVEPOINT job")
        try:
            outcome = _Outcome(work(self))
        except sqlite3.Error:
            raise  # the file is full or gone: SQLite may have ended the whole transaction already
        except Exception as error:
            self._connection.execute("ROLLBACK TO job")
            outcome = _Outcome(error=error)
        self._connection.execute("RELEASE job")
        return outcome

    def close(self) -> None:
        self._connection.close()


@lru_cache(maxsize=256)
def _compiled(statement: Any) -> tuple[str, Sequence[str], Mapping[str, Any]]:
    """Return a statement in SQLite's words, the names of its values in order, and those that it holds itself."""
    compiled = statement.compile(dialect=_DIALECT)
    return str(compiled), compiled.positiontup or (), compiled.params
