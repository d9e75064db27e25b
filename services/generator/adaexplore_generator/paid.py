"""Calls that cost money: each is looked up in the store, noted there before it is made, and its reply is stored before anything else."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import structlog

from adaexplore.runtime.errors import AbortedError, FailedPreconditionError, InvalidArgumentError, ServiceError, UnavailableError
from adaexplore_generator.digests import request_digest, sha256_of
from adaexplore_generator.domain import ModelPrice, ModelRequest, Progress, Prompt, Reply, Sampling, Usage
from adaexplore_generator.errors import PromptTooLongError
from adaexplore_generator.pricing import Price, Prices, PriceTable, above_limit, most_tokens, price_unknown
from adaexplore_generator.prompting import Budgets
from adaexplore_generator.providers import ChatEndpoint, ProgressSink
from adaexplore_generator.repeating import repeating
from adaexplore_generator.replies import Paid, ReplyStore

# Shares of the full budgets to try when a prompt does not fit into the model's context.
_SHARES = (1.0, 0.4, 0.15, 0.05)
_KEEP_PATIENCE_S = 30.0


class CostLimitError(Exception):
    """The request has paid for something, and its next call may cost more than is left of its limit.

    Args:
        refusal: The error that a first call would end with.

    """

    def __init__(self, refusal: FailedPreconditionError) -> None:
        super().__init__(refusal.message)
        self.message = refusal.message


@dataclass(frozen=True)
class Tariff:
    """What calls of one model cost; `price` is None where it is unknown, `times` is how often one call may be paid for."""

    provider: str
    model: str
    price: Price | None = None
    table: PriceTable | None = None
    times: int = 1

    @property
    def listed(self) -> ModelPrice | None:
        """The price as the API has it; None if it is unknown."""
        if self.price is None or self.table is None:
            return None
        price, table = self.price, self.table
        return ModelPrice(price.input, price.cached_rate, price.cache_write_rate, price.output, table.date, table.source)

    def worst(self, prompt: Prompt, sampling: Sampling) -> Usage:
        """Return the most that a call can use, as the usage of a call that is not confirmed."""
        return self.bound(most_tokens(prompt), sampling.max_output_tokens)

    def bound(self, input_tokens: int, output_tokens: int) -> Usage:
        """Return the most that a call of at most so many tokens can use, as the usage of a call that is not confirmed."""
        most = Usage(input_tokens, output_tokens=output_tokens)
        cost = None if self.price is None else self.times * self.price.worst_cost(most)
        return Usage(
            calls=1,
            cost_micro_usd=cost,
            unconfirmed_calls=1,
            unconfirmed_tokens=self.times * most.tokens,
            unconfirmed_cost_micro_usd=cost or 0,
        )

    def priced(self, reply: Reply, worst: Usage) -> Reply:
        """Return a reply with what it cost; one whose usage never arrived, and the loser of a race of two, count at the worst case."""
        if reply.usage.estimated:
            return replace(reply, usage=replace(worst, estimated=True))
        if self.price is None:
            return replace(reply, usage=replace(reply.usage, cost_micro_usd=None))
        doubtful = reply.usage.unconfirmed_calls * (worst.unconfirmed_cost_micro_usd // self.times)
        cost = self.price.cost(reply.usage) + doubtful
        return replace(reply, usage=replace(reply.usage, cost_micro_usd=cost, unconfirmed_cost_micro_usd=doubtful))

    def refusal(self, limit_micro_usd: int | None, spent: Usage, worst: Usage) -> FailedPreconditionError | None:
        """Return why a call that may end above the limit of its request is not made; None if it may be.

        There is a limit and no price (PRICE_UNKNOWN), or too little is left of it (COST_ABOVE_LIMIT).
        """
        if limit_micro_usd is None:
            return None
        if worst.cost_micro_usd is None or spent.cost_micro_usd is None:
            return price_unknown(self.provider, self.model)
        if spent.cost_micro_usd + worst.cost_micro_usd > limit_micro_usd:
            return above_limit(worst.cost_micro_usd, limit_micro_usd - spent.cost_micro_usd)
        return None


@dataclass(frozen=True)
class _Planned:
    """A call that may be made: its prompt at full budgets, the most that it can use, and its name in the store."""

    prompt: Prompt
    worst: Usage
    attempt: str


class PaidSession:
    """The calls of one request, in order. A call that was paid for before is answered from the store.

    Args:
        request: The request.
        digest: SHA-256 of it.
        endpoint: Where further calls go.
        store: Where their replies go.
        tariff: What they cost.
        report: Told of progress.
        log_prompts: Whether prompts and replies go into the log whole.

    """

    def __init__(
        self,
        request: ModelRequest,
        digest: str,
        endpoint: ChatEndpoint,
        store: ReplyStore,
        tariff: Tariff,
        report: ProgressSink,
        *,
        log_prompts: bool = False,
    ) -> None:
        self._log_prompts = log_prompts
        self._request, self._digest, self._tariff = request, digest, tariff
        self._endpoint, self._store, self._report = endpoint, store, report
        self._paid: Paid | None = None
        self._strayed, self._noted = Usage(), ""
        self._replies: list[Reply] = []
        self._chars = 0

    @property
    def usage(self) -> Usage:
        """Tokens and money of all calls so far, those answered from the store and those that brought nothing included."""
        return sum((reply.usage for reply in self._replies), self._strayed)

    @property
    def model(self) -> str:
        """Model that answered last; empty before the first call."""
        return self._replies[-1].model if self._replies else ""

    @property
    def prompt_digest(self) -> str:
        """SHA-256 over the prompts of all calls so far; the prompt's own digest if there was one call."""
        digests = [reply.prompt_digest for reply in self._replies]
        return digests[0] if len(digests) == 1 else sha256_of(digests) if digests else ""

    async def ask(self, stage: str, render: Callable[[Budgets], Prompt]) -> Reply:
        """Return the reply to the next call.

        Args:
            stage: What is being done, for progress.
            render: Makes the prompt within budgets; called again with smaller ones if the model's context is too small.

        Raises:
            AbortedError: The call may have been paid for, and there is no reply.
            CostLimitError: The call was not made, since it may end above the request's limit; earlier ones were paid for.
            FailedPreconditionError: As that, and nothing was paid for yet (COST_ABOVE_LIMIT); or no price is known (PRICE_UNKNOWN).
            InvalidArgumentError: Another request was paid for under this id (REQUEST_INVALID); if it was meanwhile, this reply is lost.
            ServiceError: The endpoint or the store cannot be used, and nothing was paid; the reason says why.

        """
        call, planned = len(self._replies), None
        self._report(Progress(stage, self._chars))
        if self._paid is None:
            planned = self._plan(render)
            self._paid = await self._open(planned)
        kept = self._paid.replies
        reply = kept[call] if call < len(kept) else await self._buy(call, stage, render, planned or self._plan(render))
        self._replies.append(reply)
        return reply

    def _plan(self, render: Callable[[Budgets], Prompt]) -> _Planned:
        full = render(Budgets())
        return _Planned(full, self._tariff.worst(full, self._request.sampling), uuid.uuid4().hex)

    async def _open(self, first: _Planned) -> Paid:
        """Return what was paid for the request; if nothing was, its first call is noted in the same transaction if it may be made."""
        worst = None if self._refusal(first) else first.worst
        paid = await self._store.claim(self._request.request_id, self._digest, first.attempt, worst)
        self._strayed = paid.strayed
        self._noted = first.attempt if worst and paid.nothing else ""
        return paid

    def _refusal(self, planned: _Planned) -> FailedPreconditionError | None:
        return self._tariff.refusal(self._request.max_cost_micro_usd, self.usage, planned.worst)

    async def _buy(self, call: int, stage: str, render: Callable[[Budgets], Prompt], planned: _Planned) -> Reply:
        if refusal := self._refusal(planned):
            raise CostLimitError(refusal) if self._replies else refusal
        if self._noted != planned.attempt:
            await self._store.begin(self._request.request_id, planned.attempt, planned.worst)
        bought = self._tariff.priced(await self._pay(call, stage, render, planned), planned.worst)
        # The reply is paid for: a cancelled call must not lose it between the wire and the disk.
        reply = await asyncio.shield(self._keep(call, bought, planned.attempt))
        if reply != bought:
            self._strayed += bought.usage
            structlog.get_logger().warning("reply_paid_twice", call=call, model=bought.model, cost_micro_usd=bought.usage.cost_micro_usd)
        self._log(call, reply, render)
        return reply

    def _log(self, call: int, reply: Reply, render: Callable[[Budgets], Prompt]) -> None:
        log, named = structlog.get_logger(), {"call": call, "prompt_digest": reply.prompt_digest}
        log.info("paid_reply", model=reply.model, finish=reply.finish.value, usage_estimated=reply.usage.estimated, **named)
        if self._log_prompts:
            messages = [[message.role, message.content] for message in render(Budgets()).messages]
            log.info("prompt_and_reply", prompt=messages, reply=reply.text, **named)

    async def _keep(self, call: int, reply: Reply, attempt: str) -> Reply:
        try:
            # Money is at stake, and to keep a reply twice changes nothing: a database that fails over is worth some waiting.
            return await repeating(
                lambda: self._store.keep(self._request.request_id, self._digest, call, reply, attempt),
                on=UnavailableError,
                attempts=None,
                timeout_s=_KEEP_PATIENCE_S,
            )
        except InvalidArgumentError:
            structlog.get_logger().warning("paid_reply_lost", call=call, model=reply.model, cost_micro_usd=reply.usage.cost_micro_usd)
            raise
        except UnavailableError as error:
            # Callers repeat UNAVAILABLE by themselves, and this call was paid for.
            raise AbortedError(f"a reply was paid for and is lost: {error.message}", reason=error.reason) from error

    async def _pay(self, call: int, stage: str, render: Callable[[Budgets], Prompt], planned: _Planned) -> Reply:
        try:
            return await self._within_context(call, stage, render, planned.prompt)
        except AbortedError:
            raise  # something may have been generated, so the attempt stays at its worst case, as it does if the caller leaves
        except ServiceError:
            with suppress(UnavailableError):  # then it stays, which claims too much and not too little
                await self._store.forget(planned.attempt)
            raise

    async def _within_context(self, call: int, stage: str, render: Callable[[Budgets], Prompt], full: Prompt) -> Reply:
        said, name = "", f"{self._request.request_id}/{call}"
        for share in _SHARES:
            try:
                prompt = full if share == 1.0 else render(Budgets().scaled(share))
                return await self._endpoint.complete(prompt, self._sampling(share), self._receiver(stage), name)
            except PromptTooLongError as error:
                said = error.message
        raise FailedPreconditionError(
            f"even a short prompt does not fit into the context of this model: {said}; serve it with a larger context or use another model",
            reason="PROVIDER_REFUSED_REQUEST",
        )

    def _sampling(self, share: float) -> Sampling:
        sampling = self._request.sampling
        return replace(sampling, max_output_tokens=max(1, int(sampling.max_output_tokens * share)))

    def _receiver(self, stage: str) -> Callable[[int], None]:
        def receive(chars: int) -> None:
            self._chars += chars
            self._report(Progress(stage, self._chars))

        return receive


