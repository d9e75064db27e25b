"""What all chat endpoints over HTTP have in common: attempts, deadlines, limits, typed faults and bounded bodies."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn, TypeVar

import httpx
import structlog

from adaexplore.runtime.errors import NotFoundError
from adaexplore_generator.domain import ModelInfo, Prompt, Reply, Sampling
from adaexplore_generator.providers.chat_api import ChatApi, Fields, ModelPage, ReplyReader
from adaexplore_generator.providers.connections import Answer, Connections
from adaexplore_generator.providers.faults import (
    Answered,
    RefusedRequestError,
    SafeToRetryError,
    broke_off,
    busy,
    kept_waiting,
    key_missing,
    not_the_protocol,
    raise_for_status,
    reported,
    unreachable,
)
from adaexplore_generator.providers.hedging import Attempt, first_to_speak
from adaexplore_generator.providers.key import ApiKey
from adaexplore_generator.providers.limits import Limiter, PromptCount, Slot, WaitTooLongError, said_wait_s
from adaexplore_generator.providers.settings import EndpointSettings, host_of, is_loopback
from adaexplore_generator.providers.wire import (
    BrokenOffError,
    EventDecoder,
    ProtocolError,
    ReportedError,
    error_code,
    error_text,
    estimated_tokens,
    parse_error,
    parse_object,
)
from adaexplore_generator.repeating import repeating

ResultT = TypeVar("ResultT")
_MAX_BODY_BYTES = 8 << 20
_ERROR_BODY_BYTES = 64 << 10
_MAX_MODEL_PAGES = 20
_BACKOFF_BASE_S, _BACKOFF_CAP_S = 0.5, 20.0
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_SLOW_DOWN = "PROVIDER_BUSY"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SENDS_JSON = {"content-type": "application/json"}


class HttpEndpoint:
    """A chat endpoint; see `ChatEndpoint`.

    Args:
        api: How it is spoken to.
        settings: How it is reached and how patient to be.
        rng: Source of the jitter between attempts.
        now: Returns the present instant.
        clock: Returns seconds that never go back, for the limits.
        sleep: Waits for so many seconds, for the limits.

    Raises:
        CredentialError: The file of the key cannot be used.

    """

    def __init__(
        self,
        api: ChatApi,
        settings: EndpointSettings,
        rng: random.Random,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._settings, self._rng, self._now = api, settings, rng, now
        self._url, self._host = api.chat_url, host_of(api.base_url)
        self._fields: dict[str, Fields] = {}
        self._key = ApiKey(settings.api_key, settings.api_key_file)
        self._connections = Connections(api.base_url, settings)
        self._limiter = Limiter(settings.limits, clock, sleep)
        self._counted = PromptCount()

    @property
    def name(self) -> str:
        """Name of the provider."""
        return self._api.vendor.name

    @property
    def host(self) -> str:
        """Host of the base URL."""
        return self._host

    @property
    def default_model(self) -> str:
        """Model for requests that name none; empty if it is the first that the endpoint lists."""
        return self._settings.model or (self._api.vendor.model if self._api.is_own else "")

    @property
    def attempts_that_may_be_paid(self) -> int:
        """Two if a second request may be sent where the first is slow, else one."""
        return 2 if self._settings.hedge_after_s else 1

    async def complete(self, prompt: Prompt, sampling: Sampling, received: Callable[[int], None], name: str = "") -> Reply:
        """Answer a prompt, repeating only attempts for which nothing can have been generated."""
        self._require_key()
        wished = replace(sampling, reasoning_effort=sampling.reasoning_effort or self._settings.reasoning_effort)
        attempts: list[Attempt] = []
        try:
            async with asyncio.timeout(self._settings.total_timeout_s):
                return await self._retrying(lambda: self._answer(prompt, wished, received, attempts))
        except TimeoutError as error:
            if not any(attempt.sent for attempt in attempts):
                raise kept_waiting(self._url, self._settings.total_timeout_s) from error
            raise broke_off(self._url, f"it was not done after {self._settings.total_timeout_s:g} s", generating=True) from error

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """List what the endpoint offers, the default model first."""
        if not (self._settings.base_url or self._key.now):
            return ()
        self._require_key()
        names = await self._retrying(self._fetch_models)
        default = self.default_model
        ordered = ([default] if default else []) + [name for name in names if name != default]
        return tuple(ModelInfo(self.name, name, free=is_loopback(self._api.base_url)) for name in ordered)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def _require_key(self) -> None:
        if self._api.is_own and not self._key.now:
            raise key_missing(self._api.vendor, self._api.base_url)

    async def _retrying(self, call: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        backoff = _Backoff(self._rng, self._settings.longest_wait_s)
        try:
            return await repeating(lambda: closing(call()), on=backoff, attempts=self._settings.attempts)
        except SafeToRetryError as fault:
            raise fault.error from fault

    async def _answer(self, prompt: Prompt, sampling: Sampling, received: Callable[[int], None], attempts: list[Attempt]) -> Reply:
        model = sampling.model or self.default_model or (await self._first_model())
        fields = self._fields.get(model) or self._api.first_fields()
        while True:

            async def ask(attempt: Attempt, fields: Fields = fields) -> Reply:
                attempts.append(attempt)
                return await self._within_limits(model, fields.body(model, prompt, sampling), prompt, sampling, attempt)

            try:
                reply = await first_to_speak(ask, self._settings.hedge_after_s, prompt, sampling, received)
            except RefusedRequestError as refusal:
                changed = fields.after_refusal(refusal.complaint) if refusal.adaptable else None
                if changed is None:
                    raise
                structlog.get_logger().info("request_adapted", provider=self.name, model=model, complaint=refusal.complaint)
                fields = changed
                continue
            self._fields[model] = fields
            return reply

    async def _within_limits(self, model: str, body: dict[str, Any], prompt: Prompt, sampling: Sampling, attempt: Attempt) -> Reply:
        read = estimated_tokens(prompt)
        # Without a limit nobody asks for more than a guess.
        need = (self._counted.expected(read) if self._settings.limits.tokens_per_minute else read) + sampling.max_output_tokens
        try:
            async with self._limiter.slot(need, self._settings.longest_wait_s) as slot:
                try:
                    reply = await self._stream(model, body, prompt, attempt, slot)
                except SafeToRetryError as fault:
                    attempt.sent = False
                    slot.used(0)
                    if fault.error.reason == _SLOW_DOWN:
                        self._limiter.slow_down(slot, fault.wait_s)
                    raise
                slot.used(reply.usage.tokens)
                if not reply.usage.estimated:
                    self._counted.learn(read, reply.usage.input_tokens)
                self._limiter.went_well()
                return reply
        except WaitTooLongError as long:
            raise SafeToRetryError(busy(self._url, long.wait_s), long.wait_s) from long

    async def _stream(self, model: str, body: dict[str, Any], prompt: Prompt, attempt: Attempt, slot: Slot) -> Reply:
        url, headers = self._url, self._api.headers(self._key.now) | _SENDS_JSON
        data = _ENCODER.encode(body).encode()
        with self._typed(url, generating=True):
            reader = self._api.reader()
            async with self._connections.connection() as connection:
                attempt.sent = True
                async with connection.exchange("POST", url, headers, data) as answer:
                    if answer.status != 200:
                        await self._refuse(url, model, answer, generating=True)
                    async for chars in _read(answer, reader):
                        attempt.heard(chars)
                    self._limiter.leave_alone(said_wait_s(answer.headers, int(slot.entry[1]), self._now()))
                return reader.build(model, prompt)

    @contextmanager
    def _typed(self, url: str, *, generating: bool) -> Iterator[None]:
        try:
            yield
        except _NEVER_SENT as error:
            raise SafeToRetryError(unreachable(url, error)) from error
        except httpx.TimeoutException as error:
            raise broke_off(url, f"it sent nothing for {self._settings.idle_timeout_s:g} s", generating=generating) from error
        except httpx.HTTPError as error:
            raise broke_off(url, str(error) or type(error).__name__, generating=generating) from error
        except BrokenOffError as error:
            raise broke_off(url, str(error), generating=generating) from error
        except ProtocolError as error:
            raise not_the_protocol(self._api.vendor, url, str(error), generating=generating) from error
        except ReportedError as error:
            raise reported(url, self._without_key(str(error)), unstarted=error.unstarted) from error

    async def _refuse(self, url: str, model: str, answer: Answer, *, generating: bool) -> NoReturn:
        body = parse_error((await _bounded(answer, _ERROR_BODY_BYTES)).decode("utf-8", "replace"))
        message = self._without_key(error_text(body))
        answered = Answered(self._api.vendor, url, model, answer.status, answer.headers, message, error_code(body), generating=generating)
        raise_for_status(answered, self._now())

    async def _fetch_models(self) -> tuple[str, ...]:
        names: tuple[str, ...] = ()
        after = ""
        for _ in range(_MAX_MODEL_PAGES):
            page = await self._fetch_page(self._api.models_url(after))
            names, after = names + page.names, page.after
            if not after:
                break
        return names

    async def _fetch_page(self, url: str) -> ModelPage:
        with self._typed(url, generating=False):
            async with self._connections.connection() as connection:
                async with connection.exchange("GET", url, self._api.headers(self._key.now)) as answer:
                    if answer.status == 404:
                        raise ProtocolError("it lists no models (HTTP 404)")
                    if answer.status != 200:
                        await self._refuse(url, "", answer, generating=False)
                    body = parse_object(await _bounded(answer, _MAX_BODY_BYTES))
                return self._api.read_models(body)

    async def _first_model(self) -> str:
        names = await self._fetch_models()
        if not names:
            raise NotFoundError(f"{self._api.base_url} lists no models; name one in the request", reason="MODEL_UNKNOWN")
        return names[0]

    def _without_key(self, text: str) -> str:
        key = self._key.now
        return text.replace(key, "[key]") if key else text


class _Backoff:
    """Tells stamina whether and how long to wait: as the endpoint asks, else with full jitter, so that callers spread out."""

    def __init__(self, rng: random.Random, longest_wait_s: float) -> None:
        self._rng, self._longest_wait_s = rng, longest_wait_s
        self._failures = 0

    def __call__(self, error: Exception) -> bool | float:
        if not isinstance(error, SafeToRetryError):
            return False
        self._failures += 1
        jitter_s = self._rng.uniform(0.0, min(_BACKOFF_CAP_S, _BACKOFF_BASE_S * 2.0**self._failures))
        if error.wait_s is None:
            return jitter_s
        return error.wait_s + min(jitter_s, 1.0) if error.wait_s <= self._longest_wait_s else False


async def closing(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run work that is cancelled at most once.

    A deadline and a caller that leaves may cancel the same call twice; the second time would interrupt the closing of the connection, and
    the endpoint would go on generating.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        raise


async def _read(answer: Answer, reader: ReplyReader) -> AsyncIterator[int]:
    """Take a reply as it comes and yield how many characters each piece of the stream has brought."""
    kind = answer.headers.get("content-type", "")
    if "json" in kind or "html" in kind:
        # Asked for a stream, some servers answer with one object all the same.
        yield reader.add_whole(parse_object(await _bounded(answer, _MAX_BODY_BYTES)))
        return
    decoder = EventDecoder()
    async for piece in answer.pieces():
        yield sum([reader.add(data) for data in decoder.feed(piece)])
    yield sum([reader.add(data) for data in decoder.end()])


async def _bounded(answer: Answer, limit_bytes: int) -> bytes:
    held = bytearray()
    async for piece in answer.pieces():
        held += piece
        if len(held) > limit_bytes:
            del held[limit_bytes:]
            break
    return bytes(held)
