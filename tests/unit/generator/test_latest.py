"""Which progress of a generation its caller is told."""

import asyncio

from adaexplore_generator.domain import Progress
from adaexplore_generator.servicer import _Latest


async def test_a_new_stage_is_told_at_once():
    latest = _Latest()
    latest.put(Progress("proposing"))
    assert await asyncio.wait_for(latest.take(), 20) == Progress("proposing")
    latest.put(Progress("editing", 5))
    assert await asyncio.wait_for(latest.take(), 20) == Progress("editing", 5)


async def test_of_pieces_that_come_together_the_newest_state_alone_is_told():
    latest = _Latest()
    latest.put(Progress("proposing"))
    await latest.take()
    for chars in range(1, 100):
        latest.put(Progress("proposing", chars))
    assert await asyncio.wait_for(latest.take(), 20) == Progress("proposing", 99)


async def test_what_comes_after_a_pause_is_told_too():
    latest = _Latest()
    latest.put(Progress("proposing"))
    for chars in (0, 7, 9):
        latest.put(Progress("proposing", chars))
        assert await asyncio.wait_for(latest.take(), 20) == Progress("proposing", chars)


async def test_the_end_of_the_work_wakes_who_waits_for_progress():
    latest = _Latest()
    latest.put(Progress("proposing"))
    await latest.take()
    latest.put(Progress("proposing", 3))
    latest.wake()
    assert await asyncio.wait_for(latest.take(), 20) == Progress("proposing", 3)
    latest.wake()
    assert await asyncio.wait_for(latest.take(), 20) is None
