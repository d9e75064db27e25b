"""Asynchronous SQL engines, SQLite and PostgreSQL, with transactions that lose nothing and typed errors."""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiosqlite
from sqlalchemy import Connection, Engine, Table, event, exc, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util import await_only

from adaexplore.runtime.errors import InvalidArgumentError, ServiceError, UnavailableError

_TIMEOUT_MS = 15_000
_CONNECT_TIMEOUT_S = 10.0
_WAL_RETRY_S = 0.01
_LEAST_LIMIT_MS = 30_000
# Starts of the SQLSTATEs that come with the end of a connection: lost, or ended by an administrator or by the server's own end.
_LOST = ("08", "57P")
# What the server says, by the start of its SQLSTATE, longest first, and what to do about it.
_REMEDIES = {
    "25006": "it is a replica that cannot be written; name the primary in the database URL",
    "28": "check the user and the password in the database URL",
    "3D": "create the database or name another one in the database URL",
    "40": "other writers were in the way; try again",
    "42501": "grant the database's user its tables and schema",
    "42703": "run `adaexplore db upgrade` with this version",
    "42P07": "another program's table is in the way; give this service a database or a schema of its own",
    "42P01": "run `adaexplore db upgrade` with this version",
    "42": "check the parameters in the database URL",
    "53300": "the server has no connection left; raise its max_connections or lower --database-pool-size",
    "53": "the server is short of disk or memory; make room there",
    "55P03": "another process holds it; try again, or end the transaction that holds it",
    "57014": "the server was too slow; try again, or look at its load",
}


def sqlite_engine(path: Path, *, busy_timeout_ms: int = _TIMEOUT_MS) -> AsyncEngine:
    """Return an engine over one SQLite file, which is created on first use together with its folder.

    Args:
        path: The database file.
        busy_timeout_ms: How long a writer waits for another one, in milliseconds.

    Raises:
        UnavailableError: The folder cannot be made.

    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _sqlite_unavailable(error, path) from error
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", async_creator=lambda: _sqlite_connection(path, busy_timeout_ms / 1e3))
    engine.sync_engine.update_execution_options(busy_timeout_ms=busy_timeout_ms)

    make_durable(engine.sync_engine, busy_timeout_ms)

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        _use_wal(cursor, busy_timeout_ms / 1e3)
        cursor.close()

    return engine


def make_durable(engine: Engine, busy_timeout_ms: int) -> None:
    """Let the connections of an engine over a SQLite file write one after the other and lose nothing that they have committed."""

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        settle(connection, busy_timeout_ms)

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # A deferred transaction that reads and then writes fails at once when another writer came between; an immediate one waits.
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def settle(connection: Any, busy_timeout_ms: int) -> None:
    """Let a connection of a SQLite driver lose nothing that it has committed, and begin transactions only where it is told to."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for setting in ("synchronous=FULL", "foreign_keys=ON", f"busy_timeout={busy_timeout_ms}"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


class _SettledConnection(aiosqlite.Connection):
    """A connection whose operations run to their end even if whoever waits for them is cancelled.

    Otherwise one that is cancelled midway would leave the file locked: its `BEGIN` takes effect after nobody looks at it any more, and a
    connection that is closed with a cursor open keeps its transaction.
    """

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        work = asyncio.ensure_future(super()._execute(fn, *args, **kwargs))  # type: ignore[no-untyped-call]
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not work.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({work})
            if work.exception() is None and isinstance(cursor := work.result(), sqlite3.Cursor):
                self._tx.put_nowait((None, cursor.close))
            raise

    async def close(self) -> None:
        if self._running and self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error, ValueError):
                await self.rollback()
        # Nobody waits for the end of a thread that another has stopped meanwhile: it would not be told.
        if self._running and (ended := self.stop()) is not None:
            await ended


async def _sqlite_connection(path: Path, timeout_s: float) -> aiosqlite.Connection:
    connection = _SettledConnection(lambda: sqlite3.connect(path, timeout=timeout_s), iter_chunk_size=64)
    connection._thread.daemon = True
    return await connection


