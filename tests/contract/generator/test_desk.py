"""What every desk of prompts that wait for somebody outside must do."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from adaexplore_generator.domain import Message, Prompt, Sampling
from adaexplore_generator.replies import SCHEMA, Desk, ExternalReply
from adaexplore_generator.replies.desk import GONE_S

from adaexplore.runtime.errors import FailedPreconditionError

PROMPT = Prompt((Message("system", "be brief"), Message("user", "write \u2028 é")))
OTHER = Prompt((Message("user", "something else"),))
SAMPLING = Sampling("external", "m", 0.5, 100, 7)


class Clock:
    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.time

    def advance(self, seconds):
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def place(place_for):
    return place_for(SCHEMA)


@pytest.fixture
async def desk(place, clock):
    desk = Desk(place.engine(), clock)
    yield desk
    await desk.close()


@pytest.fixture
async def replica(place, clock):
    desk = Desk(place.engine(), clock)
    yield desk
    await desk.close()


async def test_a_prompt_is_taken_as_it_was_put_and_its_answer_comes_back(desk, replica):
    await desk.post("a", PROMPT, SAMPLING)
    assert await desk.look("a") is None
    taken = await replica.claim("me", 60)
    assert (taken.prompt, taken.sampling, taken.claims) == (PROMPT, SAMPLING, 1)
    await replica.submit(taken.lease_token, ExternalReply("text \u2028 é", input_tokens=3))
    assert await desk.look("a") == ExternalReply("text \u2028 é", model="me", input_tokens=3)


async def test_the_oldest_prompt_is_taken_first_and_each_by_one_only(desk, replica, clock):
    for name in ("c", "a", "b"):
        await desk.post(name, Prompt((Message("user", name),)), SAMPLING)
        clock.advance(1)
    taken = await asyncio.gather(*(one.claim("w", 60) for one in (desk, replica, desk, replica)))
    assert sorted(item.prompt.messages[0].content for item in taken if item) == ["a", "b", "c"]
    assert taken.count(None) == 1


async def test_a_lease_that_has_run_out_passes_to_another_and_the_first_is_told(desk, clock):
    await desk.post("a", PROMPT, SAMPLING)
    first = await desk.claim("one", 10)
    assert await desk.claim("two", 10) is None
    clock.advance(11)
    await desk.look("a")
    second = await desk.claim("two", 10)
    assert second.claims == 2
    for late in (desk.submit(first.lease_token, ExternalReply("x")), desk.prolong(first.lease_token, 10)):
        with pytest.raises(FailedPreconditionError) as caught:
            await late
        assert caught.value.reason == "LEASE_LOST"
    await desk.submit(second.lease_token, ExternalReply("y"))
    assert (await desk.look("a")).text == "y"


async def test_a_lease_can_be_prolonged_and_a_late_answer_counts_while_nobody_else_has_the_prompt(desk, clock):
    await desk.post("a", PROMPT, SAMPLING)
    taken = await desk.claim("one", 10)
    clock.advance(9)
    longer = await desk.prolong(taken.lease_token, 10)
    assert longer.lease_expire == taken.lease_expire + 9
    clock.advance(60)
    await desk.submit(taken.lease_token, ExternalReply("late"))
    assert (await desk.look("a")).text == "late"


async def test_the_same_answer_again_changes_nothing_and_another_is_refused(desk):
    await desk.post("a", PROMPT, SAMPLING)
    taken = await desk.claim("one", 10)
    for _ in range(2):
        await desk.submit(taken.lease_token, ExternalReply("x"))
    with pytest.raises(FailedPreconditionError, match="is answered"):
        await desk.submit(taken.lease_token, ExternalReply("y"))
    assert await desk.claim("two", 10) is None


async def test_nobody_is_asked_to_answer_a_generation_that_is_gone_until_it_comes_back(desk, clock):
    await desk.post("a", PROMPT, SAMPLING)
    clock.advance(GONE_S + 1)
    assert await desk.claim("one", 10) is None
    await desk.post("a", PROMPT, SAMPLING)
    await desk.look("a")
    assert await desk.claim("one", 10)


async def test_an_answer_that_came_while_the_generator_was_down_is_there_when_it_asks_again(desk, clock):
    await desk.post("a", PROMPT, SAMPLING)
    taken = await desk.claim("one", 600)
    clock.advance(GONE_S + 1)
    await desk.submit(taken.lease_token, ExternalReply("x"))
    await desk.post("a", PROMPT, SAMPLING)
    assert (await desk.look("a")).text == "x"


async def test_another_prompt_under_the_same_name_is_asked_anew(desk):
    await desk.post("a", PROMPT, SAMPLING)
    taken = await desk.claim("one", 10)
    await desk.submit(taken.lease_token, ExternalReply("x"))
    await desk.post("a", OTHER, SAMPLING)
    assert await desk.look("a") is None
    assert (await desk.claim("one", 10)).prompt == OTHER


async def test_what_is_withdrawn_cannot_be_answered(desk):
    await desk.post("a", PROMPT, SAMPLING)
    taken = await desk.claim("one", 10)
    await desk.withdraw("a")
    with pytest.raises(FailedPreconditionError, match="nobody waits"):
        await desk.submit(taken.lease_token, ExternalReply("x"))


async def test_old_answers_do_not_pile_up(desk, clock):
    await desk.post("a", PROMPT, SAMPLING)
    taken = await desk.claim("one", 10)
    await desk.submit(taken.lease_token, ExternalReply("x"))
    clock.advance(90_000)
    await desk.post("b", OTHER, SAMPLING)
    with pytest.raises(FailedPreconditionError):
        await desk.submit(taken.lease_token, ExternalReply("x"))
