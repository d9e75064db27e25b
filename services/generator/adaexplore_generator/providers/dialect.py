"""How one model's endpoint wants its requests: fields that it refuses are left out or renamed, and that is remembered."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from adaexplore_generator.domain import Prompt, Sampling

_COMPLAINT = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|extra|not permitted|not allowed|invalid|does not", re.IGNORECASE
)


@dataclass(frozen=True)
class Dialect:
    """Fields that a request carries beside model and messages.

    Attributes:
        limit_field: Name of the token limit, `max_tokens` or `max_completion_tokens`.
        usage_wanted: True to ask for usage at the end of the stream.
        temperature: True to send the temperature.
        seed: True to send the seed.
        effort: Name of the field for reasoning effort, `reasoning_effort` or OpenRouter's `reasoning`; empty if it is not taken.
        renamed: True once the name of the token limit was changed.

    """

    limit_field: str = "max_tokens"
    usage_wanted: bool = True
    temperature: bool = True
    seed: bool = True
    effort: str = "reasoning_effort"
    renamed: bool = False

    def body(self, model: str, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        """Return the JSON body of a streaming request."""
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            "stream": True,
        }
        if self.usage_wanted:
            body["stream_options"] = {"include_usage": True}
        body[self.limit_field] = sampling.max_output_tokens
        if self.temperature:
            body["temperature"] = sampling.temperature
        if self.seed:
            body["seed"] = sampling.seed % (1 << 31)
        if self.effort and sampling.reasoning_effort:
            level = sampling.reasoning_effort
            body[self.effort] = {"effort": level} if self.effort == "reasoning" else level
        return body

    def after_refusal(self, message: str) -> Dialect | None:
        """Return the dialect to try after an endpoint refused a request, or None if there is nothing left to change.

        The field that the message names is changed. A message that names none of them costs one attempt without
        the wish for usage, since older servers refuse unknown fields without naming them.
        """
        if re.search(rf"\b{self.limit_field}\b", message):
            # Without a limit nothing would bound what the reply costs.
            return None if self.renamed else replace(self, limit_field=_other_limit(self.limit_field), renamed=True)
        if self.effort and re.search(r"\breasoning(_effort|\.effort)?\b", message):
            return replace(self, effort="")
        if self.temperature and "temperature" in message:
            return replace(self, temperature=False)
        if self.seed and re.search(r"\bseed\b", message):
            return replace(self, seed=False)
        if self.usage_wanted and ("stream_options" in message or "include_usage" in message or _COMPLAINT.search(message) or not message):
            return replace(self, usage_wanted=False)
        return None


def _other_limit(name: str) -> str:
    return "max_tokens" if name == "max_completion_tokens" else "max_completion_tokens"
