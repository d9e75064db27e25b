"""Writes a search's progress on behalf of the process that drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from adaexplore_controller.domain import Progress, Search, SearchState, StopReason, Wish
from adaexplore_controller.engine.patience import Patient
from adaexplore_controller.events import StateChanged
from adaexplore_controller.store import Change, SearchStore


class SearchStoppedError(Exception):
    """The search ends here.

    Args:
        state: How it ends.
        reason: Why.
        message: One line about an error or an invalid task.

    """

    def __init__(self, state: SearchState, reason: StopReason, message: str = "") -> None:
        super().__init__(message or reason)
        self.state, self.reason, self.message = state, reason, message


class Journal:
    """The only writer of a running search; adds up the wall time and hears the wishes of users.

    Args:
        store: Where to write.
        search: The search as it was read.
        owner: Holder of its lease.
        monotonic_s: Clock that only runs forward, in seconds.
        patient: Waits while the store cannot be used.

    """

    def __init__(self, store: SearchStore, search: Search, owner: str, monotonic_s: Callable[[], float], patient: Patient) -> None:
        self._store, self._owner, self._monotonic_s, self._patient = store, owner, monotonic_s, patient
        self._mark_s = monotonic_s()
        self._turn = asyncio.Lock()
        self.search = search

    async def write(self, change: Change) -> None:
        """Write a change as a whole; raises as `update` does."""
        await self.update(lambda _progress: change)

    async def update(self, make: Callable[[Progress], Change]) -> None:
        """Write a change that is made of the progress as it is then, whatever other steps write.

        Raises:
            SearchStoppedError: It is written, and a user wants the search cancelled.
            LeaseLostError: Another controller drives the search; nothing was written.
            PeerFailedError: The store stayed out of reach.

        """
        async with self._turn:
            await self._commit(make(self.search.progress))
        if self.search.wish is Wish.CANCEL and not self.search.progress.state.ended:
            raise SearchStoppedError(SearchState.CANCELLED, StopReason.CANCELLED)

    async def change_state(self, progress: Progress) -> None:
        """Write a new state with its event; a search that ends keeps no step in flight."""
        async with self._turn:
            await self._commit(Change(events=(StateChanged(progress),), progress=progress))

    async def _commit(self, change: Change) -> None:
        tried_s: list[float] = []

        async def commit() -> None:
            if tried_s and await self._is_written(change, tried_s[-1]):
                return
            tried_s.append(self._monotonic_s())
            await self._commit_once(change)

        await self._patient.call("store", commit)

    async def _is_written(self, change: Change, tried_s: float) -> bool:
        """Tell whether a change was written although no answer came: a connection may break after its transaction has ended.

        Only the holder of the lease adds events; whoever takes it away writes another state.
        """
        found = await self._store.get(self.search.id)
        expected = change.progress or self.search.progress
        if not change.events or found.last_sequence == self.search.last_sequence or found.progress.state is not expected.state:
            return False
        self.search, self._mark_s = found, tried_s
        return True

    async def _commit_once(self, change: Change) -> None:
        now_s = self._monotonic_s()
        timed = replace(change, spent_s=now_s - self._mark_s)
        work = asyncio.ensure_future(self._store.commit(self.search.id, self._owner, timed))
        try:
            await asyncio.shield(work)
        finally:
            # Even a cancelled search waits for its last write, so that it knows what was written.
            await asyncio.wait({work})
            if not work.cancelled() and work.exception() is None:
                self.search, self._mark_s = work.result(), now_s
