"""Keeps a search within its money: the worst case of every generation is reserved before it begins, what it cost takes its place after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import structlog

from adaexplore.runtime.errors import FailedPreconditionError, ServiceError
from adaexplore_controller.domain import Candidate, GenerationEstimate, Outcome, SearchState, StopReason, Usage
from adaexplore_controller.engine.generation import generate_once
from adaexplore_controller.engine.journal import SearchStoppedError
from adaexplore_controller.engine.patience import Patient, PeerFailedError, Sleep, Waiting
from adaexplore_controller.ports import GenerationRequest, GeneratorPeer, Listener
from adaexplore_controller.store import Caps, Grant, Ledger

_POLL_S = 0.25
_SPENT = {
    Grant.SEARCH_SPENT: "the search's money is spent: another generation may cost {worst} USD, which is more than is left",
    Grant.DAY_SPENT: "the day's money of this controller is spent: another generation may cost {worst} USD, which is more than is left",
}
Ask = Callable[[Callable[[], Awaitable[Candidate]]], Awaitable[Candidate]]


class GenerationFailedError(PeerFailedError):
    """The generator refused or stayed out of reach, perhaps after it had paid for something.

    Args:
        failure: What happened.
        usage: What was used all the same.

    """

    def __init__(self, failure: PeerFailedError, usage: Usage) -> None:
        super().__init__(failure.service, failure.error)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class Treasury:
    """Pays for the generations of searches.

    Args:
        ledger: Where money is reserved and noted.
        day_cap: Most that all searches may cost on one day, in micro-USD; None means no limit.
        sleep: Sleeps for seconds.

    """

    ledger: Ledger
    day_cap: int | None
    sleep: Sleep

    def caps(self, search_cap: int | None) -> Caps:
        """Return what limits a search."""
        return Caps(search_cap, self.day_cap)


@dataclass(frozen=True, slots=True)
class Payment:
    """One generation and its money.

    Args:
        treasury: Pays.
        generator: Writes the candidate.
        patient: Waits for generator and store.
        search_id: The search.
        search_cap: Most that it may cost in micro-USD; None means no limit.

    """

    treasury: Treasury
    generator: GeneratorPeer
    patient: Patient
    search_id: str
    search_cap: int | None

    async def generate(self, request: GenerationRequest, listener: Listener, ask: Ask, waiting: Waiting) -> Candidate:
        """Return the candidate of a request that was reserved for and is settled.

        Args:
            request: The request.
            listener: Hears the generator's stages.
            ask: Calls the generator with patience.
            waiting: Hears that other searches hold the money that this one waits for.

        Raises:
            SearchStoppedError: There is not enough money left (COST), or the provider has nothing for the task.
            GenerationFailedError: The generator refused or stayed out of reach.
            PeerFailedError: The store stayed out of reach.

        """
        worst = await self._worst(request, waiting)
        strayed = 0
        while True:
            limited = request if worst is None else replace(request, max_cost_micro_usd=worst + strayed)
            if worst:
                await self._reserve(request.request_id, worst + strayed, waiting)
            try:
                found = await self._generated(limited, listener, ask)
            except PeerFailedError as failure:
                if failure.service == "store":
                    raise
                used = await self._used(limited)
                if failure.error.reason != "COST_ABOVE_LIMIT" or used.unconfirmed_cost_micro_usd <= strayed:
                    await self._settle(limited, used)
                    raise GenerationFailedError(failure, used) from failure
                found = Candidate(Outcome.COST_LIMIT, usage=used)
            # Calls of an earlier, broken attempt at this request count against its limit; they must not starve it.
            if found.outcome is not Outcome.COST_LIMIT or found.usage.unconfirmed_cost_micro_usd <= strayed:
                await self._settle(limited, found.usage)
                return found
            strayed = found.usage.unconfirmed_cost_micro_usd

    async def _worst(self, request: GenerationRequest, waiting: Waiting) -> int | None:
        if not self.treasury.caps(self.search_cap).any:
            return None
        try:
            estimated = await self.patient.call("generator", lambda: self.generator.estimate(request), waiting)
            return worst_of(estimated)
        except FailedPreconditionError as error:
            raise PeerFailedError("generator", error) from error

    async def _reserve(self, request_id: str, amount: int, waiting: Waiting) -> None:
        treasury, told = self.treasury, False
        caps = treasury.caps(self.search_cap)
        while True:
            grant = await self.patient.call("store", lambda: treasury.ledger.reserve(self.search_id, request_id, amount, caps))
            if grant is Grant.GRANTED:
                return
            if grant is not Grant.WAIT:
                raise SearchStoppedError(SearchState.SUCCEEDED, StopReason.COST, _SPENT[grant].format(worst=f"{amount / 1e6:.4f}"))
            if not told:
                await waiting("waiting for money that other generations have reserved")
            told = True
            await treasury.sleep(_POLL_S)

    async def _generated(self, request: GenerationRequest, listener: Listener, ask: Ask) -> Candidate:
        candidate = await ask(lambda: generate_once(self.generator, request, listener))
        return replace(candidate, usage=await self._used(request)) if candidate.lost else candidate

    async def _used(self, request: GenerationRequest) -> Usage:
        """Return what a request has used by the generator's own account; if it cannot say, what was reserved, all of it unconfirmed."""
        try:
            return await self.generator.used(request.request_id)
        except ServiceError as error:
            structlog.get_logger().warning("the usage of a generation is unknown", request_id=request.request_id, error=str(error))
            reserved = request.max_cost_micro_usd
            return Usage(calls=1, cost_micro_usd=reserved, unconfirmed_calls=1, unconfirmed_cost_micro_usd=reserved or 0)

    async def _settle(self, request: GenerationRequest, usage: Usage) -> None:
        """Note what a generation cost; where that is unknown although money was reserved for it, all of it is spent."""
        reserved = request.max_cost_micro_usd
        cost, doubtful = usage.cost_micro_usd, usage.unconfirmed_cost_micro_usd
        if cost is None:
            cost, doubtful = reserved or 0, reserved or 0
        if cost or reserved:
            await self.patient.call("store", lambda: self.treasury.ledger.settle(self.search_id, request.request_id, cost, doubtful))


def worst_of(estimate: GenerationEstimate) -> int:
    """Return the most that a generation can cost in micro-USD.

    Raises:
        FailedPreconditionError: The price of its model is unknown (PRICE_UNKNOWN).

    """
    cost = estimate.worst_case.cost_micro_usd
    if cost is None:
        raise FailedPreconditionError(
            "money is limited and the price of the model is unknown: name a model with a known price, give its price in the generator's "
            "ADAEXPLORE_GENERATOR_PRICES_FILE, or leave the limit out",
            reason="PRICE_UNKNOWN",
        )
    return cost
