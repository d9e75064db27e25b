"""What every ledger must do: no cap is ever exceeded, and nothing that was spent is forgotten or counted twice."""

from __future__ import annotations

import asyncio
import random

import pytest
from adaexplore_controller.domain import Progress, SearchState, StopReason
from adaexplore_controller.events import StateChanged
from adaexplore_controller.store import Caps, Change, Grant, Purse

CANCELLED = Progress(SearchState.CANCELLED, StopReason.CANCELLED)


async def test_what_was_spent_takes_the_place_of_what_was_reserved(house) -> None:
    await house.start()
    assert await house.ledger.reserve("s1", "r1", 70, Caps(100)) is Grant.GRANTED
    assert await house.ledger.purse("s1") == Purse(reserved=70)
    await house.ledger.settle("s1", "r1", 30, 5)
    assert await house.ledger.purse("s1") == await house.ledger.today() == Purse(30, 5, 0)
    assert await house.ledger.reserve("s1", "r2", 70, Caps(100)) is Grant.GRANTED
    assert await house.ledger.reserve("s1", "r3", 1, Caps(100)) is Grant.WAIT
    await house.ledger.settle("s1", "r2", 70, 0)
    assert await house.ledger.reserve("s1", "r3", 1, Caps(100)) is Grant.SEARCH_SPENT
    assert await house.ledger.reserve("s1", "r3", 0, Caps(100)) is Grant.GRANTED


async def test_to_reserve_or_settle_again_changes_nothing(house) -> None:
    await house.start()
    for _ in range(2):
        assert await house.ledger.reserve("s1", "r1", 70, Caps(100)) is Grant.GRANTED
        assert await house.ledger.purse("s1") == Purse(reserved=70)
    for _ in range(2):
        await house.ledger.settle("s1", "r1", 30, 0)
        assert await house.ledger.purse("s1") == Purse(30)
    assert await house.ledger.reserve("s1", "r1", 70, Caps(100)) is Grant.GRANTED
    assert await house.ledger.purse("s1") == Purse(30)


async def test_a_reservation_can_be_raised_within_the_caps(house) -> None:
    await house.start()
    await house.ledger.reserve("s1", "r1", 50, Caps(100))
    assert await house.ledger.reserve("s1", "r1", 101, Caps(100)) is Grant.WAIT
    assert await house.ledger.purse("s1") == Purse(reserved=50)
    assert await house.ledger.reserve("s1", "r1", 100, Caps(100)) is Grant.GRANTED
    assert await house.ledger.purse("s1") == await house.ledger.today() == Purse(reserved=100)
    await house.ledger.settle("s1", "r1", 90, 40)
    assert await house.ledger.today() == Purse(90, 40)


async def test_what_was_never_reserved_is_noted_all_the_same(house) -> None:
    await house.start()
    await house.ledger.settle("s1", "r1", 30, 10)
    await house.ledger.settle("s1", "free", 0, 0)
    assert await house.ledger.purse("s1") == await house.ledger.today() == Purse(30, 10)


async def test_the_day_is_limited_over_all_searches_and_ends_at_midnight(house) -> None:
    await house.start("s1")
    await house.start("s2")
    caps = Caps(day=100)
    assert await house.ledger.reserve("s1", "a", 80, caps) is Grant.GRANTED
    assert await house.ledger.reserve("s2", "b", 30, caps) is Grant.WAIT
    await house.ledger.settle("s1", "a", 80, 0)
    assert await house.ledger.reserve("s2", "b", 30, caps) is Grant.DAY_SPENT
    assert await house.ledger.reserve("s2", "c", 20, caps) is Grant.GRANTED
    house.clock.advance(86_400)
    assert await house.ledger.today() == Purse()
    assert await house.ledger.reserve("s2", "b", 30, caps) is Grant.GRANTED
    # What was reserved yesterday is spent of yesterday's money.
    await house.ledger.settle("s2", "c", 10, 0)
    assert await house.ledger.today() == Purse(reserved=30)
    assert await house.ledger.purse("s2") == Purse(10, 0, 30)


async def test_what_an_ended_search_had_reserved_counts_as_spent_and_nobody_waits_for_it(house) -> None:
    await house.start("s1")
    await house.start("s2")
    for name, amount in (("a", 40), ("b", 20)):
        await house.ledger.reserve("s1", name, amount, Caps(day=100))
    await house.ledger.settle("s1", "a", 15, 0)
    ended = await house.store.commit("s1", "me", Change(events=(StateChanged(CANCELLED),), progress=CANCELLED))
    assert await house.ledger.purse("s1") == await house.ledger.today() == Purse(35, 20)
    usage = ended.progress.usage
    assert (usage.unconfirmed_calls, usage.unconfirmed_cost_micro_usd, usage.cost_micro_usd) == (1, 20, 20)
    assert await house.ledger.reserve("s2", "c", 66, Caps(day=100)) is Grant.DAY_SPENT
    # It turns out later what the call really cost.
    await house.ledger.settle("s1", "b", 5, 0)
    assert await house.ledger.today() == Purse(20)


async def test_two_controllers_that_reserve_for_one_generation_reserve_once(house, neighbour) -> None:
    await house.start()
    for number in range(10):
        grants = await asyncio.gather(*(one.ledger.reserve("s1", f"r{number}", 10, Caps(1000)) for one in (house, neighbour, house)))
        assert grants == [Grant.GRANTED] * 3
        assert await house.ledger.purse("s1") == Purse(10 * number, 0, 10)
        await asyncio.gather(*(one.ledger.settle("s1", f"r{number}", 10, 0) for one in (house, neighbour)))
    assert await house.ledger.today() == Purse(100)


async def test_a_search_that_ends_while_a_generation_settles_counts_it_once(house, neighbour) -> None:
    for number in range(8):
        search_id = f"s{number}"
        await house.start(search_id)
        await house.ledger.reserve(search_id, f"{search_id}/r", 10, Caps(1000))
        ended = Change(events=(StateChanged(CANCELLED),), progress=CANCELLED)
        await asyncio.gather(house.store.commit(search_id, "me", ended), neighbour.ledger.settle(search_id, f"{search_id}/r", 4, 0))
        assert await house.ledger.purse(search_id) in (Purse(4), Purse(10, 10))
        await house.ledger.settle(search_id, f"{search_id}/r", 4, 0)
    assert await house.ledger.today() == Purse(32)


@pytest.mark.parametrize("seed", range(3))
async def test_no_cap_is_exceeded_however_controllers_race(house, neighbour, seed) -> None:
    draw, caps = random.Random(seed), Caps(search=400, day=600)
    searches = [f"s{number}" for number in range(3)]
    for name in searches:
        await house.start(name)

    async def generation(number: int) -> int:
        one, search = draw.choice((house, neighbour)), draw.choice(searches)
        worst = draw.randint(20, 120)
        if await one.ledger.reserve(search, f"r{number}", worst, caps) is not Grant.GRANTED:
            return 0
        day, purse = await one.ledger.today(), await one.ledger.purse(search)
        assert day.spent + day.reserved <= 600
        assert purse.spent + purse.reserved <= 400
        spent = draw.randint(0, worst)
        if draw.random() < 0.8:
            await one.ledger.settle(search, f"r{number}", spent, 0)
            return spent
        return worst  # its answer never comes

    spent = sum(await asyncio.gather(*(generation(number) for number in range(40))))
    day = await house.ledger.today()
    assert day.spent + day.reserved == spent <= 600
    purses = [await house.ledger.purse(name) for name in searches]
    assert sum(purse.spent + purse.reserved for purse in purses) == spent
