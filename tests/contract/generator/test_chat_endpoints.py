"""What every endpoint that holds a model must do, and what becomes of each fault."""

import asyncio
import json
from pathlib import Path

import pytest
from adaexplore_generator.domain import FinishReason
from adaexplore_generator.errors import PromptTooLongError
from adaexplore_generator.providers.limits import Limits
from contract.generator.chat_endpoints import FAULTS, KEY, PROMPT, SAMPLING, Recorded, fault_table, subject
from integration.generator.fake_endpoint import endpoint as running_endpoint
from integration.generator.fake_endpoint import falls_silent, status, whole

from adaexplore.runtime.errors import ServiceError

README = Path(__file__).parents[3] / "services" / "generator" / "README.md"
HTTP = ("openai", "gemini", "anthropic")


@pytest.fixture(scope="module")
def fake():
    with running_endpoint() as running:
        yield running


@pytest.fixture(params=(*HTTP, "replay"))
def any_subject(request, fake, tmp_path):
    if request.param == "replay":
        return Recorded(subject("openai", fake), tmp_path / "cassette")
    return subject(request.param, fake)


@pytest.fixture(params=HTTP)
def http_subject(request, fake):
    return subject(request.param, fake)


async def ask(asked, *answers, sampling=SAMPLING, received=lambda _: None, **settings):
    asked.fake.script(*answers)
    endpoint = asked.endpoint(**settings)
    try:
        return await endpoint.complete(PROMPT, sampling, received)
    finally:
        await endpoint.close()


async def test_a_reply_is_its_text_with_finish_model_and_usage(any_subject):
    reply = await ask(any_subject, any_subject.speech.says("It scales."))
    assert (reply.text, reply.finish, reply.refusal, reply.model) == ("It scales.", FinishReason.STOP, "", "fake-1")
    usage = reply.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.calls) == (100, 30, 20, 1)
    assert usage.cache_write_tokens == (7 if any_subject.name == "anthropic" else 0)
    assert (usage.cost_micro_usd, usage.estimated, usage.unconfirmed_calls) == (None, False, 0)
    assert reply.prompt_digest == PROMPT.digest


@pytest.mark.parametrize("text", ["", "é \U0001f600 \u2028 \u0000 \r\n x", "data: [DONE]\n\ndata: x", "x" * 300_000])
async def test_text_comes_as_it_was_sent(any_subject, text):
    heard = []
    reply = await ask(any_subject, any_subject.speech.says(text), received=heard.append)
    assert reply.text == text
    assert sum(heard) == len(text)


async def test_a_reply_at_the_token_limit_says_so(any_subject):
    assert (await ask(any_subject, any_subject.speech.says("half", "length"))).finish is FinishReason.LENGTH


async def test_a_refusal_says_so_and_has_a_usage(any_subject):
    reply = await ask(any_subject, any_subject.speech.refuses("I will not."))
    assert reply.finish is FinishReason.FILTERED
    assert reply.text + reply.refusal == "I will not."
    assert reply.usage.input_tokens == 100


