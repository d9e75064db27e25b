"""Providers: who writes kernels, rules and tasks. One small interface for all, and one for endpoints that hold a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from adaexplore_generator.domain import (
    Candidate,
    DistilledRule,
    DistillRequest,
    GenerateRequest,
    Judgement,
    JudgeRequest,
    ModelInfo,
    Progress,
    Prompt,
    Reply,
    Sampling,
    SynthesizedTask,
    SynthesizeRequest,
    UsageEstimate,
)

ProgressSink = Callable[[Progress], None]


class Provider(Protocol):
    """Writes candidates and, if it has a model, rules and tasks. Errors are `ServiceError`s of the generator's reasons."""

    @property
    def name(self) -> str:
        """Name in requests, for example `templates`."""
        ...

    async def generate(self, request: GenerateRequest, report: ProgressSink) -> Candidate:
        """Write one candidate; a reply without a usable kernel is a candidate with another outcome."""
        ...

    def estimate(self, request: GenerateRequest) -> UsageEstimate:
        """Say what a generation can use at most and what it will probably use, without asking a model."""
        ...

    async def distill(self, request: DistillRequest) -> DistilledRule:
        """Word a rule from one failure."""
        ...

    async def judge(self, request: JudgeRequest) -> Judgement:
        """Say whether a rule repeats a known one."""
        ...

    async def synthesize(self, request: SynthesizeRequest) -> SynthesizedTask:
        """Write a new task."""
        ...

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """List the models that a request can name, the default first; empty if none is configured."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class ChatEndpoint(Protocol):
    """A model that answers prompts. Every call may cost money."""

    @property
    def name(self) -> str:
        """Name of the provider, for example `openai`."""
        ...

    @property
    def host(self) -> str:
        """Host that it is asked at, which decides what its models cost."""
        ...

    @property
    def default_model(self) -> str:
        """Model for requests that name none; empty if it depends on what the endpoint lists."""
        ...

    @property
    def attempts_that_may_be_paid(self) -> int:
        """How often one call of `complete` may be paid for at most."""
        ...

    async def complete(self, prompt: Prompt, sampling: Sampling, received: Callable[[int], None], name: str) -> Reply:
        """Answer a prompt; `received` is told the number of characters of each piece as it arrives, `name` is the same if it is repeated.

        Raises:
            PromptTooLongError: The prompt does not fit into the model's context; nothing was paid.
            AbortedError: The endpoint broke off after it had the request; something may have been generated.
            ServiceError: The endpoint cannot be used, and nothing was generated; the reason says why.

        """
        ...

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """List the models, the default first; empty if the endpoint is not configured."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