def _use_wal(cursor: Any, patience_s: float) -> None:
    """Put the file into WAL mode, where it stays; connections that are the first of a new file may be in each other's way.

    SQLite waits for no lock here, whatever the busy timeout: it holds a read lock by then, and two that wait so would wait for ever.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline_s:
                raise
        else:
            return
        await_only(asyncio.sleep(_WAL_RETRY_S))


def postgres_engine(
    url: str, *, application: str, lock_timeout_ms: int = _TIMEOUT_MS, pool_size: int = 5, unhurried: bool = False
) -> AsyncEngine:
    """Return an engine over a PostgreSQL database; transactions are READ COMMITTED.

    No statement and no silence within a transaction may take more than 30 seconds, or twice the lock timeout if that is longer.

    Args:
        url: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, with the parameters that libpq knows, such as `sslmode`.
        application: Name by which the server lists the connections.
        lock_timeout_ms: How long a writer waits for another one, in milliseconds.
        pool_size: Most connections at once; a transaction that finds none waits for `lock_timeout_ms`.
        unhurried: True for migrations, whose statements may take as long as they need.

    Raises:
        ImportError: asyncpg is not installed.

    """
    engine = create_async_engine(
        _shown(url),
        async_creator=_connector(url, application, lock_timeout_ms, unhurried),
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=lock_timeout_ms / 1e3,
    )
    event.listen(engine.sync_engine, "handle_error", _forget_lost)
    return engine


def _connector(url: str, application: str, lock_timeout_ms: int, unhurried: bool) -> Callable[[], Awaitable[Any]]:
    import asyncpg  # noqa: PLC0415 - an extra: SQLite does without it

    limit_ms = max(2 * lock_timeout_ms, _LEAST_LIMIT_MS)
    statement_ms = 0 if unhurried else limit_ms
    timeouts = {"lock_timeout": lock_timeout_ms, "statement_timeout": statement_ms, "idle_in_transaction_session_timeout": limit_ms}
    settings = {name: str(value) for name, value in timeouts.items()} | {"application_name": application}
    # The server keeps the limit of a statement; the client's own, a little longer, is for a server that has vanished.
    command_timeout_s = None if unhurried else limit_ms / 1e3 + 5

    async def connect() -> Any:
        # asyncpg reads the URL itself: SQLAlchemy would not understand `sslmode` and its like.
        return await asyncpg.connect(url, timeout=_CONNECT_TIMEOUT_S, command_timeout=command_timeout_s, server_settings=settings)

    return connect


def _forget_lost(context: Any) -> None:
    # SQLAlchemy asks the driver whether the connection is closed; it may not have noticed yet, and the pool must not get it back.
    lost = (getattr(context.original_exception, "sqlstate", None) or "").startswith(_LOST)
    context.is_disconnect = context.is_disconnect or lost or isinstance(context.original_exception, OSError)


def _shown(url: str) -> URL:
    """Return what may be shown of a database's URL: neither user nor password nor parameters."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", ["localhost"])[0]
    return URL.create("postgresql+asyncpg", host=host, database=parts.path.strip("/"))


@asynccontextmanager
async def transaction(engine: AsyncEngine, *, read_only: bool = False) -> AsyncIterator[AsyncConnection]:
    """Open a transaction that commits at the end and rolls back on any error.

    On SQLite transactions are serial. On PostgreSQL each statement sees what was committed before it (READ COMMITTED), so a transaction
    that reads, decides and writes must lock first, by rows or by `take_turn`; a read-only one sees one instant throughout.

    Args:
        engine: Where.
        read_only: True if nothing will be written.

    Raises:
        UnavailableError: The store is locked, full, unreadable or gone, with the reason STORE_UNAVAILABLE.
        InvalidArgumentError: PostgreSQL cannot hold a value: a NUL character, a text or a number that is too long (REQUEST_INVALID).

    """
    try:
        async with engine.connect() as connection:
            if read_only and connection.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            async with connection.begin():
                yield connection
    except exc.IntegrityError:
        raise
    except (exc.DBAPIError, exc.TimeoutError, OSError) as error:
        raise typed(error, engine) from error


async def take_turn(connection: AsyncConnection, name: str) -> None:
    """Wait until no other transaction has taken this turn; it is held until this one ends. On SQLite every transaction has its turn."""
    if connection.dialect.name == "postgresql":
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        await connection.execute(select(func.pg_advisory_xact_lock(key)))


def insert_or(connection: AsyncConnection | Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT of the connection's dialect, which knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def place_of(engine: AsyncEngine) -> str:
    """Return where a store is, for messages, without credentials."""
    url = engine.url
    return str(url.database) if engine.dialect.name == "sqlite" else f"{url.database} at {url.host}"


def typed(error: exc.DBAPIError | exc.TimeoutError | sqlite3.Error | OSError, engine: AsyncEngine) -> ServiceError:
    """Return what an error of a database means for who called: UNAVAILABLE with what to do about it, or a value that cannot be held."""
    if engine.dialect.name == "sqlite":
        return _sqlite_unavailable(error, place_of(engine))
    state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
    # SQLAlchemy puts the class before the driver's own words.
    said = re.sub(r"^<class '[^']*'>: ", "", " ".join(str(getattr(error, "orig", None) or error).split())) or type(error).__name__
    if state.startswith(("22", "54")):
        return InvalidArgumentError(f"the database cannot hold a value of this request: {said}", reason="REQUEST_INVALID")
    if isinstance(error, exc.TimeoutError):
        state, said = "53300", "no connection became free in time"
    remedy = next((_REMEDIES[state[:length]] for length in (5, 2) if state[:length] in _REMEDIES), "check that the server runs and answers")
    return _unavailable(place_of(engine), said, remedy)


def _sqlite_unavailable(error: BaseException, path: object) -> UnavailableError:
    text = str(getattr(error, "orig", None) or error)
    remedy = "check that the folder exists, is writable and has space"
    if "locked" in text or isinstance(error, exc.TimeoutError):
        remedy = "another process holds it; stop that process or choose another --state-dir"
    elif "full" in text or "No space" in text:
        remedy = "free some disk space or choose another --state-dir"
    elif "not a database" in text or "malformed" in text:
        remedy = "the file is damaged or not ours; restore it or choose another --state-dir"
    return _unavailable(path, text, remedy)


def _unavailable(place: object, said: str, remedy: str) -> UnavailableError:
    return UnavailableError(f"cannot use the store {place}: {said}; {remedy}", reason="STORE_UNAVAILABLE", retry_after_s=1.0)
