"""A SQLite file that cannot be used is a typed error with a remedy."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from adaexplore_controller.domain import SearchSpec
from adaexplore_controller.store import Database, Lease, LeaseHolder, SearchStore

from adaexplore.runtime.errors import UnavailableError
from adaexplore.runtime.sql import sqlite_engine


def database_at(path: Path) -> Database:
    return Database(sqlite_engine(path, busy_timeout_ms=50))


def store_in(database: Database) -> SearchStore:
    return SearchStore(database, lambda: datetime(2026, 1, 1, tzinfo=UTC))


async def test_a_locked_database_is_unavailable_with_a_remedy_and_usable_again_later(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    database = database_at(path)
    await database.open()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnavailableError, match="another process holds it") as caught:
            await store_in(database).page(1)
    assert caught.value.reason == "STORE_UNAVAILABLE"
    assert await store_in(database).page(1) == ()
    await database.close()


async def test_a_file_that_is_no_database_is_unavailable_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(b"not a database at all " * 100)
    database = database_at(path)
    with pytest.raises(UnavailableError, match="damaged or not ours"):
        await database.open()
    await database.close()


async def test_a_full_database_is_unavailable_with_a_remedy(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "c.sqlite")
    database = Database(engine)
    await database.open()
    async with engine.begin() as connection:
        pages = (await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()
        await connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 10}")
    with pytest.raises(UnavailableError, match="free some disk space"):
        await store_in(database).create("s", SearchSpec(b"x" * 1_000_000, 1, 1), "", Lease(LeaseHolder("me"), 0.0))
    assert await store_in(database).page(1) == ()
    await database.close()


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnavailableError, match="check that the folder exists"):
        database_at(tmp_path / "file" / "c.sqlite")
