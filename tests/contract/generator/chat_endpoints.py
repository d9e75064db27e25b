"""The chat endpoints under contract, and what breaks at them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from adaexplore_generator.domain import Message, Prompt, Sampling
from adaexplore_generator.providers.anthropic import AnthropicApi
from adaexplore_generator.providers.cassette import CassetteWriter
from adaexplore_generator.providers.endpoint import HttpEndpoint
from adaexplore_generator.providers.gemini import GeminiApi
from adaexplore_generator.providers.openai import OpenAIApi
from adaexplore_generator.providers.replay import RecordingEndpoint, ReplayEndpoint
from adaexplore_generator.providers.settings import EndpointSettings
from integration.generator import fake_endpoint as fake_answers

PROMPT = Prompt((Message("system", "be brief"), Message("user", "hello, wörld \U0001f600")))
SAMPLING = Sampling(temperature=0.5, max_output_tokens=50, seed=7)
KEY = "sk-secret"
APIS = {"openai": OpenAIApi, "gemini": GeminiApi, "anthropic": AnthropicApi}


class NoJitter(random.Random):
    """Waits no longer than it is told to."""

    def uniform(self, a, b):
        return 0.0


def now():
    return datetime.now(UTC)


@dataclass
class Subject:
    """One provider, and the server that it asks."""

    name: str
    fake: fake_answers.Endpoint
    speech: fake_answers.OpenAISpeech | fake_answers.AnthropicSpeech

    def endpoint(self, **settings):
        """Return the endpoint; settings are those of `EndpointSettings`."""
        given = {"base_url": self.fake.url, "api_key": KEY, "attempts": 3, "idle_timeout_s": 30.0} | settings
        return HttpEndpoint(APIS[self.name](given["base_url"]), EndpointSettings(**given), NoJitter(), now)


def subject(name, fake):
    """Return a provider over a fake endpoint."""
    speech = fake_answers.AnthropicSpeech() if name == "anthropic" else fake_answers.OpenAISpeech()
    return Subject(name, fake, speech)


class Recorded:
    """A cassette in place of a model: what is asked was recorded from a real endpoint just before."""

    name = "replay"

    def __init__(self, source, path):
        self._source, self._path = source, path
        self.fake, self.speech = source.fake, source.speech

    def endpoint(self, **settings):
        return _ReplayedLater(self._source.endpoint(**settings), self._path)


class _ReplayedLater:
    def __init__(self, endpoint, path):
        self._endpoint, self._path = endpoint, path
        self.name = "replay"

    async def complete(self, prompt, sampling, received):
        self._path.unlink(missing_ok=True)
        cassette = CassetteWriter(self._path)
        await RecordingEndpoint(self._endpoint, cassette).complete(prompt, sampling, lambda _: None)
        cassette.close()
        return await ReplayEndpoint(self._path).complete(prompt, sampling, received)

    async def list_models(self):
        return await ReplayEndpoint(self._path).list_models()

    async def close(self):
        await self._endpoint.close()


@dataclass(frozen=True)
class Fault:
    """What breaks, and what becomes of the call.

    Attributes:
        name: What breaks, in words.
        answers: What the server answers, in order, for a subject.
        asked: How often it is asked.
        outcome: `the reply`, or what is raised with its reason.
        again: Whether it is asked again, in words.
        settings: Settings of the endpoint that the fault needs.

    """

    name: str
    answers: Callable[[Subject], tuple[Callable[..., None], ...]]
    asked: int
    outcome: str
    again: str = "no"
    settings: tuple[tuple[str, float], ...] = ()


def _then_ok(*faults):
    return lambda to: (*faults, to.speech.says("fine"))


REPLY, BROKE_OFF, NO_PROTOCOL = "the reply", "ABORTED, PROVIDER_UNREACHABLE", "ABORTED, PROVIDER_PROTOCOL"
_status = fake_answers.status
FAULTS = (
    Fault("429 with `Retry-After`", _then_ok(_status(429, {}, retry_after="0.1")), 2, REPLY, "as late as it says; everybody waits"),
    Fault("429 without `Retry-After`", _then_ok(_status(429, {})), 2, REPLY, "with full jitter"),
    Fault("429 at every attempt", lambda to: (_status(429),) * 3, 3, "RESOURCE_EXHAUSTED, PROVIDER_BUSY", "up to `attempts`"),
    Fault(
        "429 with a longer `Retry-After` than is waited for",
        lambda to: (_status(429, {}, retry_after="900"),),
        1,
        "RESOURCE_EXHAUSTED, PROVIDER_BUSY",
        "by nobody until then",
    ),
    Fault("no credit", lambda to: (to.speech.no_credit,), 1, "FAILED_PRECONDITION, PROVIDER_REFUSED_REQUEST"),
    Fault("key refused (401, 403)", lambda to: (_status(401),), 1, "PERMISSION_DENIED, KEY_REFUSED"),
    Fault("model unknown (404)", lambda to: (_status(404),), 1, "NOT_FOUND, MODEL_UNKNOWN"),
    Fault("prompt too long for the model", lambda to: (to.speech.too_long,), 1, "prompt too long", "with a shorter prompt"),
    Fault("a field is refused (400, 422)", lambda to: (to.speech.refused_field, to.speech.says("fine")), 2, REPLY, "without the field"),
    Fault("500", lambda to: (_status(500),), 1, BROKE_OFF),
    Fault("502 or 503", _then_ok(_status(502), _status(503)), 3, REPLY, "with full jitter"),
    Fault("529, overloaded", _then_ok(_status(529)), 2, REPLY, "with full jitter"),
    Fault("reset before an answer", lambda to: (fake_answers.resets_at_once(),), 1, BROKE_OFF),
    Fault("closed before an answer", lambda to: (fake_answers.closes_at_once(),), 1, BROKE_OFF),
    Fault("reset mid-stream", lambda to: (fake_answers.resets_midway(to.speech),), 1, BROKE_OFF),
    Fault("slow drip", lambda to: (to.speech.drips("fine", 0.002),), 1, REPLY),
    Fault("stall", lambda to: (fake_answers.falls_silent(to.fake, to.speech),), 1, BROKE_OFF, settings=(("idle_timeout_s", 1.0),)),
    Fault(
        "longer than the total deadline",
        lambda to: (fake_answers.falls_silent(to.fake, to.speech),),
        1,
        BROKE_OFF,
        settings=(("total_timeout_s", 1.0),),
    ),
    Fault("stream without its end", lambda to: (to.speech.unended,), 1, BROKE_OFF),
    Fault("error inside the stream", lambda to: (to.speech.error_event,), 1, BROKE_OFF),
    Fault("truncated JSON", lambda to: (to.speech.cut_json,), 1, NO_PROTOCOL),
    Fault("bad UTF-8", lambda to: (to.speech.bad_utf8,), 1, NO_PROTOCOL),
    Fault("no choice, no message", lambda to: (to.speech.nothing,), 1, NO_PROTOCOL),
    Fault("redirect", lambda to: (_status(302, location="http://127.0.0.1:1/"),), 1, NO_PROTOCOL),
    Fault("cut at the token limit", lambda to: (to.speech.says("fine", "length"),), 1, "the reply, as TRUNCATED"),
    Fault("refusal", lambda to: (to.speech.refuses("fine"),), 1, "the reply, as REFUSED"),
    Fault("usage that makes no sense", lambda to: (to.speech.wrong_usage("fine"),), 1, "the reply, unconfirmed"),
    Fault("usage missing", lambda to: (to.speech.says("fine", usage=None),), 1, "the reply, unconfirmed"),
)


def fault_table():
    """Return the table of faults and outcomes, as the generator's README has it."""
    rows = [f"| {fault.name} | {fault.again} | {fault.outcome} |" for fault in FAULTS]
    return "\n".join(["| fault | asked again | outcome |", "|---|---|---|", *rows])
