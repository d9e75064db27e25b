"""Gemini, through the endpoint that speaks the OpenAI chat dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adaexplore_generator.providers.chat_api import ModelPage
from adaexplore_generator.providers.faults import Vendor
from adaexplore_generator.providers.openai import OpenAIApi

GEMINI = Vendor(
    "gemini",
    "OpenAI chat",
    "https://generativelanguage.googleapis.com/v1beta/openai",
    "gemini-2.5-flash",
    "/v1beta/openai",
    "GEMINI_API_KEY",
)


@dataclass(frozen=True)
class GeminiApi(OpenAIApi):
    """Speaks the dialect as Gemini does: thoughts are part of the total of tokens alone, and listed names have a prefix."""

    vendor: Vendor = GEMINI
    total_counts: bool = True

    def read_models(self, body: Mapping[str, Any]) -> ModelPage:
        """Return the models that a list holds, as requests and prices name them."""
        page = super().read_models(body)
        return ModelPage(tuple(name.removeprefix("models/") for name in page.names), page.after)
