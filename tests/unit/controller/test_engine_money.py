"""Searches whose money is limited."""

from __future__ import annotations

import asyncio

import pytest
from adaexplore_controller.domain import Candidate, Kernel, Outcome, SearchSpec, SearchState, StopReason, Usage
from adaexplore_controller.engine.control import Control
from adaexplore_controller.engine.supervisor import Supervisor, SupervisorSettings
from adaexplore_controller.store import Caps, LeaseHolder, Purse
from unit.controller.fakes import WORST_CALL, World, kernel

from adaexplore.runtime.errors import AbortedError, FailedPreconditionError, PermissionDeniedError, UnavailableError


def priced(world: World, cost: int, steps: int = 40) -> None:
    """Let every generation write a kernel for so many micro-USD."""
    for step in range(1, steps + 1):
        usage = Usage(10, output_tokens=5, calls=1, cost_micro_usd=cost)
        found = Candidate(Outcome.KERNEL, Kernel(f"# {step}", f"d{step}"), usage=usage)
        world.generator.script[f"steps/{step}/attempts/1"] = [found]


async def test_a_search_ends_before_the_generation_that_might_cost_more_than_is_left(world: World) -> None:
    priced(world, 30)
    search = await world.run(max_steps=40, max_cost_micro_usd=500)
    # 14 times 30 leave 80, which is less than the worst case of 100.
    assert (search.progress.state, search.progress.stop_reason, search.progress.steps) == (SearchState.SUCCEEDED, StopReason.COST, 14)
    assert "the search's money is spent" in search.progress.error_message
    assert search.progress.usage.cost_micro_usd == 14 * 30
    assert await world.ledger.purse("s") == Purse(420)
    assert {request.max_cost_micro_usd for request in world.generator.requests} == {100}


async def test_without_a_limit_nothing_is_reserved_and_what_was_spent_is_noted(world: World) -> None:
    priced(world, 30)
    search = await world.run(max_steps=3)
    assert (search.progress.stop_reason, await world.ledger.purse("s")) == (StopReason.STEPS, Purse(90))
    assert {request.max_cost_micro_usd for request in world.generator.requests} == {None}


async def test_a_provider_that_costs_nothing_is_not_limited(world: World) -> None:
    world.generator.worst = 0
    priced(world, 0)
    search = await world.run(max_steps=3, max_cost_micro_usd=0)
    assert (search.progress.stop_reason, await world.ledger.today()) == (StopReason.STEPS, Purse())


async def test_the_days_money_ends_a_search_too(world: World) -> None:
    world.day_cap = 250
    priced(world, 60)
    search = await world.run(max_steps=40)
    assert (search.progress.stop_reason, search.progress.steps) == (StopReason.COST, 3)
    assert "the day's money" in search.progress.error_message


async def test_a_search_waits_for_money_that_others_have_reserved(world: World) -> None:
    world.day_cap = 150
    priced(world, 10)
    await world.database.open()
    await world.start(max_steps=1)
    await world.store.create("other", (await world.store.get("s")).spec, "", world.lease())
    await world.ledger.reserve("other", "elsewhere", 100, Caps(day=150))
    running = asyncio.create_task(world.runner().run("s"))
    while 0.25 not in world.slept_s:  # noqa: ASYNC110 - it is the sleeping that is waited for
        await asyncio.sleep(0.01)
    assert not world.generator.requests
    await world.ledger.settle("other", "elsewhere", 20, 0)
    await running
    assert (await world.store.get("s")).progress.stop_reason is StopReason.STEPS
    assert await world.ledger.today() == Purse(30)


async def test_a_reply_that_was_lost_stays_at_its_worst_case(world: World) -> None:
    priced(world, 30)
    world.generator.script["steps/2/attempts/1"] = [AbortedError("broke off", reason="PROVIDER_UNREACHABLE")]
    search = await world.run(max_steps=3, max_cost_micro_usd=10_000)
    assert await world.ledger.purse("s") == Purse(60 + WORST_CALL, WORST_CALL)
    assert search.progress.usage.unconfirmed_cost_micro_usd == WORST_CALL
    assert search.progress.usage.cost_micro_usd == 60 + WORST_CALL


async def test_calls_of_a_broken_attempt_do_not_starve_the_next_one_of_the_same_request(world: World) -> None:
    limited = Candidate(Outcome.COST_LIMIT, usage=Usage(2, calls=2, cost_micro_usd=70, unconfirmed_calls=1, unconfirmed_cost_micro_usd=60))
    whole = Candidate(
        Outcome.KERNEL, Kernel("# 1", "d"), usage=Usage(9, calls=3, cost_micro_usd=110, unconfirmed_calls=1, unconfirmed_cost_micro_usd=60)
    )
    world.generator.script["steps/1/attempts/1"] = [limited, whole]
    search = await world.run(max_steps=1, max_cost_micro_usd=1000)
    assert [request.max_cost_micro_usd for request in world.generator.requests] == [100, 160]
    assert (search.progress.steps, await world.ledger.purse("s")) == (1, Purse(110, 60))


