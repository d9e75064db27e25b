"""The OpenAI chat dialect: OpenAI, Azure, OpenRouter, DeepSeek, vLLM, SGLang, Ollama, llama.cpp and whoever else speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from adaexplore_generator.providers.chat_api import ModelPage, listed_names
from adaexplore_generator.providers.completions import CompletionReader
from adaexplore_generator.providers.dialect import Dialect
from adaexplore_generator.providers.faults import Vendor
from adaexplore_generator.providers.settings import host_of

OPENAI = Vendor("openai", "OpenAI chat", "https://api.openai.com/v1", "gpt-5-mini", "/v1", "OPENAI_API_KEY")
_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")


@dataclass(frozen=True)
class OpenAIApi:
    """Speaks the dialect; see `ChatApi`.

    Attributes:
        given_url: Base URL; empty means the vendor's own. Azure's may hold `?api-version=…`.
        vendor: Whose endpoint it is.
        total_counts: True if thoughts are only part of the total of tokens.

    """

    given_url: str = ""
    vendor: Vendor = OPENAI
    total_counts: bool = False

    @property
    def base_url(self) -> str:
        """The base URL in use, without a slash at its end and without a query."""
        parts = urlsplit(self.given_url or self.vendor.base_url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))

    @property
    def is_own(self) -> bool:
        """True if the endpoint is the vendor's own."""
        host, own = host_of(self.base_url), host_of(self.vendor.base_url)
        return host == own or host.endswith(f".{own}")

    @property
    def is_azure(self) -> bool:
        """True if the endpoint is one of Azure's, which wants its key in a header of its own."""
        return host_of(self.base_url).endswith(_AZURE_HOSTS) or "api-version=" in self._query

    @property
    def chat_url(self) -> str:
        """Where replies are asked for."""
        return f"{self.base_url}/chat/completions{self._query}"

    def models_url(self, after: str) -> str:
        """Return where models are listed; there is one page."""
        return f"{self.base_url}/models{self._query}"

    def headers(self, key: str) -> dict[str, str]:
        """Return the key's header; none without a key."""
        if not key:
            return {}
        return {"api-key": key} if self.is_azure else {"authorization": f"Bearer {key}"}

    def first_fields(self) -> Dialect:
        """Return what to begin with: OpenAI's own models want `max_completion_tokens`, others know `max_tokens`."""
        named = (self.is_own and self.vendor is OPENAI) or self.is_azure
        nested = host_of(self.base_url).endswith("openrouter.ai")
        return Dialect("max_completion_tokens" if named else "max_tokens", effort="reasoning" if nested else "reasoning_effort")

    def reader(self) -> CompletionReader:
        """Return a reader of one completion."""
        return CompletionReader(total_counts=self.total_counts)

    def read_models(self, body: Mapping[str, Any]) -> ModelPage:
        """Return the models that a list holds."""
        return ModelPage(listed_names(body))

    @property
    def _query(self) -> str:
        query = urlsplit(self.given_url).query
        return f"?{query}" if query else ""
