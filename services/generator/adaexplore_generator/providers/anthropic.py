"""Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from adaexplore_generator.domain import FinishReason, Message, Prompt, Reply, Sampling, Usage
from adaexplore_generator.providers.chat_api import ModelPage, listed_names
from adaexplore_generator.providers.faults import Vendor
from adaexplore_generator.providers.prefixes import PrefixMemory
from adaexplore_generator.providers.settings import host_of
from adaexplore_generator.providers.wire import (
    BrokenOffError,
    GrowingText,
    ProtocolError,
    ReplyBound,
    ReportedError,
    count,
    error_code,
    error_text,
    estimated_usage,
    items,
    parse_object,
    text_of,
)

ANTHROPIC = Vendor("anthropic", "Anthropic Messages", "https://api.anthropic.com/v1", "claude-haiku-4-5", "/v1", "ANTHROPIC_API_KEY")
_VERSION = "2023-06-01"
_FINISH = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.FILTERED,
}
_BUSY = frozenset({"overloaded_error", "rate_limit_error"})
# Shares of the reply's limit that thoughts may take, for models that know no levels; below the least budget there are none.
_BUDGET_SHARES = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.7, "xhigh": 0.8, "max": 0.9}
_LEAST_BUDGET = 1024
_STYLES = ("adaptive", "enabled", "")
_CACHED = {"type": "ephemeral"}


@dataclass(frozen=True)
class MessageFields:
    """Fields that a request carries beside model, messages and limit; see `Fields`.

    Attributes:
        prefixes: Says which part of a user message stays the same.
        thinking: How effort is asked for: `adaptive` with a level, `enabled` with a budget, or not at all.
        temperature: True to send the temperature.
        cached: True to mark what the provider shall keep in its cache.

    """

    prefixes: PrefixMemory
    thinking: str = "adaptive"
    temperature: bool = True
    cached: bool = True

    def body(self, model: str, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        """Return the JSON body of a streaming request."""
        system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
        others = [message for message in prompt.messages if message.role != "system"]
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": sampling.max_output_tokens,
            "messages": [{"role": message.role, "content": self._blocks(system, message)} for message in others],
            "stream": True,
        }
        if system:
            body["system"] = [self._marked(system)]
        body |= self._effort(sampling)
        if self.temperature and "thinking" not in body:
            body["temperature"] = min(sampling.temperature, 1.0)
        return body

    def after_refusal(self, message: str) -> MessageFields | None:
        """Return the fields to try after a refusal that names one of them, or None."""
        if "cache_control" in message and self.cached:
            return replace(self, cached=False)
        if self.thinking and re.search(r"thinking|effort|output_config|adaptive", message):
            return replace(self, thinking=_STYLES[_STYLES.index(self.thinking) + 1])
        if self.temperature and "temperature" in message:
            return replace(self, temperature=False)
        return None

    def _effort(self, sampling: Sampling) -> dict[str, Any]:
        effort = sampling.reasoning_effort
        if effort in ("", "none") or not self.thinking:
            return {}
        if self.thinking == "adaptive":
            level = "low" if effort == "minimal" else effort
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
        budget = max(_LEAST_BUDGET, int(sampling.max_output_tokens * _BUDGET_SHARES.get(effort, 0.5)))
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget < sampling.max_output_tokens else {}

    def _blocks(self, system: str, message: Message) -> list[dict[str, Any]]:
        # Each end of a part that stays the same becomes the end of a block, since caches are looked up there.
        ends = self.prefixes.ends(system, message.content) if self.cached else ()
        starts = (0, *ends)
        blocks = [self._marked(message.content[start:end]) for start, end in zip(starts, ends, strict=False)]
        rest = message.content[starts[-1] :]
        return [*blocks, {"type": "text", "text": rest}] if rest else blocks

    def _marked(self, text: str) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "text", "text": text}
        return block | {"cache_control": _CACHED} if self.cached else block


class MessageReader:
    """Puts the events of one streamed message together; see `ReplyReader`."""

    def __init__(self) -> None:
        self._text, self._bound = GrowingText(), ReplyBound()
        self._model, self._stop = "", ""
        self._usage: dict[str, Any] = {}
        self._started = self._done = False

    def add(self, data: str) -> int:
        """Take one event and return the number of characters that it brought, thoughts included.

        Raises:
            ProtocolError: The event is none of the protocol.
            ReportedError: The event reports an error.

        """
        event = parse_object(data)
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            raise ReportedError(error_text(event), unstarted=not self._started and error_code(event) in _BUSY)
        if kind == "message_start":
            return self._begin(_object(event, "message"))
        if kind == "content_block_start":
            return self._block(_object(event, "content_block"))
        if kind == "content_block_delta":
            return self._block(_object(event, "delta"))
        if kind == "message_delta":
            self._note(_object(event, "delta"), event.get("usage"))
        elif kind == "message_stop":
            self._done = True
        elif not isinstance(kind, str):
            raise ProtocolError("an event of the reply has no type")
        return 0

    def add_whole(self, body: Mapping[str, Any]) -> int:
        """Take a message that was sent as one JSON object, and return its number of characters."""
        if body.get("type") == "error" or body.get("error"):
            raise ReportedError(error_text(body))
        self._done = True
        self._begin(body)
        return sum(self._block(block) for block in items(body, "content") if isinstance(block, dict))

    def build(self, model: str, prompt: Prompt) -> Reply:
        """Return the reply.

        Raises:
            ProtocolError: No message came.
            BrokenOffError: The stream ended without an end.

        """
        if not self._started:
            raise ProtocolError("the reply has no message")
        if not self._done and not self._stop:
            raise BrokenOffError(f"the reply broke off after {self._bound.chars} characters")
        text = str(self._text)
        usage = message_usage(self._usage) or estimated_usage(prompt, text)
        return Reply(text, _FINISH.get(self._stop, FinishReason.STOP), self._model or model, usage, prompt_digest=prompt.digest)

    def _begin(self, message: Mapping[str, Any]) -> int:
        if message.get("type") != "message":
            raise ProtocolError("the reply is not a message")
        self._started = True
        if isinstance(message.get("model"), str):
            self._model = message["model"]
        self._note(message, message.get("usage"))
        return 0

    def _note(self, part: Mapping[str, Any], usage: object) -> None:
        if isinstance(part.get("stop_reason"), str):
            self._stop = part["stop_reason"]
        if isinstance(usage, dict):
            # Counts are running totals; what a later event leaves out stays.
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _block(self, block: Mapping[str, Any]) -> int:
        chars = self._text.add(text_of(block.get("text"))) + len(text_of(block.get("thinking")))
        return self._bound.count(chars)


@dataclass(frozen=True)
class AnthropicApi:
    """Speaks the Messages API; see `ChatApi`.

    Attributes:
        given_url: Base URL, with or without `/v1`; empty means Anthropic's own.

    """

    given_url: str = ""
    vendor: Vendor = ANTHROPIC
    _prefixes: PrefixMemory = field(default_factory=PrefixMemory)

    @property
    def base_url(self) -> str:
        """The base URL in use; other tools leave `/v1` out of it."""
        url = (self.given_url or self.vendor.base_url).rstrip("/")
        return url if url.endswith("/v1") else f"{url}/v1"

    @property
    def is_own(self) -> bool:
        """True if the endpoint is Anthropic's own."""
        return host_of(self.base_url) == host_of(self.vendor.base_url)

    @property
    def chat_url(self) -> str:
        """Where replies are asked for."""
        return f"{self.base_url}/messages"

    def models_url(self, after: str) -> str:
        """Return where models are listed."""
        return f"{self.base_url}/models?limit=1000" + (f"&after_id={quote(after, safe='')}" if after else "")

    def headers(self, key: str) -> dict[str, str]:
        """Return the version of the API and the key's header."""
        return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})

    def first_fields(self) -> MessageFields:
        """Return what to begin with: levels of effort, which all newer models know."""
        return MessageFields(self._prefixes)

    def reader(self) -> MessageReader:
        """Return a reader of one message."""
        return MessageReader()

    def read_models(self, body: Mapping[str, Any]) -> ModelPage:
        """Return the models of one page."""
        after = body.get("last_id") if body.get("has_more") is True else None
        return ModelPage(listed_names(body), after if isinstance(after, str) else "")


def message_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Return the usage of a message, None if it cannot be read; here `input_tokens` leaves out what was cached."""
    plain, written = count(usage, "input_tokens"), count(usage, "output_tokens")
    if plain is None or written is None:
        return None
    cached, kept = count(usage, "cache_read_input_tokens") or 0, count(usage, "cache_creation_input_tokens") or 0
    reasoning = count(usage.get("output_tokens_details"), "thinking_tokens") or 0
    return Usage(plain + cached + kept, cached, written, reasoning, calls=1, cost_micro_usd=None, cache_write_tokens=kept)


def _object(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = event.get(key)
    if not isinstance(value, dict):
        raise ProtocolError(f"`{key}` of an event is not an object")
    return value
