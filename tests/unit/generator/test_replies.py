"""A file of replies that cannot be used, and what that means for who paid."""

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import stamina
import structlog.testing
from adaexplore_generator.digests import request_digest
from adaexplore_generator.domain import FinishReason, JudgeRequest, Message, Prompt, Reply, Sampling, Usage
from adaexplore_generator.paid import CostLimitError, PaidCalls
from adaexplore_generator.pricing import Price, Prices, PriceTable
from adaexplore_generator.replies import Paid, ReplyStore
from sqlalchemy import text

from adaexplore.runtime.errors import AbortedError, FailedPreconditionError, InvalidArgumentError, UnavailableError
from adaexplore.runtime.sql import sqlite_engine

REPLY = Reply("text", FinishReason.STOP, "model", Usage(1, 2, 3, 4, 1, None, True), "no", "abc")
USED = Usage(100, 50, 20, calls=1, cost_micro_usd=None)
# One micro-USD a token of input, half of it if cached, two a token of output.
PRICES = Prices(
    [
        PriceTable(
            date="2026-01-01",
            source="test",
            models=(Price(provider="fake", model="model", input=1_000_000, cached=500_000, output=2_000_000),),
        )
    ]
)
REQUEST = JudgeRequest("a", "rule", (), Sampling(max_output_tokens=1000))
DIGEST = request_digest(REQUEST)


def now():
    return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine(tmp_path):
    return sqlite_engine(tmp_path / "replies.db", busy_timeout_ms=100)


@pytest.fixture
async def store(engine):
    store = ReplyStore(engine, now)
    yield store
    await store.close()


async def fill(store):
    await store._batches.run(lambda transaction: transaction.execute(text("PRAGMA max_page_count = 1")) and None)


class Endpoint:
    """Answers, after something has happened."""

    name, host, default_model, attempts_that_may_be_paid = "fake", "localhost", "model", 1

    def __init__(self, happens, text="ours", usage=USED):
        self._happens, self._text, self._usage = happens, text, usage

    async def complete(self, prompt, sampling, received, name):
        await self._happens()
        return Reply(self._text, FinishReason.STOP, "model", self._usage)


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=2):
        yield


async def nothing():
    pass


def session(store, endpoint, limit=None, prices=PRICES):
    request = replace(REQUEST, max_cost_micro_usd=limit)
    return PaidCalls(endpoint, store, prices).session(request, lambda progress: None)


async def keep(store, digest, reply):
    await store.begin("a", reply.text[:32], Usage())
    return await store.keep("a", digest, 0, reply, reply.text[:32])


def prompt(budgets):
    return Prompt((Message("user", "hello"),))


