"""A rival for a slow first answer."""

import asyncio
from dataclasses import replace

import pytest
from adaexplore_generator.domain import FinishReason, Message, Prompt, Reply, Sampling, Usage
from adaexplore_generator.pricing import most_tokens
from adaexplore_generator.providers.faults import SafeToRetryError
from adaexplore_generator.providers.hedging import first_to_speak

from adaexplore.runtime.errors import AbortedError, UnavailableError

PROMPT = Prompt((Message("user", "hello"),))
SAMPLING = Sampling(max_output_tokens=50)
USAGE = Usage(10, 0, 5, calls=1, cost_micro_usd=None)
LOST = AbortedError("lost", reason="X")
SAFE = SafeToRetryError(UnavailableError("down", reason="X"))


class Model:
    """Answers each request as its script says: `speaks`, then `ends`, are set by the test."""

    def __init__(self, *scripts):
        self._scripts = list(scripts)
        self.asked, self.closed, self.heard = 0, [], []
        self.both_asked = asyncio.Event()

    async def ask(self, attempt):
        number, script = self.asked, self._scripts[self.asked]
        self.asked += 1
        attempt.sent = True
        if self.asked == 2:
            self.both_asked.set()
        try:
            for step in script:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, int):
                    attempt.heard(step)
                else:
                    await step.wait()
            return Reply(str(number), FinishReason.STOP, "m", USAGE)
        except asyncio.CancelledError:
            self.closed.append(number)
            raise

    async def first(self, hedge_after_s=0.001):
        return await first_to_speak(self.ask, hedge_after_s, PROMPT, SAMPLING, self.heard.append)


def never():
    return asyncio.Event()


async def test_without_hedging_there_is_one_request_however_slow():
    model = Model([7])
    assert (await model.first(0)).usage == USAGE
    assert (model.asked, model.heard) == (1, [7])


async def test_a_first_request_that_speaks_in_time_has_no_rival():
    model = Model([3])
    assert (await model.first(60)).text == "0"
    assert (model.asked, model.heard) == (1, [3])


async def test_the_first_to_speak_wins_and_the_other_is_closed_and_unconfirmed():
    model = Model([never()], [3, 4])
    reply = await model.first()
    assert (reply.text, model.closed, model.heard) == ("1", [0], [3, 4])
    lost = most_tokens(PROMPT) + 50
    assert reply.usage == replace(USAGE, calls=2, unconfirmed_calls=1, unconfirmed_tokens=lost)


async def test_the_first_request_may_still_win():
    model = Model([], [never()])
    model._scripts[0] = [model.both_asked, 5]
    reply = await model.first()
    assert (reply.text, model.closed, model.heard) == ("0", [1], [5])
    assert reply.usage.unconfirmed_calls == 1


async def test_a_rival_that_was_turned_away_costs_nothing():
    model = Model([], [SAFE])
    model._scripts[0] = [model.both_asked, asyncio.Event()]
    call = asyncio.create_task(model.first())
    await model.both_asked.wait()
    model._scripts[0][1].set()
    assert (await call).usage == USAGE


async def test_an_answer_without_text_is_an_answer():
    model = Model([never()], [])
    assert (await model.first()).text == "1"


@pytest.mark.parametrize(("first", "second", "raised"), [(SAFE, LOST, LOST), (LOST, SAFE, LOST), (SAFE, SAFE, SAFE)])
async def test_if_both_fail_the_one_that_may_have_been_paid_for_counts(first, second, raised):
    model = Model([], [second])
    model._scripts[0] = [model.both_asked, first]
    with pytest.raises(type(raised)) as caught:
        await model.first()
    assert caught.value is raised


async def test_a_failure_before_its_time_has_no_rival():
    model = Model([SAFE])
    with pytest.raises(SafeToRetryError):
        await model.first(60)
    assert model.asked == 1


async def test_a_call_that_is_left_closes_both():
    model = Model([never()], [never()])
    call = asyncio.create_task(model.first())
    await model.both_asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert sorted(model.closed) == [0, 1]
