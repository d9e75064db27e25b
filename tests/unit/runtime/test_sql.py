import asyncio
import random
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text

from adaexplore.runtime.errors import UnavailableError
from adaexplore.runtime.sql import sqlite_engine, transaction


async def test_sixteen_writers_lose_nothing(tmp_path):
    engine = sqlite_engine(tmp_path / "a" / "store.sqlite")
    async with transaction(engine) as connection:
        await connection.execute(text("CREATE TABLE counter (n INTEGER)"))
        await connection.execute(text("INSERT INTO counter VALUES (0)"))

    async def add():
        async with transaction(engine) as connection:
            n = (await connection.execute(text("SELECT n FROM counter"))).scalar_one()
            await connection.execute(text("UPDATE counter SET n = :n"), {"n": n + 1})

    await asyncio.gather(*(add() for _ in range(16)))
    async with transaction(engine) as connection:
        assert (await connection.execute(text("SELECT n FROM counter"))).scalar_one() == 16
    await engine.dispose()


async def test_the_first_connection_of_a_file_waits_for_one_that_writes_before_it(tmp_path):
    path = tmp_path / "store.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as first:  # as a file that is new: not yet in the mode of our stores
        first.execute("CREATE TABLE t (n INTEGER)")
        first.execute("BEGIN IMMEDIATE")
        first.execute("INSERT INTO t VALUES (1)")
        engine = sqlite_engine(path)

        async def count():
            async with transaction(engine) as connection:
                return (await connection.execute(text("SELECT count(*) FROM t"))).scalar_one()

        waiting = asyncio.create_task(count())
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        first.execute("COMMIT")
        assert await waiting == 1
        await engine.dispose()


async def test_a_locked_store_is_unavailable_and_says_what_to_do(tmp_path):
    holder, other = (sqlite_engine(tmp_path / "store.sqlite", busy_timeout_ms=50) for _ in range(2))
    async with transaction(holder) as connection:
        await connection.execute(text("CREATE TABLE t (n INTEGER)"))
        with pytest.raises(UnavailableError, match="another process holds it") as caught:
            async with transaction(other):
                pass
    assert caught.value.reason == "STORE_UNAVAILABLE"
    await holder.dispose()
    await other.dispose()


async def test_a_file_that_is_no_database_is_unavailable(tmp_path):
    (tmp_path / "store.sqlite").write_text("this is not a database, but long enough to be looked at" * 20)
    engine = sqlite_engine(tmp_path / "store.sqlite")
    with pytest.raises(UnavailableError, match="damaged or not ours"):
        async with transaction(engine):
            pass
    await engine.dispose()


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match=r"choose another --state-dir|is writable"):
        sqlite_engine(tmp_path / "file" / "sub" / "store.sqlite")


@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.parametrize("seed", range(3))
async def test_a_transaction_that_is_cancelled_at_any_moment_leaves_no_lock_behind(tmp_path, cancels, seed):
    draw = random.Random(seed)
    ours, others = (sqlite_engine(tmp_path / "x.db") for _ in range(2))

    async def use(engine):
        async with transaction(engine) as connection:
            await connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS t (x)")
            await connection.exec_driver_sql("INSERT INTO t VALUES (1)")
            return (await connection.exec_driver_sql("SELECT count(*) FROM t")).scalar_one()

    for _ in range(60):
        using = asyncio.create_task(use(ours))
        for _ in range(cancels):
            await asyncio.sleep(draw.uniform(0, 0.004))
            using.cancel()
        await asyncio.gather(using, return_exceptions=True)
        assert await use(others)
    for engine in (ours, others):
        await engine.dispose()
