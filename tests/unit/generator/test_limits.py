"""How much a provider is asked, in a time of our own."""

import asyncio
import heapq
import random
from datetime import UTC, datetime, timedelta

import pytest
from adaexplore_generator.providers.limits import Limiter, Limits, PromptCount, WaitTooLongError, said_wait_s
from hypothesis import given, settings
from hypothesis import strategies as st

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Time:
    """Time that passes as soon as nobody has anything else to do."""

    def __init__(self):
        self.now = 0.0
        self._sleepers = []
        self._count = 0

    def clock(self):
        return self.now

    async def sleep(self, wait_s):
        self._count += 1
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self.now + wait_s, self._count, woken))
        await woken.wait()

    async def pass_until(self, done):
        """Let time pass until a future is done."""
        while not done.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if not done.done() and self._sleepers:
                at, _, woken = heapq.heappop(self._sleepers)
                self.now = max(self.now, at)
                woken.set()
        return done.result()


async def run(limits, calls, *, longest_wait_s=1e9, used=None):
    """Make all calls at once, each given by its tokens and its length; return when each began, and the limiter."""
    time, began = Time(), []
    limiter = Limiter(limits, time.clock, time.sleep)

    async def call(tokens, length_s):
        async with limiter.slot(tokens, longest_wait_s) as slot:
            began.append((time.now, tokens))
            await time.sleep(length_s)
            if used is not None:
                slot.used(used)

    await time.pass_until(asyncio.gather(*(call(*item) for item in calls)))
    return began, limiter


def busiest_minute(began, weight):
    return max(sum(weight(item) for item in began if start <= item[0] < start + 60) for start, _ in began)


async def test_no_more_calls_at_once_than_allowed():
    began, _ = await run(Limits(concurrency=3), [(1, 10)] * 9)
    assert [at for at, _ in began] == [0] * 3 + [10] * 3 + [20] * 3


def test_a_minute_has_room_for_arrivals_that_are_late():
    began, _ = asyncio.run(run(Limits(concurrency=64, requests_per_minute=100), [(1, 0.3)] * 300))
    late = [(at + (0.9 if number < 64 else 0.0), 1) for number, (at, _) in enumerate(began)]
    assert busiest_minute(late, lambda _: 1) <= 100


async def test_no_minute_has_more_requests_than_allowed_and_all_of_them_are_used():
    began, _ = await run(Limits(requests_per_minute=30), [(1, 0.3)] * 95)
    assert busiest_minute(began, lambda _: 1) == 30
    assert max(at for at, _ in began) == pytest.approx(183)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), st.floats(0.1, 90)), min_size=1, max_size=60), st.integers(1, 20), st.integers(400, 2000))
def test_no_minute_has_more_tokens_than_allowed_wherever_it_begins(calls, requests, tokens):
    began, _ = asyncio.run(run(Limits(8, requests, tokens), calls))
    assert len(began) == len(calls)
    assert busiest_minute(began, lambda _: 1) <= requests
    assert busiest_minute(began, lambda item: item[1]) <= tokens


async def test_a_call_that_took_less_than_it_might_makes_room_at_once():
    began, _ = await run(Limits(tokens_per_minute=1300), [(900, 1)] * 5, used=100)
    assert [at for at, _ in began] == [0, 1, 2, 3, 4]


async def test_a_call_above_the_whole_limit_is_made_once_the_minute_is_empty():
    began, _ = await run(Limits(tokens_per_minute=100), [(60, 1), (500, 1), (60, 1)])
    assert [at for at, _ in began] == [0, 61, 122]


async def test_calls_are_made_in_the_order_they_came():
    began, _ = await run(Limits(concurrency=1), [(number, 1) for number in range(20)])
    assert [tokens for _, tokens in began] == list(range(20))


async def test_the_number_at_once_halves_once_for_all_that_were_told_together_and_grows_back():
    time = Time()
    limiter = Limiter(Limits(concurrency=8), time.clock, time.sleep)
    slots = [limiter.slot(1, 60) for _ in range(8)]
    held = [await slot.__aenter__() for slot in slots]
    for slot in held:
        limiter.slow_down(slot, None)
    assert limiter.concurrency == 4
    for slot in slots:
        await slot.__aexit__(None, None, None)
    for _ in range(10):
        async with limiter.slot(1, 60) as slot:
            limiter.slow_down(slot, None)
    assert limiter.concurrency == 1
    for _ in range(100):
        limiter.went_well()
    assert limiter.concurrency == 8


