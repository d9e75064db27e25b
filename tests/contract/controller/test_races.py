"""Two controllers over one database, as two processes have it."""

from __future__ import annotations

import asyncio

import pytest
from adaexplore_controller.domain import Progress, SearchSpec, SearchState, Wish
from adaexplore_controller.events import StepProgress
from adaexplore_controller.store import Change, LeaseLostError

ROUNDS = 10


async def test_only_one_of_two_controllers_takes_an_expired_lease(house, neighbour) -> None:
    for number in range(ROUNDS):
        search_id = f"s{number}"
        await house.start(search_id)
        house.clock.advance(11)
        contenders = [(one, f"{name}{index}") for name, one in (("a", house), ("b", neighbour)) for index in range(2)]
        taken = await asyncio.gather(*(one.store.adopt(search_id, one.lease(owner)) for one, owner in contenders))
        assert sum(taken) == 1
        wrote = await asyncio.gather(
            *(one.store.commit(search_id, owner, Change(spent_s=1)) for one, owner in contenders), return_exceptions=True
        )
        assert [not isinstance(result, LeaseLostError) for result in wrote] == taken
        assert (await house.store.get(search_id)).spent_s == 1


async def test_a_late_owner_keeps_its_lease_or_loses_it_to_one_other_and_both_know(house, neighbour) -> None:
    for number in range(ROUNDS):
        search_id = f"s{number}"
        await house.start(search_id)
        house.clock.advance(11)
        expire_time = house.clock().timestamp() + 10
        held, taken = await asyncio.gather(
            house.store.renew("me", [search_id], expire_time), neighbour.store.adopt(search_id, neighbour.lease("other"))
        )
        assert (search_id in held) != taken


async def test_two_controllers_that_resume_a_paused_search_do_not_both_drive_it(house, neighbour) -> None:
    for number in range(ROUNDS):
        search_id = f"s{number}"
        await house.start(search_id)
        await house.store.commit(search_id, "me", Change(progress=Progress(SearchState.PAUSED)))
        answers = await asyncio.gather(
            house.store.resume(search_id, house.lease("a")), neighbour.store.resume(search_id, neighbour.lease("b"))
        )
        assert sorted(drive for _, drive in answers) == [False, True]


async def test_a_request_that_reaches_two_controllers_starts_one_search(house, neighbour) -> None:
    for number in range(ROUNDS):
        spec, request_id = SearchSpec(b"spec", 7, 5), f"request {number}"
        started = await asyncio.gather(
            house.store.create(f"a{number}", spec, request_id, house.lease("a")),
            neighbour.store.create(f"b{number}", spec, request_id, neighbour.lease("b")),
        )
        assert started[0].id == started[1].id
    assert len(await house.store.page(100)) == ROUNDS


async def test_a_wish_that_comes_through_another_controller_meets_no_lost_update(house, neighbour) -> None:
    await house.start()
    writes = [house.store.commit("s1", "me", Change(events=(StepProgress(1, "evaluating", str(i)),))) for i in range(20)]
    await asyncio.gather(*writes[:10], neighbour.store.wish("s1", Wish.PAUSE), *writes[10:])
    search = await neighbour.store.get("s1")
    assert (search.wish, search.last_sequence, search.version) == (Wish.PAUSE, 21, 22)
    assert [event.sequence for event in await neighbour.history.events("s1", 0, 100)] == list(range(1, 22))


async def test_a_dead_writer_in_the_middle_of_a_change_leaves_the_search_to_others(house, neighbour) -> None:
    await house.start()

    async def die() -> None:
        async with house.database.transaction() as connection:
            await house.store._hold(connection, "s1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await die()
    house.clock.advance(11)
    assert await neighbour.store.adopt("s1", neighbour.lease("other"))
