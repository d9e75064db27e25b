"""Short functions over a database, several of them in one transaction where they come together."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, exc, pool
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.sql import make_durable, transaction, typed

ResultT = TypeVar("ResultT")
_MOST_AT_ONCE = 128


@dataclass(frozen=True)
class _Job:
    work: Callable[[Connection], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Batches:
    """Runs functions, each of which is written as a whole or not at all, and answers when they are on the disk.

    On PostgreSQL each has a transaction of its own. On SQLite, which writes one transaction at a time, a thread takes all that have come
    meanwhile into one: many writers then wait for one flush of the disk, and for no turn of the event loop in between. Where one fails,
    all run again, each behind a savepoint of its own: failures are rare, and a savepoint costs as much as the statements behind it.

    Args:
        engine: Where; a SQLite file waits for other processes as long as this engine does.

    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Return what a function returns, or raise what it raises; it may be called again if its transaction has to be.

        Raises:
            UnavailableError: The store is locked, full, unreadable or gone (STORE_UNAVAILABLE).

        """
        if self._engine.dialect.name != "sqlite":
            async with transaction(self._engine) as connection:
                return await connection.run_sync(work)
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
        engine = create_engine(f"sqlite:///{self._engine.url.database}", poolclass=pool.StaticPool)
        make_durable(engine, int(self._engine.sync_engine.get_execution_options()["busy_timeout_ms"]))
        try:
            while (first := self._jobs.get()) is not None:
                jobs, last = self._others(first)
                self._write(engine, jobs)
                if last:
                    return
        finally:
            engine.dispose()

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

    def _write(self, engine: Engine, jobs: list[_Job]) -> None:
        """Run jobs in one transaction; one that fails leaves nothing of itself and does not disturb the others."""
        try:
            with engine.connect() as connection, connection.begin():
                outcomes = [_Outcome(job.work(connection)) for job in jobs]
        except exc.IntegrityError:
            outcomes = self._apart(engine, jobs)
        except (exc.DBAPIError, OSError) as error:
            outcomes = [_Outcome(error=typed(error, self._engine))] * len(jobs)
        except Exception:
            outcomes = self._apart(engine, jobs)
        for loop in {job.loop for job in jobs}:
            theirs = [(job.answer, outcome) for job, outcome in zip(jobs, outcomes, strict=True) if job.loop is loop]
            with suppress(RuntimeError):  # a loop that has been closed waits for nothing
                loop.call_soon_threadsafe(_answer, theirs)

    def _apart(self, engine: Engine, jobs: list[_Job]) -> list[_Outcome]:
        try:
            with engine.connect() as connection, connection.begin():
                return [_one(connection, job.work) for job in jobs]
        except (exc.DBAPIError, OSError) as error:
            return [_Outcome(error=typed(error, self._engine))] * len(jobs)
        except Exception as error:
            return [_Outcome(error=error)] * len(jobs)


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


def _one(connection: Connection, work: Callable[[Connection], Any]) -> _Outcome:
    savepoint = connection.begin_nested()
    try:
        result = work(connection)
    except exc.DBAPIError as error:
        if not isinstance(error, exc.IntegrityError):
            raise  # the file is full or gone: SQLite may have ended the whole transaction already
        savepoint.rollback()
        return _Outcome(error=error)
    except Exception as error:
        savepoint.rollback()
        return _Outcome(error=error)
    savepoint.commit()
    return _Outcome(result)
