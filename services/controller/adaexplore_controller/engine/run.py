"""Drives one search from where it stands to its end, a pause, or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from adaexplore_controller.domain import SearchState, StopReason, TaskFacts
from adaexplore_controller.engine.context import Peers, SearchContext
from adaexplore_controller.engine.flight import Flight
from adaexplore_controller.engine.journal import Journal, SearchStoppedError
from adaexplore_controller.engine.patience import Patient, PeerFailedError
from adaexplore_controller.engine.treasury import Payment, Treasury
from adaexplore_controller.ensemble import Contributions
from adaexplore_controller.events import StateChanged
from adaexplore_controller.policies import create_policy
from adaexplore_controller.store import Change, History, SearchStore
from adaexplore_controller.tree import Tree


@dataclass(frozen=True, slots=True)
class SearchRunner:
    """Drives searches on behalf of one controller process.

    Args:
        store: Where searches are kept.
        history: Reads their nodes.
        peers: The other services.
        patient: Waits for them.
        treasury: Pays for generations.
        owner: Holder of the leases.
        now: Clock, in UTC.
        monotonic_s: Clock that only runs forward, in seconds.

    """

    store: SearchStore
    history: History
    peers: Peers
    patient: Patient
    treasury: Treasury
    owner: str
    now: Callable[[], datetime]
    monotonic_s: Callable[[], float]

    async def run(self, search_id: str) -> None:
        """Drive a search whose lease the owner holds until it ends or pauses.

        Raises:
            LeaseLostError: Another controller drives it.
            PeerFailedError: The store stayed out of reach; nothing could be written about it.

        """
        search = await self.patient.call("store", lambda: self.store.get(search_id))
        journal = Journal(self.store, search, self.owner, self.monotonic_s, self.patient)
        try:
            await self._within_wall_time(journal)
        except SearchStoppedError as stop:
            await self._finish(journal, stop)
        except PeerFailedError as failure:
            if failure.service == "store":
                raise
            await self._finish(journal, SearchStoppedError(SearchState.FAILED, StopReason.ERROR, str(failure)))

    async def _within_wall_time(self, journal: Journal) -> None:
        limit_s = journal.search.spec.max_wall_time_s
        left_s = None if limit_s is None else max(0.0, limit_s - journal.search.spent_s)
        try:
            async with asyncio.timeout(left_s) as clock:
                await self._explore(journal)
        except TimeoutError:
            if not clock.expired():
                raise
            raise SearchStoppedError(SearchState.SUCCEEDED, StopReason.WALL_TIME) from None

    async def _explore(self, journal: Journal) -> None:
        facts = journal.search.facts or await self._describe(journal)
        if not facts.valid:
            raise SearchStoppedError(SearchState.FAILED, StopReason.TASK_INVALID, facts.message)
        search_id, spec = journal.search.id, journal.search.spec
        nodes = await self.patient.call("store", lambda: self.history.nodes(search_id))
        digests = [node.digest for node in nodes if node.digest]
        tree, policy = Tree(node.in_tree() for node in nodes), create_policy(spec.policy, spec.seed)
        payment = Payment(self.treasury, self.peers.generator, self.patient, search_id, spec.max_cost_micro_usd)
        brought = Contributions(len(spec.ensemble.weights) if spec.ensemble else 0, nodes)
        context = SearchContext(journal, self.history, self.peers, self.patient, policy, facts, tree, self.now, payment, brought, digests)
        await Flight(context).run(await self.patient.call("store", lambda: self.store.steps(search_id)))
        await journal.change_state(replace(journal.search.progress, state=SearchState.PAUSED))

    async def _describe(self, journal: Journal) -> TaskFacts:
        spec = journal.search.spec
        facts = await self.patient.call("evaluator", lambda: self.peers.evaluator.describe(spec))
        await journal.write(Change(events=(StateChanged(journal.search.progress),), facts=facts))
        return facts

    async def _finish(self, journal: Journal, stop: SearchStoppedError) -> None:
        ended = replace(journal.search.progress, state=stop.state, stop_reason=stop.reason, error_message=stop.message, end_time=self.now())
        await journal.change_state(ended)
        structlog.get_logger().info("search ended", search=journal.search.name, state=ended.state, reason=ended.stop_reason)
