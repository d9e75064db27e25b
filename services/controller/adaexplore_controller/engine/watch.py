"""Follows a search by its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from adaexplore.runtime.errors import UnavailableError
from adaexplore_controller.domain import Node, Search, SearchState
from adaexplore_controller.engine.bell import Bell
from adaexplore_controller.events import Event, NodeRecorded
from adaexplore_controller.store import History, SearchStore

_PAGE = 100
# Another process may write; its writes ring no bell here.
_POLL_S = 0.5
_RESTING = frozenset({SearchState.PAUSED, SearchState.INTERRUPTED})


class Watcher:
    """Streams events of searches.

    Args:
        store: Where searches are kept.
        history: Reads their events.
        bell: Rings after every write of this process.
        closing: Set when the server stops; every stream then breaks off.

    """

    def __init__(self, store: SearchStore, history: History, bell: Bell, closing: asyncio.Event) -> None:
        self._store, self._history, self._bell, self._closing = store, history, bell, closing

    async def follow(self, search_id: str, after_sequence: int) -> AsyncIterator[tuple[Search, Event, Node | None]]:
        """Yield events from after a sequence number on, with their search and the node that was recorded, until the search rests.

        Raises:
            NotFoundError: There is no such search.
            UnavailableError: The server stops; watch again from the last sequence seen.

        """
        sequence = after_sequence
        while True:
            rung = self._bell.listen()
            search = await self._store.get(search_id)
            while sequence < search.last_sequence:
                for event in await self._history.events(search_id, sequence, _PAGE):
                    yield search, event, await self._node(search_id, event)
                    sequence = event.sequence
            if search.progress.state.ended or search.progress.state in _RESTING:
                return
            if self._closing.is_set():
                raise UnavailableError("the controller stops; watch again from the last sequence seen", retry_after_s=1.0)
            with suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), _POLL_S)

    async def _node(self, search_id: str, event: Event) -> Node | None:
        return await self._history.node(search_id, event.body.step) if isinstance(event.body, NodeRecorded) else None
