"""The generator itself: checks requests and hands each to the provider it names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adaexplore_generator.domain import (
    Candidate,
    ContextKernel,
    DistilledRule,
    DistillRequest,
    GenerateRequest,
    Judgement,
    JudgeRequest,
    ModelInfo,
    ModelRequest,
    Move,
    SynthesizedTask,
    SynthesizeRequest,
    Usage,
    UsageEstimate,
)
from adaexplore_generator.errors import provider_unknown, request_invalid
from adaexplore_generator.providers import ProgressSink, Provider
from adaexplore_generator.replies import Desk, ExternalReply, ExternalRequest, ReplyStore

_MAX_REQUEST_ID_CHARS = 128
_MAX_SOURCE_BYTES = 1 << 20
_MAX_RECIPE_BYTES = 64 << 10
_MAX_KNOWN_RULES = 500
_MAX_SEED_TASKS = 5
_MAX_OUTPUT_TOKENS = 1_000_000
_MAX_PAGE = 1_000
_DEFAULT_PAGE = 100
_MAX_WORKER_CHARS = 128
_MAX_EFFORT_CHARS = 32
_MAX_LEASE_S, _MAX_WAIT_S = 86_400.0, 60.0
_CLAIM_POLL_S = 0.25


@dataclass(frozen=True)
class ModelPage:
    """One page of models; an empty token ends the list."""

    models: tuple[ModelInfo, ...]
    next_page_token: str


class Generator:
    """Serves all calls of the API in terms of the domain.

    Args:
        providers: The providers; the order is that of ListModels after the default.
        default: Name of the provider for requests that name none.
        store: Where what was paid for is kept.
        desk: Where prompts wait for somebody outside.

    """

    def __init__(self, providers: Sequence[Provider], default: str, store: ReplyStore, desk: Desk) -> None:
        self._providers = {provider.name: provider for provider in providers}
        self._default, self._store, self._desk = default, store, desk

    async def generate(self, request: GenerateRequest, report: ProgressSink) -> Candidate:
        """Write one candidate.

        Raises:
            InvalidArgumentError: A field is wrong (REQUEST_INVALID).
            ServiceError: As the provider's `generate`.

        """
        _check_common(request)
        _check_generate(request)
        return await self._provider(request.sampling.provider).generate(request, report)

    def estimate(self, request: GenerateRequest) -> UsageEstimate:
        """Say what a generation can use at most and what it will probably use.

        Raises:
            InvalidArgumentError: A field is wrong (REQUEST_INVALID).
            NotFoundError: No such provider (PROVIDER_UNKNOWN).

        """
        _check_common(replace(request, request_id=request.request_id or "estimate"))
        _check_generate(request)
        return self._provider(request.sampling.provider).estimate(request)

    async def used(self, request_id: str) -> Usage:
        """Return what a request has used so far.

        Raises:
            InvalidArgumentError: The id is empty or too long (REQUEST_INVALID).
            UnavailableError: The store cannot be used (STORE_UNAVAILABLE).

        """
        _check_id(request_id)
        return (await self._store.paid(request_id)).usage

    async def claim(self, worker: str, lease_s: float, wait_s: float, lease_token: str) -> ExternalRequest | None:
        """Take a prompt to answer it, waiting for one, or prolong a lease; None if there was none in time.

        Raises:
            InvalidArgumentError: A field is wrong (REQUEST_INVALID).
            FailedPreconditionError: The lease is lost (LEASE_LOST).

        """
        if len(worker) > _MAX_WORKER_CHARS:
            raise request_invalid("worker", f"is longer than {_MAX_WORKER_CHARS} characters")
        if not 1 <= lease_s <= _MAX_LEASE_S:
            raise request_invalid("lease", "must be between 1 second and 24 hours; leave it out for 10 minutes")
        if not 0 <= wait_s <= _MAX_WAIT_S:
            raise request_invalid("wait", "must be at most 60 seconds; call again to wait longer")
        if lease_token:
            return await self._desk.prolong(lease_token, lease_s)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while (found := await self._desk.claim(worker, lease_s)) is None and loop.time() < until:  # noqa: ASYNC110 - another replica may put it there
            await asyncio.sleep(min(_CLAIM_POLL_S, max(0.0, until - loop.time())))
        return found

    async def submit(self, lease_token: str, reply: ExternalReply) -> None:
        """Answer a prompt that was taken.

        Raises:
            InvalidArgumentError: A field is wrong (REQUEST_INVALID).
            FailedPreconditionError: The lease is lost (LEASE_LOST).

        """
        if not lease_token:
            raise request_invalid("lease_token", "is required: it is in the claimed request")
        if not reply.text and not reply.refusal:
            raise request_invalid("text", "is required; a refusal says why there is none")
        if len(reply.text.encode("utf-8", "replace")) > _MAX_SOURCE_BYTES:
            raise request_invalid("text", "is longer than 1 MiB")
        if len(reply.model) > _MAX_WORKER_CHARS:
            raise request_invalid("model", f"is longer than {_MAX_WORKER_CHARS} characters")
        if reply.input_tokens < 0 or reply.output_tokens < 0:
            raise request_invalid("input_tokens", "and output_tokens must not be negative")
        await self._desk.submit(lease_token, reply)

    async def distill(self, request: DistillRequest) -> DistilledRule:
        """Word a rule from one failure; errors as `generate`."""
        _check_common(request)
        _check_kernel("kernel", request.kernel)
        if request.kernel.feedback is None:
            raise request_invalid("evaluation", "is required: a rule is worded from a failure")
        if request.kernel.feedback.passed:
            raise request_invalid("evaluation", "is of a kernel that passed; a rule is worded from a failure")
        return await self._provider(request.sampling.provider).distill(request)

    async def judge(self, request: JudgeRequest) -> Judgement:
        """Say whether a rule repeats a known one; errors as `generate`."""
        _check_common(request)
        if not request.rule.strip():
            raise request_invalid("rule", "is required")
        if len(request.known_rules) > _MAX_KNOWN_RULES:
            raise request_invalid("known_rules", f"holds {len(request.known_rules)} rules; at most {_MAX_KNOWN_RULES} are taken")
        return await self._provider(request.sampling.provider).judge(request)

    async def synthesize(self, request: SynthesizeRequest) -> SynthesizedTask:
        """Write a new task; errors as `generate`."""
        _check_common(request)
        if len(request.seed_tasks) > _MAX_SEED_TASKS:
            raise request_invalid("seed_tasks", f"holds {len(request.seed_tasks)} tasks; at most {_MAX_SEED_TASKS} are taken")
        return await self._provider(request.sampling.provider).synthesize(request)

    async def list_models(self, provider: str, page_size: int, page_token: str) -> ModelPage:
        """List models page by page, those of the default provider first.

        Raises:
            InvalidArgumentError: The page size or token is wrong (REQUEST_INVALID).
            NotFoundError: No such provider (PROVIDER_UNKNOWN).
            ServiceError: A provider cannot be asked.

        """
        if page_size < 0:
            raise request_invalid("page_size", "must not be negative")
        if page_token and not page_token.isdecimal():
            raise request_invalid("page_token", "is not a token of an earlier page")
        chosen = [self._provider(provider)] if provider else sorted(self._providers.values(), key=lambda item: item.name != self._default)
        models = [model for item in chosen for model in await item.list_models()]
        start, size = int(page_token or 0), min(page_size or _DEFAULT_PAGE, _MAX_PAGE)
        end = start + size
        return ModelPage(tuple(models[start:end]), str(end) if end < len(models) else "")

    async def close(self) -> None:
        """Release what the providers hold."""
        for provider in self._providers.values():
            await provider.close()

    def _provider(self, name: str) -> Provider:
        found = self._providers.get(name or self._default)
        if found is None:
            raise provider_unknown(name, tuple(self._providers))
        return found


def _check_id(request_id: str) -> None:
    if not request_id:
        raise request_invalid("request_id", "is required: it is what keeps a retry from being paid for twice")
    if len(request_id) > _MAX_REQUEST_ID_CHARS:
        raise request_invalid("request_id", f"is longer than {_MAX_REQUEST_ID_CHARS} characters")


def _check_common(request: ModelRequest) -> None:
    _check_id(request.request_id)
    if not 0.0 <= request.sampling.temperature <= 2.0:
        raise request_invalid("model.temperature", "must be between 0 and 2")
    if not 0 < request.sampling.max_output_tokens <= _MAX_OUTPUT_TOKENS:
        raise request_invalid("model.max_output_tokens", f"must be between 1 and {_MAX_OUTPUT_TOKENS:,}, or 0 for the default")
    if len(request.sampling.reasoning_effort) > _MAX_EFFORT_CHARS:
        raise request_invalid("model.reasoning_effort", f"is longer than {_MAX_EFFORT_CHARS} characters")
    if request.max_cost_micro_usd is not None and request.max_cost_micro_usd < 0:
        raise request_invalid("max_cost_micro_usd", "must not be negative")


def _check_generate(request: GenerateRequest) -> None:
    if not request.task.source.strip():
        raise request_invalid("task.source", "is required")
    if len(request.task.source.encode()) > _MAX_SOURCE_BYTES:
        raise request_invalid("task.source", "is longer than 1 MiB")
    if request.move is Move.LOCAL and not request.context:
        raise request_invalid("context", "is required for LOCAL: the last of it is the kernel to edit")
    if request.move is Move.LOCAL and request.pool:
        raise request_invalid("pool", "must be empty for LOCAL")
    if request.move is Move.STRUCTURAL and request.context:
        raise request_invalid("context", "must be empty for STRUCTURAL; representatives go into pool")
    for field, kernels in (("context", request.context), ("pool", request.pool)):
        for index, kernel in enumerate(kernels):
            _check_kernel(f"{field}[{index}].kernel", kernel)


def _check_kernel(field: str, kernel: ContextKernel) -> None:
    if not kernel.source.strip():
        raise request_invalid(f"{field}.source", "is required")
    if len(kernel.source.encode()) > _MAX_SOURCE_BYTES:
        raise request_invalid(f"{field}.source", "is longer than 1 MiB")
    if len(kernel.recipe.encode()) > _MAX_RECIPE_BYTES:
        raise request_invalid(field.removesuffix(".kernel") + ".recipe", "is longer than 64 KiB")