async def test_a_refusal_for_the_cost_of_a_broken_attempt_raises_the_reservation_too(world: World) -> None:
    request_id = "searches/s/steps/1/attempts/1"
    world.generator.broken[request_id] = 1
    world.generator.script["steps/1/attempts/1"] = [FailedPreconditionError("too dear", reason="COST_ABOVE_LIMIT"), kernel("# 1")]
    search = await world.run(max_steps=1, max_cost_micro_usd=1000)
    assert [request.max_cost_micro_usd for request in world.generator.requests] == [100, 100 + WORST_CALL]
    assert search.progress.steps == 1


async def test_a_generation_that_is_refused_gives_its_money_back(world: World) -> None:
    world.generator.script["steps/1/attempts/1"] = [PermissionDeniedError("no", reason="KEY_REFUSED")]
    search = await world.run(max_steps=1, max_cost_micro_usd=1000)
    assert (search.progress.state, await world.ledger.purse("s")) == (SearchState.FAILED, Purse())


async def test_money_whose_use_the_generator_cannot_tell_counts_as_spent_when_the_search_ends(world: World) -> None:
    async def mute(request_id: str) -> Usage:
        raise UnavailableError("gone")

    world.generator.used = mute  # type: ignore[method-assign]
    world.generator.script["steps/1/attempts/1"] = [PermissionDeniedError("no", reason="KEY_REFUSED")]
    search = await world.run(max_steps=1, max_cost_micro_usd=1000)
    assert await world.ledger.purse("s") == Purse(100, 100)
    assert search.progress.usage.unconfirmed_cost_micro_usd == 100


async def test_a_lost_reply_whose_use_nobody_can_tell_is_spent_and_nobody_waits_for_it(world: World) -> None:
    async def mute(request_id: str) -> Usage:
        raise UnavailableError("gone")

    world.generator.used = mute  # type: ignore[method-assign]
    priced(world, 30)
    world.generator.script["steps/1/attempts/1"] = [AbortedError("broke off", reason="PROVIDER_UNREACHABLE")]
    search = await world.run(max_steps=9, max_cost_micro_usd=220)
    # 100 for the lost one and 30 leave 90, which is less than the worst case of 100.
    assert (search.progress.stop_reason, search.progress.steps) == (StopReason.COST, 2)
    assert await world.ledger.purse("s") == Purse(130, 100)
    assert world.slept_s == []


async def test_a_search_that_is_cancelled_in_a_generation_keeps_its_worst_case(world: World) -> None:
    started = asyncio.Event()

    async def endless(*_: object) -> Candidate:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    world.generator.generate = endless  # type: ignore[method-assign]
    await world.database.open()
    control = _control(world)
    await control.start(_spec(max_cost_micro_usd=1000), "")
    await started.wait()
    ended = await control.cancel("new")
    assert ended.progress.usage.unconfirmed_cost_micro_usd == 100
    assert await world.ledger.purse("new") == await world.ledger.today() == Purse(100, 100)


@pytest.mark.parametrize(("cap", "day_cap"), [(1000, None), (None, 1000)])
async def test_a_limited_search_with_a_model_of_unknown_price_is_refused_and_not_stored(
    world: World, cap: int | None, day_cap: int | None
) -> None:
    world.generator.worst, world.day_cap = None, day_cap
    await world.database.open()
    with pytest.raises(FailedPreconditionError, match="PRICES_FILE") as caught:
        await _control(world).start(_spec(max_cost_micro_usd=cap), "r")
    assert caught.value.reason == "PRICE_UNKNOWN"
    assert await world.store.page(10) == ()


async def test_an_unlimited_search_with_a_model_of_unknown_price_counts_tokens_alone(world: World) -> None:
    world.generator.worst = None
    usage = Usage(10, output_tokens=5, calls=1, cost_micro_usd=None)
    world.generator.script["steps/1/attempts/1"] = [Candidate(Outcome.KERNEL, Kernel("# 1", "d"), usage=usage)]
    search = await world.run(max_steps=1)
    assert (search.progress.usage, await world.ledger.purse("s")) == (usage, Purse())


async def test_an_estimate_mixes_the_moves_and_says_how_many_steps_the_money_allows(world: World) -> None:
    found = await world.estimator.estimate(_spec(max_steps=50, max_cost_micro_usd=400))
    assert (found.expected.cost_micro_usd, found.expected.calls, found.worst_case.cost_micro_usd) == (500, 50, 5000)
    assert found.affordable_steps == 31
    assert (await world.estimator.estimate(_spec(max_steps=50, max_cost_micro_usd=99))).affordable_steps == 0
    assert (await world.estimator.estimate(_spec(max_steps=50))).affordable_steps is None


def _control(world: World) -> Control:
    supervisor = Supervisor(world.store, world.runner("one"), LeaseHolder("one"), SupervisorSettings(), world.now, world.sleep)
    return Control(world.store, supervisor, world.estimator, new_id=lambda: "new")


def _spec(**fields: object) -> SearchSpec:
    return SearchSpec(**({"payload": b"spec", "seed": 13, "max_steps": 12, "task_source": "x"} | fields))  # type: ignore[arg-type]
