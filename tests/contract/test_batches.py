"""Short functions over a database, one or many at a time."""

import asyncio

import pytest
from adaexplore_generator.replies import SCHEMA
from adaexplore_generator.replies.tables import requests
from sqlalchemy import func, insert, select

from adaexplore.runtime.batches import Batches
from adaexplore.runtime.errors import InvalidArgumentError
from adaexplore.runtime.migrations import upgrade


@pytest.fixture
async def batches(place_for):
    engine = place_for(SCHEMA).engine()
    await upgrade(engine, SCHEMA)
    batches = Batches(engine)
    yield batches
    await batches.close()
    await engine.dispose()


def write(name, then=None):
    def work(transaction):
        transaction.execute(insert(requests).values(request_id=name, digest="d", create_time="t"))
        if then:
            raise then
        return name

    return work


def count(transaction):
    return transaction.execute(select(func.count()).select_from(requests)).rows[0][0]


async def test_many_at_once_are_all_written_and_each_gets_its_own_answer(batches):
    names = [f"r{number}" for number in range(300)]
    assert await asyncio.gather(*(batches.run(write(name)) for name in names)) == names
    assert await batches.run(count) == 300


async def test_one_that_fails_leaves_nothing_and_does_not_disturb_the_others(batches):
    refused = InvalidArgumentError("no", reason="REQUEST_INVALID")
    jobs = [write("a"), write("b", refused), write("a"), write("c", ValueError("a defect")), write("d")]
    first, *found = await asyncio.gather(*(batches.run(job) for job in jobs), return_exceptions=True)
    assert [type(item).__name__ for item in (first, *found)].count("IntegrityError") == 1
    assert (found[0], str(found[2]), found[3]) == (refused, "a defect", "d")
    assert await batches.run(count) == 2