class PaidCalls:
    """Opens sessions over one endpoint and one store, at most one at a time for each request id.

    Args:
        endpoint: Where calls go.
        store: Where their replies go.
        prices: What they cost.
        manner: Which calls a request makes where that is a matter of settings: replies that were paid for in another manner do not fit.
        log_prompts: Whether prompts and replies go into the log whole.

    """

    def __init__(self, endpoint: ChatEndpoint, store: ReplyStore, prices: Prices, manner: str = "", *, log_prompts: bool = False) -> None:
        self._endpoint, self._store, self._prices = endpoint, store, prices
        self._manner, self._log_prompts = manner, log_prompts
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def tariff(self, model: str) -> Tariff:
        """Return what calls of a model cost; an empty name stands for the endpoint's default."""
        endpoint = self._endpoint
        named = model or endpoint.default_model
        found = self._prices.find(endpoint.name, endpoint.host, named)
        price, table = found or (None, None)
        return Tariff(endpoint.name, named, price, table, endpoint.attempts_that_may_be_paid)

    @asynccontextmanager
    async def session(self, request: ModelRequest, report: ProgressSink) -> AsyncIterator[PaidSession]:
        """Open the session of a request; a second one with the same id waits for the first, then finds its replies."""
        lock = self._locks.setdefault(request.request_id, asyncio.Lock())
        async with lock:
            digest = sha256_of([request_digest(request), self._manner]) if self._manner else request_digest(request)
            tariff = self.tariff(request.sampling.model)
            yield PaidSession(request, digest, self._endpoint, self._store, tariff, report, log_prompts=self._log_prompts)
