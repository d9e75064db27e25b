import asyncio
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from adaexplore_generator.domain import Message, Prompt, Sampling
from adaexplore_generator.providers.completions import usage_of
from adaexplore_generator.providers.dialect import Dialect
from adaexplore_generator.providers.endpoint import HttpEndpoint, closing
from adaexplore_generator.providers.faults import retry_after_s
from adaexplore_generator.providers.openai import OpenAIApi
from adaexplore_generator.providers.settings import EndpointSettings
from adaexplore_generator.providers.wire import EventDecoder, ProtocolError, error_text
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROMPT = Prompt((Message("system", "be brief"), Message("user", "hello")))


def test_a_wait_is_read_in_seconds_or_as_a_date():
    later = format_datetime(NOW + timedelta(seconds=90), usegmt=True)
    earlier = format_datetime(NOW - timedelta(seconds=90), usegmt=True)
    values = ["17", "1.5", later, earlier, "", "soon", "-3"]
    assert [retry_after_s({"retry-after": value}, NOW) for value in values] == [17.0, 1.5, 90.0, 0.0, None, None, None]


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=20), st.sampled_from([b"\n", b"\r\n"]))
def test_events_are_the_same_however_the_bytes_are_cut(pieces, end):
    data = b"data: one" + end + end + b": comment" + end + b"event: x" + end + b"data:two" + end + b"data: three" + end + end
    decoder, found, rest = EventDecoder(), [], data
    for piece in pieces:
        taken, rest = rest[: len(piece)], rest[len(piece) :]
        found += decoder.feed(taken)
    assert [*found, *decoder.feed(rest), *decoder.end()] == ["one", "two\nthree"]


def test_a_line_without_end_is_given_up():
    decoder = EventDecoder()
    list(decoder.feed(b"x" * (8 << 20)))
    with pytest.raises(ProtocolError, match="longer than"):
        list(decoder.feed(b"x"))


def test_bytes_that_are_not_text_are_a_protocol_error():
    with pytest.raises(ProtocolError, match="UTF-8"):
        list(EventDecoder().feed(b"data: \xff\n\n"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "a\n b"}}, "a b"),
        ({"error": "plain"}, "plain"),
        ({"detail": [{"msg": "x"}]}, "[{'msg': 'x'}]"),
        ({"error": {"code": "bad"}}, "bad"),
        ({"message": "m" * 500}, "m" * 300),
        ({}, ""),
        ({"error": None}, ""),
    ],
)
def test_an_error_is_read_in_every_usual_form(body, text):
    assert error_text(body) == text


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 1}, {"prompt_tokens": "1", "completion_tokens": 2}, {"prompt_tokens": -1, "completion_tokens": 2}]
)
def test_usage_that_cannot_be_read_is_none_rather_than_zero(usage):
    assert usage_of(usage) is None


def test_openai_itself_is_asked_with_its_own_name_of_the_limit():
    sampling = Sampling(max_output_tokens=7, seed=2**40 + 5)
    assert OpenAIApi().first_fields().body("m", PROMPT, sampling)["max_completion_tokens"] == 7
    body = OpenAIApi("http://127.0.0.1:1/v1").first_fields().body("m", PROMPT, sampling)
    assert (body["max_tokens"], body["seed"]) == (7, 5)


def test_a_dialect_runs_out_of_changes_so_that_no_refusal_loops():
    for complaint in ("max_tokens and max_completion_tokens", "temperature", "seed", "unknown field", ""):
        dialect, steps = Dialect(), 0
        while (changed := dialect.after_refusal(complaint)) is not None:
            dialect, steps = changed, steps + 1
        assert 1 <= steps <= 3


def test_a_refusal_that_names_no_field_of_ours_changes_nothing():
    assert Dialect().after_refusal("the moon is in the wrong house") is None


@pytest.mark.parametrize(
    ("url", "ours", "default"),
    [
        ("", True, "gpt-5-mini"),
        ("https://api.openai.com/v1/", True, "gpt-5-mini"),
        ("https://api.openai.com.evil.example/v1", False, ""),
        ("http://127.0.0.1:1", False, ""),
    ],
)
async def test_only_openai_itself_needs_a_key_and_has_a_default_model(url, ours, default):
    api = OpenAIApi(url)
    endpoint = HttpEndpoint(api, EndpointSettings(base_url=url), random.Random(1), lambda: NOW)
    assert api.is_own is ours
    assert endpoint.default_model == default
    await endpoint.close()


async def test_work_that_is_cancelled_twice_still_closes_what_it_opened():
    opened, closed = asyncio.Event(), asyncio.Event()

    async def exchange():
        try:
            opened.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            closed.set()

    call = asyncio.create_task(closing(exchange()))
    await opened.wait()
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(closed.wait(), 20)
