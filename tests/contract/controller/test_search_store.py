"""What every store of searches must do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from adaexplore_controller.domain import (
    Candidate,
    Evaluation,
    Kernel,
    Node,
    Outcome,
    Progress,
    SearchSpec,
    SearchState,
    Selection,
    Skill,
    StepPhase,
    StepState,
    StopReason,
    TaskFacts,
    Usage,
    Verdict,
    Wish,
)
from adaexplore_controller.events import (
    NodeRecorded,
    SkillLearnt,
    SkillRespected,
    StateChanged,
    StepProgress,
    StepStarted,
)
from adaexplore_controller.store import Change, LeaseLostError
from adaexplore_controller.tree import Move
from sqlalchemy.exc import IntegrityError

from adaexplore.runtime.errors import FailedPreconditionError, NotFoundError

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING, PAUSED, CANCELLED, INTERRUPTED = SearchState.RUNNING, SearchState.PAUSED, SearchState.CANCELLED, SearchState.INTERRUPTED
ENDED = Progress(SearchState.SUCCEEDED, StopReason.STEPS, steps=5, end_time=WHEN)


def node(step: int, parent: int, reward: float = 0.4, depth: int = 1) -> Node:
    candidate = Candidate(
        Outcome.KERNEL, Kernel(f"# kernel {step} – ü\n", f"d{step}"), "recipe", "why", ("skills/a",), Usage(1, 2, 3, 4, 5, 6)
    )
    evaluation = Evaluation(b"\x00\xff", Verdict.PASSED, phase="TIMING", kernel_digest=f"d{step}", median_us=1 / 3, speedup=0.1 + 0.2)
    return Node(step, parent, depth, Move.STRUCTURAL, (1,), candidate, evaluation, reward, ("skills/a",), WHEN)


def step_state(phase: StepPhase = StepPhase.PLANNED) -> StepState:
    return StepState(1, phase, Selection(0, Move.STRUCTURAL), skills=(Skill(b"\xfe", "skills/a", "You cannot"),))


async def test_a_search_is_read_back_as_it_was_created(house) -> None:
    spec = SearchSpec(b"\x00\xffspec", seed=2**64 - 1, max_steps=9, max_wall_time_s=1.5, seed_kernels=(Kernel("x = 1"),), memory_off=True)
    created = await house.store.create("s1", spec, "", house.lease())
    assert created == await house.store.get("s1")
    assert (created.spec, created.progress, created.name) == (spec, Progress(), "searches/s1")
    assert (created.create_time, created.facts, created.wish) == (WHEN, None, Wish.NONE)


async def test_the_same_request_id_returns_the_search_it_started(house) -> None:
    await house.start("s1", request_id="r")
    again = await house.store.create("s2", SearchSpec(b"other", 1, 1), "r", house.lease())
    assert again.id == "s1"
    await house.start("s3")
    await house.start("s4")
    assert [search.id for search in await house.store.page(10)] == ["s4", "s3", "s1"]


async def test_a_search_that_does_not_exist_is_a_typed_error(house) -> None:
    for call in (house.store.get("x"), house.store.wish("x", Wish.PAUSE), house.store.resume("x", house.lease())):
        with pytest.raises(NotFoundError) as caught:
            await call
        assert (caught.value.reason, caught.value.resource) == ("SEARCH_NOT_FOUND", "searches/x")


async def test_pages_go_from_the_newest_search_to_the_oldest(house) -> None:
    for index in range(5):
        await house.start(f"s{index}")
    first = await house.store.page(2)
    second = await house.store.page(2, before_number=first[-1].number)
    third = await house.store.page(2, before_number=second[-1].number)
    assert [[search.id for search in page] for page in (first, second, third)] == [["s4", "s3"], ["s2", "s1"], ["s0"]]


async def test_a_change_writes_all_its_parts_and_events_have_no_gaps(house) -> None:
    await house.start()
    facts = TaskFacts(b"facts", True, "digest", triton_version="3.7.1", target="sm_90")
    bodies = (StepStarted(1, 0, Move.STRUCTURAL), StepProgress(1, "generating", "…"))
    await house.store.commit("s1", "me", Change(events=bodies, step=step_state(), facts=facts, spent_s=1.5))
    assert await house.store.steps("s1") == (step_state(),)
    progress = Progress(steps=1, best_step=1, best_speedup=0.1 + 0.2)
    skill = Skill(b"\xff", "skills/a", "You cannot", active=True)
    later = (NodeRecorded(1, best=True), SkillLearnt(skill, 1), SkillRespected("skills/a", "You cannot", 1, by_check=True))
    search = await house.store.commit("s1", "me", Change(events=later, node=node(1, 0), progress=progress, done_step=1, spent_s=0.5))
    assert (search.progress, search.facts, search.spent_s, search.last_sequence) == (progress, facts, 2.0, 6)
    assert await house.store.steps("s1") == ()
    events = await house.history.events("s1", 0, 100)
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event.body for event in events] == [StateChanged(Progress()), *bodies, *later]
    assert [event.sequence for event in await house.history.events("s1", 2, 3)] == [3, 4, 5]


async def test_several_steps_may_be_in_flight_and_an_ended_search_has_none(house) -> None:
    await house.start()
    states = [replace(step_state(), step=step) for step in (2, 1, 3)]
    for state in states:
        await house.store.commit("s1", "me", Change(step=state))
    assert [state.step for state in await house.store.steps("s1")] == [1, 2, 3]
    further = replace(states[0], phase=StepPhase.GENERATED)
    await house.store.commit("s1", "me", Change(step=further, done_step=1))
    assert await house.store.steps("s1") == (further, states[2])
    await house.start("s2")
    await house.store.commit("s1", "me", Change(progress=ENDED))
    assert await house.store.steps("s1") == ()


async def test_a_change_that_fails_leaves_nothing_behind(house) -> None:
    await house.start()
    await house.store.commit("s1", "me", Change(node=node(1, 0)))
    before = await house.store.get("s1")
    with pytest.raises(IntegrityError):
        await house.store.commit("s1", "me", Change(events=(NodeRecorded(1, best=True),), step=step_state(), node=node(1, 0)))
    assert await house.store.get("s1") == before
    assert await house.store.steps("s1") == ()
    assert len(await house.history.events("s1", 0, 100)) == 1


async def test_a_reward_is_backed_up_through_every_ancestor(house) -> None:
    await house.start()
    for recorded in (node(1, 0, 0.4), node(2, 1, 1.0, depth=2), node(3, 0, 0.05)):
        await house.store.commit("s1", "me", Change(node=recorded))
    nodes = await house.history.nodes("s1")
    assert [(n.step, n.visits, pytest.approx(n.reward_sum)) for n in nodes] == [(1, 2, 1.4), (2, 1, 1.0), (3, 1, 0.05)]
    assert nodes[2].evaluation == node(3, 0).evaluation
    assert [n.step for n in await house.history.nodes("s1", after_step=1, limit=1)] == [2]
    assert (await house.history.node("s1", 2)).candidate == node(2, 1).candidate


@pytest.mark.parametrize("step", [0, 4])
async def test_a_node_that_does_not_exist_is_a_typed_error(house, step: int) -> None:
    await house.start()
    with pytest.raises(NotFoundError) as caught:
        await house.history.node("s1", step)
    assert caught.value.reason == "NODE_NOT_FOUND"


async def test_only_the_owner_of_the_lease_can_write(house) -> None:
    await house.start()
    before = await house.store.get("s1")
    with pytest.raises(LeaseLostError):
        await house.store.commit("s1", "other", Change(events=(StepProgress(1, "generating"),)))
    house.clock.advance(11)
    assert await house.store.adopt("s1", house.lease("other"))
    with pytest.raises(LeaseLostError):
        await house.store.commit("s1", "me", Change(spent_s=1))
    assert await house.store.get("s1") == before


async def test_an_expired_lease_can_be_taken_over_once_and_a_live_one_never(house) -> None:
    await house.start()
    assert await house.store.orphans("new") == ()
    assert not await house.store.adopt("s1", house.lease("other"))
    house.clock.advance(10.1)
    assert await house.store.orphans("new") == ("s1",)
    taken = await asyncio.gather(*(house.store.adopt("s1", house.lease(f"other{index}")) for index in range(4)))
    assert sorted(taken) == [False, False, False, True]


async def test_a_lease_of_a_dead_process_is_free_before_it_expires(house) -> None:
    await house.start()
    house.dead.add("me")
    assert await house.store.orphans("new") == ("s1",)
    assert await house.store.adopt("s1", house.lease("other"))


async def test_a_process_known_to_be_alive_may_be_late_to_renew(house) -> None:
    await house.start()
    house.alive.add("me")
    house.clock.advance(40)
    assert not await house.store.adopt("s1", house.lease("other"))
    assert await house.store.adopt("s1", house.lease("me"))
    house.clock.advance(80)
    assert await house.store.orphans("new") == ("s1",)
    assert await house.store.adopt("s1", house.lease("other"))


async def test_renewing_tells_which_searches_are_still_held_and_what_users_wish_of_them(house) -> None:
    await house.start("s1")
    await house.start("s2", owner="other")
    house.clock.advance(8)
    held = await house.store.renew("me", ["s1", "s2"], house.clock().timestamp() + 10)
    assert held == {"s1": Wish.NONE}
    await house.store.wish("s1", Wish.CANCEL)
    assert await house.store.renew("me", ["s1", "s2"], house.clock().timestamp() + 10) == {"s1": Wish.CANCEL}
    house.clock.advance(8)
    assert await house.store.orphans("new") == ("s2",)


async def test_a_released_search_is_free_and_only_its_owner_can_release_it(house) -> None:
    await house.start()
    await house.store.release("other", "s1")
    assert await house.store.orphans("new") == ()
    await house.store.release("me", "s1")
    assert await house.store.orphans("new") == ("s1",)


@pytest.mark.parametrize(("wish", "state"), [(Wish.PAUSE, PAUSED), (Wish.CANCEL, CANCELLED)])
async def test_a_wish_reaches_the_driver_or_is_carried_out_where_nobody_drives(house, wish: Wish, state: SearchState) -> None:
    await house.start()
    assert (await house.store.wish("s1", wish)).progress.state is RUNNING
    assert (await house.store.commit("s1", "me", Change())).wish is wish
    house.clock.advance(11)
    settled = await house.store.wish("s1", wish)
    assert (settled.progress.state, settled.wish) == (state, Wish.NONE)
    assert (settled.progress.end_time is not None) == state.ended
    assert await house.store.wish("s1", wish) == settled
    last = (await house.history.events("s1", 0, 10))[-1]
    assert last.body == StateChanged(settled.progress)


async def test_a_wish_that_is_carried_out_over_its_driver_makes_void_what_that_one_still_writes(house) -> None:
    await house.start()
    await house.store.wish("s1", Wish.CANCEL)
    ended = await house.store.wish("s1", Wish.CANCEL, over_driver=True)
    assert (ended.progress.state, ended.wish) == (CANCELLED, Wish.NONE)
    with pytest.raises(LeaseLostError):
        await house.store.commit("s1", "me", Change(spent_s=1))
    assert await house.store.renew("me", ["s1"], house.clock().timestamp() + 10) == {}
    assert await house.store.get("s1") == ended


async def test_what_has_ended_takes_no_further_wish_and_no_lease(house) -> None:
    await house.start()
    await house.store.commit("s1", "me", Change(events=(StateChanged(ENDED),), progress=ENDED))
    for call in (house.store.wish("s1", Wish.PAUSE), house.store.wish("s1", Wish.CANCEL), house.store.resume("s1", house.lease())):
        with pytest.raises(FailedPreconditionError) as caught:
            await call
        assert caught.value.reason == "SEARCH_ENDED"
    assert not await house.store.adopt("s1", house.lease())
    with pytest.raises(LeaseLostError):
        await house.store.commit("s1", "me", Change(spent_s=1))


async def test_a_cancelled_search_stays_cancelled_whatever_comes_after(house) -> None:
    await house.start()
    await house.store.wish("s1", Wish.CANCEL)
    assert (await house.store.wish("s1", Wish.PAUSE)).wish is Wish.CANCEL
    search, drive = await house.store.resume("s1", house.lease("other"))
    assert (search.wish, drive) == (Wish.CANCEL, False)


async def test_resuming_takes_the_lease_of_a_paused_search_and_clears_a_wish_to_pause(house) -> None:
    await house.start()
    await house.store.wish("s1", Wish.PAUSE)
    search, drive = await house.store.resume("s1", house.lease())
    assert (search.wish, search.progress.state, drive) == (Wish.NONE, RUNNING, False)
    await house.store.commit("s1", "me", Change(progress=Progress(PAUSED)))
    search, drive = await house.store.resume("s1", house.lease("other"))
    assert (search.progress.state, drive) == (RUNNING, True)
    await house.store.commit("s1", "other", Change())


async def test_an_abandoned_search_is_marked_interrupted_and_a_driven_one_is_not(house) -> None:
    await house.start()
    await house.store.interrupt("s1")
    assert (await house.store.get("s1")).progress.state is RUNNING
    house.clock.advance(11)
    await house.store.interrupt("s1")
    assert (await house.store.get("s1")).progress.state is INTERRUPTED
    assert await house.store.orphans("new") == ()
    search, drive = await house.store.resume("s1", house.lease())
    assert (search.progress.state, drive) == (RUNNING, True)


async def test_the_version_changes_with_every_write(house) -> None:
    await house.start()
    versions = [(await house.store.get("s1")).version]
    versions.append((await house.store.commit("s1", "me", Change(spent_s=1))).version)
    versions.append((await house.store.wish("s1", Wish.PAUSE)).version)
    assert versions == sorted(set(versions))


async def test_many_writers_keep_the_sequence_whole(house) -> None:
    await house.start()
    await asyncio.gather(*(house.store.commit("s1", "me", Change(events=(StepProgress(1, "evaluating", str(i)),))) for i in range(20)))
    assert [event.sequence for event in await house.history.events("s1", 0, 100)] == list(range(1, 22))
