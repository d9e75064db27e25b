"""How one vendor's endpoints are spoken to: the interface that a provider over HTTP implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from adaexplore_generator.domain import Prompt, Reply, Sampling
from adaexplore_generator.providers.faults import Vendor


class Fields(Protocol):
    """Which fields one model's requests carry; immutable."""

    def body(self, model: str, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        """Return the JSON body of a streaming request."""
        ...

    def after_refusal(self, message: str) -> Fields | None:
        """Return the fields to try after an endpoint refused a request, or None if there is nothing left to change."""
        ...


class ReplyReader(Protocol):
    """Puts one streamed reply together."""

    def add(self, data: str) -> int:
        """Take one event and return the number of characters that it brought, thoughts included."""
        ...

    def add_whole(self, body: Mapping[str, Any]) -> int:
        """Take a reply that was sent as one JSON object, and return its number of characters."""
        ...

    def build(self, model: str, prompt: Prompt) -> Reply:
        """Return the reply; `model` is what was asked for."""
        ...


@dataclass(frozen=True)
class ModelPage:
    """Names of models, and what to ask for next; empty if these are the last."""

    names: tuple[str, ...]
    after: str = ""


class ChatApi(Protocol):
    """How one vendor's endpoints are spoken to."""

    @property
    def vendor(self) -> Vendor:
        """Whose endpoint it is."""
        ...

    @property
    def base_url(self) -> str:
        """The base URL in use, without a slash at its end."""
        ...

    @property
    def is_own(self) -> bool:
        """True if the endpoint is the vendor's own, which needs a key and has a default model."""
        ...

    @property
    def chat_url(self) -> str:
        """Where replies are asked for."""
        ...

    def models_url(self, after: str) -> str:
        """Return where models are listed, from one page's `after` on."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request; the key may be empty."""
        ...

    def first_fields(self) -> Fields:
        """Return the fields to begin with for a model that was not asked yet."""
        ...

    def reader(self) -> ReplyReader:
        """Return a reader of one reply."""
        ...

    def read_models(self, body: Mapping[str, Any]) -> ModelPage:
        """Return the models that one page lists."""
        ...


def listed_names(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the `id` of each model in the `data` of a list."""
    data = body.get("data")
    return tuple(
        item["id"] for item in (data if isinstance(data, list) else []) if isinstance(item, dict) and isinstance(item.get("id"), str)
    )
