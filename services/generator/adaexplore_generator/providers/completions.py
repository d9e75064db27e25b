"""A streamed chat completion of the OpenAI dialect, put together from its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaexplore_generator.domain import FinishReason, Prompt, Reply, Usage
from adaexplore_generator.providers.wire import (
    BrokenOffError,
    GrowingText,
    ProtocolError,
    ReplyBound,
    ReportedError,
    count,
    error_text,
    estimated_usage,
    items,
    parse_object,
    text_of,
)

_CUT = frozenset({"length", "max_tokens"})
# Gemini's compatible endpoint passes some of its own reasons on.
_FILTERED = frozenset({"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"})
# The answer was interrupted: OpenRouter and DeepSeek say so here, and nowhere else if there is no error object.
_FAILED = frozenset({"error", "insufficient_system_resource"})


class CompletionReader:
    """Puts the chunks of one streamed completion together; see `ReplyReader`.

    Args:
        total_counts: See `usage_of`.

    """

    def __init__(self, *, total_counts: bool = False) -> None:
        self._total_counts = total_counts
        self._text, self._refusal = GrowingText(), GrowingText()
        self._bound = ReplyBound()
        self._finish: str | None = None
        self._model = ""
        self._usage: Mapping[str, Any] | None = None
        self._choices = 0
        self._done = False

    def add(self, data: str) -> int:
        """Take one event and return the number of characters that it brought, thoughts included.

        Raises:
            ProtocolError: The event is not a chunk of a completion.
            ReportedError: The event reports an error.

        """
        if data.strip() == "[DONE]":
            self._done = True
            return 0
        chunk = parse_object(data)
        self._note(chunk)
        return sum(self._choice(choice) for choice in items(chunk, "choices"))

    def add_whole(self, body: Mapping[str, Any]) -> int:
        """Take a completion that was sent as one JSON object, and return its number of characters."""
        self._note(body)
        self._done = True
        return sum(self._choice(choice) for choice in items(body, "choices"))

    def build(self, model: str, prompt: Prompt) -> Reply:
        """Return the reply.

        Raises:
            ProtocolError: No choice came.
            BrokenOffError: The stream ended without an end.
            ReportedError: The model's server gave up midway.

        """
        if not self._done and self._finish is None:
            raise BrokenOffError(f"the reply broke off after {self._bound.chars} characters")
        if not self._choices:
            raise ProtocolError("the reply has no choices")
        finish = _finish(self._finish or "")
        text = str(self._text)
        usage = usage_of(self._usage, total_counts=self._total_counts) or estimated_usage(prompt, text)
        return Reply(text, finish, self._model or model, usage, str(self._refusal), prompt.digest)

    def _note(self, body: Mapping[str, Any]) -> None:
        if body.get("error"):
            raise ReportedError(error_text(body))
        if isinstance(body.get("model"), str):
            self._model = body["model"]
        if isinstance(body.get("usage"), dict):
            self._usage = body["usage"]

    def _choice(self, choice: object) -> int:
        if not isinstance(choice, dict):
            raise ProtocolError("a choice of the reply is not an object")
        if choice.get("index") not in (None, 0):
            return 0
        part = choice.get("delta", choice.get("message")) or {}
        if not isinstance(part, dict):
            raise ProtocolError("a choice of the reply has no message")
        self._choices += 1
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]
        chars = self._text.add(text_of(part.get("content"))) + self._refusal.add(text_of(part.get("refusal")))
        thought = text_of(part.get("reasoning_content") or part.get("reasoning"))
        return self._bound.count(chars + len(thought))


def usage_of(usage: Mapping[str, Any] | None, *, total_counts: bool = False) -> Usage | None:
    """Return the usage that an endpoint reports; None if it reports none that can be read.

    Args:
        usage: What it reports.
        total_counts: True if what its total has beside prompt and completion are thoughts, whatever it calls them.

    """
    if usage is None:
        return None
    prompt, completion = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    if prompt is None or completion is None:
        return None
    details = usage.get("prompt_tokens_details")
    # The first name is OpenAI's, which most use; the second is DeepSeek's.
    cached = count(details, "cached_tokens") or count(usage, "prompt_cache_hit_tokens") or 0
    written = count(details, "cache_write_tokens") or 0
    reasoning = count(usage.get("completion_tokens_details"), "reasoning_tokens") or count(usage, "reasoning_tokens") or 0
    # Gemini and xAI count thoughts in the total, but not in the completion; Gemini does not always say how many they are.
    beside = (count(usage, "total_tokens") or 0) - prompt - completion
    if beside > 0 and (total_counts or beside == reasoning):
        completion, reasoning = completion + beside, beside
    cached = min(cached, prompt)
    return Usage(prompt, cached, completion, reasoning, calls=1, cost_micro_usd=None, cache_write_tokens=min(written, prompt - cached))


def _finish(reason: str) -> FinishReason:
    name = reason.lower().partition(":")[0].strip()
    if name in _FAILED:
        raise ReportedError(f"the model gave up midway ({reason})")
    if name in _CUT:
        return FinishReason.LENGTH
    return FinishReason.FILTERED if name in _FILTERED else FinishReason.STOP