async def test_everybody_waits_as_long_as_one_was_told():
    time, began = Time(), []
    limiter = Limiter(Limits(), time.clock, time.sleep)

    async def call():
        async with limiter.slot(1, 60) as slot:
            began.append(time.now)
            if len(began) == 1:
                limiter.slow_down(slot, 17)

    await call()
    await time.pass_until(asyncio.gather(*(call() for _ in range(4))))
    assert began == [0, 17, 17, 17, 17]


async def test_a_wait_longer_than_a_caller_waits_is_told_at_once():
    time = Time()
    limiter = Limiter(Limits(), time.clock, time.sleep)
    limiter.leave_alone(61)
    with pytest.raises(WaitTooLongError) as caught:
        async with limiter.slot(1, 60):
            pass
    assert caught.value.wait_s == 61


async def test_one_who_leaves_the_queue_holds_nobody_up():
    time = Time()
    limiter = Limiter(Limits(concurrency=1), time.clock, time.sleep)

    async def call():
        async with limiter.slot(1, 60):
            return time.now

    async with limiter.slot(1, 60):
        leaving, staying = asyncio.create_task(call()), asyncio.create_task(call())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
    assert await time.pass_until(staying) == 0
    assert leaving.cancelled()


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12ms"}, 0.012),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "60s"}, 0),
        ({"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "60"}, 6),
        ({"x-ratelimit-limit-tokens": "300", "x-ratelimit-remaining-tokens": "50", "x-ratelimit-reset-tokens": "50s"}, 10),
        ({"x-ratelimit-limit-tokens": "60", "x-ratelimit-remaining-tokens": "50", "x-ratelimit-reset-tokens": "50s"}, 50),
        ({"x-ratelimit-limit-tokens": "-1", "x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "0"}, 0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, 0),
        (
            {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": (NOW + timedelta(seconds=30)).isoformat()},
            30,
        ),
        ({"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2025-12-31T00:00:00Z"}, 0),
    ],
)
def test_what_a_provider_says_of_its_limits_is_read(headers, wait_s):
    assert said_wait_s(headers, 100, NOW) == pytest.approx(wait_s)


def test_many_bursts_never_overshoot():
    draw = random.Random(1)
    calls = [(draw.randint(1, 50), draw.uniform(0.1, 5)) for _ in range(300)]
    began, _ = asyncio.run(run(Limits(64, 100, 2500), calls))
    assert busiest_minute(began, lambda _: 1) <= 100
    assert busiest_minute(began, lambda item: item[1]) <= 2500


def test_of_a_provider_that_says_nothing_yet_our_own_estimate_is_expected():
    assert PromptCount().expected(40) == 40


@pytest.mark.parametrize(("estimated", "expected"), [(10, 60), (1000, 1050), (5, 30)])
def test_a_prompt_is_expected_to_take_what_the_provider_counted_of_late(estimated, expected):
    counts = PromptCount()
    counts.learn(10, 60)
    assert counts.expected(estimated) == expected


def test_a_provider_that_counts_less_is_not_trusted_to_go_on_so():
    counts = PromptCount()
    counts.learn(100, 70)
    assert counts.expected(100) == 100


def test_what_a_provider_counted_long_ago_is_forgotten():
    counts = PromptCount()
    counts.learn(10, 1000)
    for _ in range(64):
        counts.learn(10, 20)
    assert counts.expected(10) == 20


def test_a_provider_that_counts_more_than_we_estimate_has_no_more_above_its_limit_once_it_has_said_so():
    """Calls under way when a minute is full are the ones that count as expected."""

    async def calls(time, limiter, counts, counted):
        async def call():
            async with limiter.slot(counts.expected(100), 1e9) as slot:
                counted.append((time.now, 150))
                await time.sleep(0.3)
                slot.used(150)
                counts.learn(100, 150)

        await call()
        await asyncio.gather(*(call() for _ in range(300)))

    async def measured():
        time, counted = Time(), []
        limiter = Limiter(Limits(64, tokens_per_minute=15_000), time.clock, time.sleep)
        await time.pass_until(asyncio.ensure_future(calls(time, limiter, PromptCount(), counted)))
        return counted

    assert busiest_minute(asyncio.run(measured()), lambda item: item[1]) <= 15_000
