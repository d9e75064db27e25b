"""What a PostgreSQL does to those who use it: waits, refusals, lost connections."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from adaexplore.runtime.errors import InvalidArgumentError, UnavailableError
from adaexplore.runtime.sql import postgres_engine, take_turn, transaction

PATIENT_MS = 60_000


@pytest.fixture
def url(postgres):
    url = postgres.fresh()
    postgres.execute("CREATE TABLE counters (name VARCHAR(4) PRIMARY KEY, n INTEGER); INSERT INTO counters VALUES ('a', 0), ('b', 0)", url)
    return url


@pytest.fixture
async def connect(url):
    engines = []

    def connect(to=url, **settings):
        engines.append(postgres_engine(to, application="tests", **{"lock_timeout_ms": PATIENT_MS} | settings))
        return engines[-1]

    yield connect
    for engine in engines:
        await engine.dispose()


async def ask(engine, statement, **values):
    async with transaction(engine) as connection:
        result = await connection.execute(text(statement), values)
        return result.all() if result.returns_rows else None


async def refused(engine, statement="SELECT 1", kind=UnavailableError, **values):
    with pytest.raises(kind) as caught:
        await ask(engine, statement, **values)
    assert caught.value.reason == ("STORE_UNAVAILABLE" if kind is UnavailableError else "REQUEST_INVALID")
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def kill(engine, pid):
    await ask(engine, "SELECT pg_terminate_backend(:pid)", pid=pid)


async def killed_in_the_middle(engine, other, *statements):
    """A transaction that writes, loses its connection, and goes on with the statements."""
    async with transaction(engine) as connection:
        await connection.execute(text("UPDATE counters SET n = 1"))
        await kill(other, (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())
        for statement in statements:
            await connection.execute(text(statement))


async def test_the_server_knows_the_connection_by_name_and_keeps_its_limits(connect):
    engine = connect(lock_timeout_ms=20_000)
    names = ("application_name", "transaction_isolation", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    (row,) = await ask(engine, f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}")
    assert row == ("tests", "read committed", "20s", "40s", "40s")
    assert await ask(connect(unhurried=True), "SELECT current_setting('statement_timeout')") == [("0",)]


async def test_a_connection_killed_in_the_middle_is_unavailable_and_the_next_call_works(connect):
    engine, other = connect(), connect()
    with pytest.raises(UnavailableError, match="check that the server runs") as caught:
        await killed_in_the_middle(engine, other, "UPDATE counters SET n = 2")
    assert caught.value.reason == "STORE_UNAVAILABLE"
    assert await ask(engine, "SELECT sum(n) FROM counters") == [(0,)]


async def test_a_connection_killed_before_the_commit_commits_nothing(connect):
    engine, other = connect(), connect()
    with pytest.raises(UnavailableError):
        await killed_in_the_middle(engine, other)
    assert await ask(engine, "SELECT sum(n) FROM counters") == [(0,)]


async def test_a_connection_killed_while_it_rests_is_replaced_unnoticed(connect):
    engine, other = connect(pool_size=1), connect()
    ((before,),) = await ask(engine, "SELECT pg_backend_pid()")
    await kill(other, before)
    ((after,),) = await ask(engine, "SELECT pg_backend_pid()")
    assert after != before


async def test_a_call_that_is_cancelled_leaves_no_lock_behind(connect):
    engine, other = connect(pool_size=1), connect()

    async def hold(started):
        async with transaction(engine) as connection:
            await connection.execute(text("UPDATE counters SET n = 1"))
            started.set()
            await connection.execute(text("SELECT pg_sleep(600)"))

    started = asyncio.Event()
    task = asyncio.create_task(hold(started))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ask(other, "UPDATE counters SET n = n + 2")
    assert await ask(engine, "SELECT sum(n) FROM counters") == [(4,)]


async def test_who_waits_too_long_for_a_lock_is_told_so(connect):
    patient, hasty = connect(), connect(lock_timeout_ms=100)
    async with transaction(patient) as connection:
        await connection.execute(text("UPDATE counters SET n = 1"))
        assert "another process holds it" in await refused(hasty, "UPDATE counters SET n = 2")
    await ask(hasty, "UPDATE counters SET n = 2")


async def test_who_waits_too_long_for_a_turn_is_told_so_and_other_turns_are_free(connect):
    patient, hasty = connect(), connect(lock_timeout_ms=100)
    async with transaction(patient) as holder:
        await take_turn(holder, "one")
        with pytest.raises(UnavailableError, match="another process holds it"):
            async with transaction(hasty) as connection:
                await take_turn(connection, "one")
        async with transaction(hasty) as connection:
            await take_turn(connection, "two")
    async with transaction(hasty) as connection:
        await take_turn(connection, "one")


async def test_a_statement_that_takes_too_long_is_ended(connect):
    async def dawdle():
        async with transaction(connect()) as connection:
            await connection.execute(text("SET LOCAL statement_timeout = 50"))
            await connection.execute(text("SELECT pg_sleep(600)"))

    with pytest.raises(UnavailableError, match="the server was too slow"):
        await dawdle()


async def test_a_deadlock_fails_one_of_the_two_as_unavailable_and_the_other_goes_on(connect):
    first, second = connect(), connect()
    met = asyncio.Barrier(2)

    async def cross(engine, one, two):
        async with transaction(engine) as connection:
            await connection.execute(text("UPDATE counters SET n = n + 1 WHERE name = :name"), {"name": one})
            await met.wait()
            await connection.execute(text("UPDATE counters SET n = n + 1 WHERE name = :name"), {"name": two})

    results = await asyncio.gather(cross(first, "a", "b"), cross(second, "b", "a"), return_exceptions=True)
    (error,) = [result for result in results if result is not None]
    assert isinstance(error, UnavailableError)
    assert "other writers were in the way; try again" in str(error)
    assert await ask(first, "SELECT name, n FROM counters ORDER BY name") == [("a", 1), ("b", 1)]


async def test_a_reader_sees_one_instant_and_cannot_write(connect):
    reader, writer = connect(), connect()
    async with transaction(reader, read_only=True) as connection:
        assert (await connection.execute(text("SELECT sum(n) FROM counters"))).scalar_one() == 0
        await ask(writer, "UPDATE counters SET n = 1")
        assert (await connection.execute(text("SELECT sum(n) FROM counters"))).scalar_one() == 0
    with pytest.raises(UnavailableError, match="read-only transaction"):
        async with transaction(reader, read_only=True) as connection:
            await connection.execute(text("UPDATE counters SET n = 3"))
    assert await ask(reader, "UPDATE counters SET n = n + 1 RETURNING n") == [(2,), (2,)]


async def test_a_pool_that_is_in_use_is_waited_for_and_then_unavailable(connect):
    engine = connect(pool_size=1, lock_timeout_ms=100)
    async with transaction(engine):
        assert "--database-pool-size" in await refused(engine)
    assert await ask(engine, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("value", ["\x00", "too long", "\ud800"])
async def test_a_text_that_the_database_cannot_hold_is_the_callers_fault(connect, value):
    message = await refused(connect(), "INSERT INTO counters VALUES (:name, 1)", InvalidArgumentError, name=value)
    assert "cannot hold a value" in message


async def test_a_number_that_the_database_cannot_hold_is_the_callers_fault(connect):
    assert "out of" in await refused(connect(), "SELECT * FROM counters WHERE n = :n", InvalidArgumentError, n=10**30)


async def test_a_broken_constraint_is_left_to_the_caller(connect):
    with pytest.raises(IntegrityError):
        await ask(connect(), "INSERT INTO counters VALUES ('a', 1)")


async def test_tables_that_are_missing_name_the_command_that_makes_them(connect):
    assert "adaexplore db upgrade" in await refused(connect(), "SELECT * FROM searches")


async def test_a_database_that_does_not_exist_is_named(connect, url):
    name = url.partition("?")[0].rpartition("/")[2]
    message = await refused(connect(url.replace(name, "nowhere")))
    assert "cannot use the store nowhere at" in message
    assert "create the database or name another one" in message


async def test_a_server_that_does_not_answer_is_named(connect):
    assert "d at 127.0.0.1:1" in await refused(connect("postgresql://u:hidden@127.0.0.1:1/d"))
    assert "check that the server runs" in await refused(connect("postgresql://u@/d?host=%2Fnowhere"))


async def test_a_wrong_parameter_of_the_url_is_named(connect, url):
    assert "check the parameters in the database URL" in await refused(connect(f"{url}&no_such_parameter=1"))
    assert "sslmode" in await refused(connect(f"{url}&sslmode=perhaps"))
