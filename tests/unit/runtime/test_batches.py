"""Batches over a SQLite file."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest
from sqlalchemy import text

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


def add(transaction):
    transaction.execute(text("INSERT INTO t VALUES (1)"))


def count(transaction):
    return transaction.execute(text("SELECT count(*) FROM t")).rows[0][0]


async def test_what_was_begun_is_written_even_if_nobody_waits_for_it(batches):
    waiting = asyncio.create_task(batches.run(add))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await batches.close()
    assert await batches.run(count) == 1


async def test_functions_that_come_together_share_a_transaction(batches, tmp_path):
    begun, all_there, seen = threading.Event(), threading.Event(), []

    def first(transaction):
        add(transaction)
        begun.set()
        all_there.wait(60)

    def look(transaction):
        add(transaction)
        with closing(sqlite3.connect(tmp_path / "x.db")) as other:
            seen.append(other.execute("SELECT count(*) FROM t").fetchone()[0])

    waiting = [asyncio.create_task(batches.run(first))]
    await asyncio.to_thread(begun.wait, 60)
    waiting += [asyncio.create_task(batches.run(look)) for _ in range(50)]
    await asyncio.sleep(0)
    all_there.set()
    await asyncio.gather(*waiting)
    assert seen == [1] * 50  # others see what the first wrote alone, until all the rest is written
    assert await batches.run(count) == 51


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