async def test_usage_that_never_came_is_estimated(any_subject):
    usage = (await ask(any_subject, any_subject.speech.says("x" * 10, usage=None))).usage
    sent = sum(len(message.content.encode()) for message in PROMPT.messages)
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (-(-sent // 4), 3, True)


async def test_models_are_listed(any_subject):
    any_subject.fake.script(any_subject.speech.says("fine"))
    endpoint = any_subject.endpoint()
    await endpoint.complete(PROMPT, SAMPLING, lambda _: None)
    models = await endpoint.list_models()
    await endpoint.close()
    assert {model.provider for model in models} == {any_subject.name}
    assert models[0].model == "fake-1"
    assert all(model.free for model in models)


async def test_the_named_model_is_asked_in_the_way_of_its_provider(http_subject):
    await ask(http_subject, http_subject.speech.says("fine"), sampling=SAMPLING.__class__(model="m", temperature=0.5, max_output_tokens=50))
    (_, headers, body) = http_subject.fake.requests[0]
    assert http_subject.fake.paths == [http_subject.speech.path]
    assert (body["model"], body["max_tokens"], body["temperature"], body["stream"]) == ("m", 50, 0.5, True)
    assert "hello, wörld \U0001f600" in json.dumps(body, ensure_ascii=False)
    assert KEY in {headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")}


async def test_a_call_that_is_cancelled_closes_the_stream_at_once(http_subject):
    http_subject.fake.script(falls_silent(http_subject.fake, http_subject.speech), http_subject.speech.says("fine"))
    endpoint = http_subject.endpoint(limits=Limits(concurrency=1))
    call = asyncio.create_task(endpoint.complete(PROMPT, SAMPLING.__class__(model="m"), lambda _: None))
    assert await asyncio.to_thread(http_subject.fake.stalled.wait, 20)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(http_subject.fake.gone.wait, 20)
    assert (await endpoint.complete(PROMPT, SAMPLING.__class__(model="m"), lambda _: None)).text == "fine"  # its place is free again
    await endpoint.close()


async def test_calls_at_once_do_not_mix_and_keep_to_the_limit(http_subject):
    count = 9
    http_subject.fake.script(*(http_subject.speech.says(str(number) * 50) for number in range(count)))
    endpoint = http_subject.endpoint(limits=Limits(concurrency=3), model="m")
    replies = await asyncio.gather(*(endpoint.complete(PROMPT, SAMPLING, lambda _: None) for _ in range(count)))
    await endpoint.close()
    assert sorted(reply.text for reply in replies) == [str(number) * 50 for number in range(count)]
    assert http_subject.fake.most_at_once <= 3


async def test_a_wait_within_our_own_limits_ends_with_the_deadline_and_nothing_was_asked(http_subject):
    http_subject.fake.script(*[http_subject.speech.says("fine")] * 2)
    endpoint = http_subject.endpoint(limits=Limits(requests_per_minute=1), model="m", total_timeout_s=2.0)
    await endpoint.complete(PROMPT, SAMPLING, lambda _: None)
    with pytest.raises(ServiceError, match="within its limits for 2 s") as caught:
        await endpoint.complete(PROMPT, SAMPLING, lambda _: None)
    await endpoint.close()
    assert (caught.value.code.name, caught.value.reason) == ("RESOURCE_EXHAUSTED", "PROVIDER_BUSY")
    assert len(http_subject.fake.prompts) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_every_fault_has_its_outcome(http_subject, fault):
    found = await outcome_of(http_subject, fault)
    assert found == fault.outcome
    assert len(http_subject.fake.prompts) == fault.asked


async def outcome_of(asked, fault):
    try:
        reply = await ask(asked, *fault.answers(asked), model="m", **dict(fault.settings))
    except PromptTooLongError:
        return "prompt too long"
    except ServiceError as error:
        tells_enough = asked.fake.url in error.message and KEY not in str(error)
        return f"{error.code.name}, {error.reason}" if tells_enough else error.message
    assert reply.text + reply.refusal == "fine"
    if reply.usage.estimated:
        return "the reply, unconfirmed"
    assert reply.usage.calls == 1
    return {"STOP": "the reply", "LENGTH": "the reply, as TRUNCATED", "FILTERED": "the reply, as REFUSED"}[reply.finish.name]


def test_the_readme_has_the_table_of_faults_as_it_is_tested():
    assert fault_table() in README.read_text()


async def test_an_endpoint_that_is_not_there_is_unreachable_and_names_itself(http_subject):
    with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:9/v1.*is the server running") as caught:
        await ask(http_subject, base_url="http://127.0.0.1:9/v1", model="m")
    assert (caught.value.code.name, caught.value.reason) == ("UNAVAILABLE", "PROVIDER_UNREACHABLE")


async def test_what_is_wrong_names_the_providers_own_variable_and_protocol(http_subject):
    own = f"ADAEXPLORE_GENERATOR_{http_subject.name.upper()}_API_KEY"
    with pytest.raises(ServiceError, match=own):
        await ask(http_subject, status(401), model="m")
    with pytest.raises(ServiceError, match="Anthropic Messages protocol" if http_subject.name == "anthropic" else "OpenAI chat protocol"):
        await ask(http_subject, whole("<html>", "text/html"), model="m")
    with pytest.raises(ServiceError, match=f"{own} or {http_subject.name.upper()}_API_KEY"):
        await ask(http_subject, base_url="", api_key="")
    assert not http_subject.fake.requests


async def test_an_endpoint_that_is_not_set_up_lists_nothing(http_subject):
    endpoint = http_subject.endpoint(base_url="", api_key="")
    assert await endpoint.list_models() == ()
    await endpoint.close()
