"""One database and the order in which this process uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from adaexplore.runtime.migrations import prepare
from adaexplore.runtime.sql import transaction
from adaexplore_controller.store import tables


class Database:
    """Transactions over an engine; on SQLite one at a time.

    SQLite lets waiting writers starve each other; in line within the process, each waits for other processes only.

    Args:
        engine: An asynchronous engine; `open` prepares the tables.

    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._turn: AbstractAsyncContextManager[None] = asyncio.Lock() if engine.dialect.name == "sqlite" else nullcontext()

    async def open(self) -> None:
        """Prepare the tables.

        Raises:
            UnavailableError: The database cannot be used (STORE_UNAVAILABLE).
            SchemaOutdatedError: A PostgreSQL database has not been migrated; the message names the command.

        """
        await prepare(self._engine, tables.SCHEMA)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that commits at the end and rolls back on any error; UnavailableError if the database cannot be used."""
        async with self._turn, transaction(self._engine) as connection:
            yield connection
