"""What every store of paid replies must do."""

import asyncio
from datetime import UTC, datetime

import pytest
from adaexplore_generator.domain import FinishReason, Reply, Usage
from adaexplore_generator.replies import SCHEMA, Paid, ReplyStore

from adaexplore.runtime.errors import InvalidArgumentError

WORST = Usage(calls=1, cost_micro_usd=70, unconfirmed_calls=1, unconfirmed_tokens=900, unconfirmed_cost_micro_usd=70)
USED = Usage(10, output_tokens=5, calls=1, cost_micro_usd=3)
REPLY = Reply("text \u2028 é \x00", FinishReason.LENGTH, "model", Usage(1, 2, 3, 4, 1, None, True), "no", "abc")


def now():
    return datetime(2026, 1, 1, tzinfo=UTC)


async def pay(store, request_id, digest, call, reply, attempt=None):
    """Buy a reply as a session does: noted before, kept after."""
    attempt = attempt or f"{request_id}.{call}.{reply.text[:12]!r}"[:32]
    await store.begin(request_id, attempt, WORST)
    return await store.keep(request_id, digest, call, reply, attempt)


@pytest.fixture
def place(place_for):
    return place_for(SCHEMA)


@pytest.fixture
async def store(place):
    store = ReplyStore(place.engine(), now)
    yield store
    await store.close()


@pytest.fixture
async def replica(place):
    store = ReplyStore(place.engine(), now)
    yield store
    await store.close()


async def test_replies_come_back_in_order_after_a_restart(place, store):
    await store.claim("a", "digest")
    second = Reply("second", FinishReason.STOP, "model", Usage())
    await pay(store, "a", "digest", 0, REPLY)
    await pay(store, "a", "digest", 1, second)
    again = ReplyStore(place.engine(), now)
    assert await again.claim("a", "digest") == Paid((REPLY, second))
    assert await again.claim("b", "digest") == Paid()
    await again.close()


async def test_an_id_that_was_paid_for_cannot_name_another_request(store):
    await store.claim("a", "digest")
    await pay(store, "a", "digest", 0, REPLY)
    with pytest.raises(InvalidArgumentError) as caught:
        await store.claim("a", "other")
    assert caught.value.reason == "REQUEST_INVALID"
    assert caught.value.violations[0].field == "request_id"
    assert await store.claim("a", "digest") == Paid((REPLY,))


async def test_an_id_that_was_never_paid_for_may_be_bound_anew(store):
    await store.claim("a", "digest")
    assert await store.claim("a", "other") == Paid()
    await pay(store, "a", "other", 0, REPLY)
    with pytest.raises(InvalidArgumentError):
        await store.claim("a", "digest")


async def test_replicas_that_pay_for_the_same_call_keep_one_reply_and_both_answer_with_it(store, replica):
    for number in range(10):
        request_id = f"r{number}"
        await asyncio.gather(store.claim(request_id, "digest"), replica.claim(request_id, "digest"))
        replies = [Reply(f"from {name}", FinishReason.STOP, "model", USED) for name in ("one", "two")]
        kept = await asyncio.gather(pay(store, request_id, "digest", 0, replies[0]), pay(replica, request_id, "digest", 0, replies[1]))
        assert kept[0] == kept[1]
        assert kept[0] in replies
        assert await store.claim(request_id, "digest") == await replica.claim(request_id, "digest")
        assert (await store.paid(request_id)).replies == (kept[0],)


async def test_of_replicas_that_bind_one_id_to_two_requests_the_first_to_pay_has_it(store, replica):
    await store.claim("a", "one")
    await replica.claim("a", "two")
    assert await pay(store, "a", "one", 0, REPLY) == REPLY
    with pytest.raises(InvalidArgumentError) as caught:
        await pay(replica, "a", "two", 0, Reply("of two", FinishReason.STOP, "model", Usage()))
    assert (caught.value.reason, caught.value.violations[0].field) == ("REQUEST_INVALID", "request_id")
    assert await store.claim("a", "one") == Paid((REPLY,), WORST)
    with pytest.raises(InvalidArgumentError):
        await replica.claim("a", "two")


async def test_a_reply_is_never_kept_under_another_requests_id_however_replicas_race(store, replica):
    for number in range(10):
        request_id = f"r{number}"
        replies = {name: Reply(f"to {name}", FinishReason.STOP, "model", Usage()) for name in ("one", "two")}
        await store.claim(request_id, "one")
        race = (replica.claim(request_id, "two"), pay(store, request_id, "one", 0, replies["one"]))
        await asyncio.gather(*race, return_exceptions=True)
        assert await store.claim(request_id, "one") == Paid((replies["one"],))


async def test_a_call_that_brought_no_reply_stays_at_its_worst_case(place, store):
    await store.claim("a", "digest")
    await store.begin("a", "lost", WORST)
    again = ReplyStore(place.engine(), now)
    assert await again.claim("a", "digest") == Paid((), WORST)
    await again.close()
    reply = Reply("second try", FinishReason.STOP, "model", USED)
    await pay(store, "a", "digest", 0, reply)
    assert await store.paid("a") == Paid((reply,), WORST)
    assert (await store.paid("a")).usage == USED + WORST


async def test_the_first_call_is_noted_together_with_the_claim(place, store):
    assert await store.claim("a", "digest", "first", WORST) == Paid()
    assert await store.paid("a") == Paid((), WORST)
    reply = Reply("r", FinishReason.STOP, "model", USED)
    assert await store.keep("a", "digest", 0, reply, "first") == reply
    again = ReplyStore(place.engine(), now)
    assert await again.claim("a", "digest", "second", WORST) == Paid((reply,))
    assert await again.paid("a") == Paid((reply,))
    await again.close()


async def test_a_claim_notes_no_call_where_one_was_begun_before(store):
    await store.claim("a", "digest", "first", WORST)
    assert await store.claim("a", "digest", "second", WORST) == Paid((), WORST)
    assert await store.paid("a") == Paid((), WORST)


async def test_of_replicas_that_claim_one_id_at_once_one_alone_has_noted_its_call(store, replica):
    for number in range(10):
        request_id = f"r{number}"
        claims = (each.claim(request_id, "digest", f"{request_id} {name}", WORST) for name, each in (("one", store), ("two", replica)))
        found = await asyncio.gather(*claims)
        assert sorted(paid.nothing for paid in found) == [False, True]
        assert await store.paid(request_id) == Paid((), WORST)


async def test_a_call_for_which_nothing_was_generated_leaves_no_trace(store):
    await store.claim("a", "digest")
    await store.begin("a", "refused", WORST)
    await store.forget("refused")
    await store.forget("refused")
    assert await store.paid("a") == Paid()


async def test_the_reply_of_a_slower_replica_is_not_kept_but_what_it_cost_is(store, replica):
    await store.claim("a", "digest")
    await store.begin("a", "slow", WORST)
    first, second = (Reply(name, FinishReason.STOP, "model", USED) for name in ("first", "second"))
    assert await pay(replica, "a", "digest", 0, first) == first
    assert await store.keep("a", "digest", 0, second, "slow") == first
    assert await store.paid("a") == Paid((first,), USED)


async def test_a_reply_that_is_kept_twice_counts_once(store):
    await store.claim("a", "digest")
    reply = Reply("r", FinishReason.STOP, "model", USED)
    assert await pay(store, "a", "digest", 0, reply, "one") == reply
    assert await store.keep("a", "digest", 0, reply, "one") == reply
    assert await store.paid("a") == Paid((reply,))