async def test_a_locked_database_is_unavailable(tmp_path, store):
    await store.claim("a", DIGEST)
    holder = sqlite3.connect(tmp_path / "replies.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UnavailableError, match="another process holds it") as caught:
        await keep(store, DIGEST, REPLY)
    assert caught.value.reason == "STORE_UNAVAILABLE"
    holder.rollback()
    holder.close()
    await keep(store, DIGEST, REPLY)


async def test_a_full_disk_is_unavailable(store):
    await store.claim("a", DIGEST)
    await fill(store)
    huge = Reply("x" * 1_000_000, FinishReason.STOP, "model", Usage())
    with pytest.raises(UnavailableError, match="free some disk space") as caught:
        await keep(store, DIGEST, huge)
    assert caught.value.reason == "STORE_UNAVAILABLE"


async def test_a_reply_that_was_paid_for_and_cannot_be_stored_is_not_an_error_that_callers_repeat(store):
    async with session(store, Endpoint(lambda: fill(store), "x" * 1_000_000)) as paid:
        with pytest.raises(AbortedError, match="paid for and is lost") as caught:
            await paid.ask("judging", prompt)
    assert caught.value.reason == "STORE_UNAVAILABLE"


async def test_a_reply_is_kept_when_the_database_comes_back(store, engine):
    class Recovering(ReplyStore):
        """Cannot be used at the first attempt."""

        attempts = 0

        async def keep(self, request_id, digest, call, reply, attempt):
            self.attempts += 1
            if self.attempts == 1:
                raise UnavailableError("failing over", reason="STORE_UNAVAILABLE")
            return await super().keep(request_id, digest, call, reply, attempt)

    recovering = Recovering(engine, now)
    async with session(recovering, Endpoint(nothing)) as paid:
        reply = await paid.ask("judging", prompt)
    assert (await store.claim("a", DIGEST), recovering.attempts) == (Paid((reply,)), 2)


async def test_who_pays_second_answers_with_the_reply_that_was_paid_for_first(store):
    async with session(store, Endpoint(lambda: keep(store, DIGEST, REPLY))) as paid:
        assert await paid.ask("judging", prompt) == REPLY
        assert paid.usage == REPLY.usage + replace(USED, cost_micro_usd=115)


async def test_who_pays_for_an_id_that_another_request_was_paid_for_meanwhile_is_told_and_keeps_nothing(store):
    async with session(store, Endpoint(lambda: keep(store, "another", REPLY))) as paid:
        with pytest.raises(InvalidArgumentError, match="choose a new id") as caught:
            await paid.ask("judging", prompt)
    assert caught.value.reason == "REQUEST_INVALID"
    assert (await store.claim("a", "another")).replies == (REPLY,)


async def test_a_file_that_is_no_database_is_unavailable(tmp_path):
    path = tmp_path / "damaged.db"
    path.write_text("this is not a database, not at all, not even a little bit of one" * 20)
    store = ReplyStore(sqlite_engine(path), now)
    with pytest.raises(UnavailableError, match="damaged or not ours"):
        await store.claim("a", DIGEST)
    await store.close()


async def test_a_call_costs_what_its_own_tokens_cost(store):
    async with session(store, Endpoint(nothing)) as paid:
        await paid.ask("judging", prompt)
        assert paid.usage == replace(USED, cost_micro_usd=50 + 25 + 40)


async def test_without_a_price_tokens_are_counted_and_the_cost_is_unknown(store):
    async with session(store, Endpoint(nothing), prices=Prices([])) as paid:
        await paid.ask("judging", prompt)
        assert paid.usage == USED


async def test_a_call_whose_usage_never_arrived_is_counted_at_its_worst_case(store):
    unreported = replace(USED, estimated=True)
    async with session(store, Endpoint(nothing, usage=unreported)) as paid:
        await paid.ask("judging", prompt)
        most_read = len("hello") + 64 + 64
        assert (paid.usage.calls, paid.usage.unconfirmed_calls, paid.usage.tokens) == (1, 1, 0)
        assert paid.usage.cost_micro_usd == paid.usage.unconfirmed_cost_micro_usd == most_read + 2 * 1000
        assert paid.usage.unconfirmed_tokens == most_read + 1000


async def test_a_call_that_broke_off_is_unconfirmed_and_the_next_one_is_paid_for_as_well(store):
    async def breaks():
        raise AbortedError("broke off", reason="PROVIDER_UNREACHABLE")

    async with session(store, Endpoint(breaks)) as paid:
        with pytest.raises(AbortedError):
            await paid.ask("judging", prompt)
    async with session(store, Endpoint(nothing)) as again:
        await again.ask("judging", prompt)
        assert (again.usage.calls, again.usage.unconfirmed_calls, again.usage.tokens) == (2, 1, 120)
        assert again.usage.cost_micro_usd == 115 + again.usage.unconfirmed_cost_micro_usd
        assert (await store.paid("a")).usage == again.usage


async def test_a_call_that_was_refused_costs_nothing(store):
    async def refuses():
        raise UnavailableError("not there", reason="PROVIDER_UNREACHABLE")

    async with session(store, Endpoint(refuses)) as paid:
        with pytest.raises(UnavailableError):
            await paid.ask("judging", prompt)
    assert await store.paid("a") == Paid()


async def test_a_limit_below_the_worst_case_of_the_first_call_refuses_it_before_anything_is_sent(store):
    async def never():
        raise AssertionError("the endpoint was asked")

    async with session(store, Endpoint(never), limit=2132) as paid:
        with pytest.raises(FailedPreconditionError, match="may cost 2,133 micro-USD and the limit leaves 2,132") as caught:
            await paid.ask("judging", prompt)
    assert caught.value.reason == "COST_ABOVE_LIMIT"
    assert await store.paid("a") == Paid()


async def test_a_limit_stops_a_request_before_the_call_that_might_break_it(store):
    async with session(store, Endpoint(nothing), limit=2133 + 114) as paid:
        await paid.ask("judging", prompt)
        with pytest.raises(CostLimitError, match="limit leaves 2,132"):
            await paid.ask("judging", prompt)


async def test_a_first_call_is_noted_in_the_transaction_that_claims_its_request_and_later_ones_in_their_own(engine):
    class Watched(ReplyStore):
        begun = 0

        async def begin(self, request_id, attempt, worst):
            self.begun += 1
            await super().begin(request_id, attempt, worst)

    async def noted():
        assert (await store.paid("a")).strayed.unconfirmed_calls == 1

    store = Watched(engine, now)
    async with session(store, Endpoint(noted)) as paid:
        await paid.ask("judging", prompt)
        assert store.begun == 0
        await paid.ask("judging", prompt)
        assert store.begun == 1
    await store.close()


async def test_a_limit_cannot_be_kept_without_a_price(store):
    async with session(store, Endpoint(nothing), limit=10**9, prices=Prices([])) as paid:
        with pytest.raises(FailedPreconditionError, match="PRICES_FILE") as caught:
            await paid.ask("judging", prompt)
    assert caught.value.reason == "PRICE_UNKNOWN"


async def test_the_loser_of_a_race_of_two_counts_at_its_worst_case(store):
    class Hedging(Endpoint):
        attempts_that_may_be_paid = 2

    both = replace(USED, calls=2, unconfirmed_calls=1, unconfirmed_tokens=1133)
    async with session(store, Hedging(nothing, usage=both), limit=2 * 2133) as paid:
        await paid.ask("judging", prompt)
        assert (paid.usage.cost_micro_usd, paid.usage.unconfirmed_cost_micro_usd) == (115 + 2133, 2133)


async def test_replies_that_were_paid_for_in_another_manner_are_not_taken_for_ours(store):
    async with session(store, Endpoint(nothing)) as paid:
        await paid.ask("judging", prompt)
    with pytest.raises(InvalidArgumentError):
        async with PaidCalls(Endpoint(nothing), store, PRICES, "other").session(REQUEST, lambda progress: None) as paid:
            await paid.ask("judging", prompt)


@pytest.mark.parametrize("asked", [False, True])
async def test_the_log_has_digests_of_prompts_and_the_prompts_only_if_asked(store, asked):
    with structlog.testing.capture_logs() as lines:
        async with PaidCalls(Endpoint(nothing), store, PRICES, log_prompts=asked).session(REQUEST, lambda progress: None) as paid:
            await paid.ask("judging", prompt)
    assert [line["event"] for line in lines] == ["paid_reply", "prompt_and_reply"][: 1 + asked]
    assert any("hello" in str(line) for line in lines) == asked
