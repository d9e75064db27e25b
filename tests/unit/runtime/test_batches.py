"""Batches over a SQLite file."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from adaexplore.runtime.batches import Batches
from adaexplore.runtime.errors import UnavailableError
from adaexplore.runtime.sql import sqlite_engine, transaction


@pytest.fixture
async def engine(tmp_path):
    engine = sqlite_engine(tmp_path / "x.db", busy_timeout_ms=200)
    async with transaction(engine) as connection:
        await connection.exec_driver_sql("CREATE TABLE t (x INTEGER)")
    yield engine
    await engine.dispose()


@pytest.fixture
async def batches(engine):
    batches = Batches(engine)
    yield batches
    await batches.close()


def add(connection):
    connection.exec_driver_sql("INSERT INTO t VALUES (1)").close()


def count(connection):
    return connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one()


async def test_what_was_begun_is_written_even_if_nobody_waits_for_it(batches):
    waiting = asyncio.create_task(batches.run(add))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await batches.close()
    assert await batches.run(count) == 1


async def test_functions_that_come_together_share_a_transaction(batches):
    seen = []

    def look(connection):
        seen.append(id(connection))

    await asyncio.gather(*(batches.run(look) for _ in range(50)))
    assert len(seen) == 50
    assert len(set(seen)) < 50


async def test_a_locked_file_is_unavailable_to_all_and_works_again_afterwards(batches, tmp_path):
    await batches.run(add)
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = await asyncio.gather(*(batches.run(add) for _ in range(5)), return_exceptions=True)
        other.execute("ROLLBACK")
    assert {type(item) for item in found} == {UnavailableError}
    assert all(item.reason == "STORE_UNAVAILABLE" for item in found)
    await batches.run(add)
    assert await batches.run(count) == 2


async def test_other_writers_of_the_file_wait_their_turn(batches, engine):
    async def through_the_engine():
        async with transaction(engine) as connection:
            await connection.exec_driver_sql("INSERT INTO t VALUES (1)")

    await asyncio.gather(*(work for _ in range(10) for work in (batches.run(add), through_the_engine())))
    assert await batches.run(count) == 20
