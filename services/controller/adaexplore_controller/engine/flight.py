"""The steps of one search, so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from adaexplore_controller.domain import SearchState, StepState, StopReason, Wish
from adaexplore_controller.engine.context import SearchContext
from adaexplore_controller.engine.journal import SearchStoppedError
from adaexplore_controller.engine.steps import Steps

# What one step runs into is no reason to give up the others, which are paid for.
_AWAITED = frozenset({StopReason.EXHAUSTED, StopReason.COST})


class Flight:
    """Begins steps while there are any, and makes up to the search's `max_in_flight` of them at one time.

    Args:
        search: The search.

    """

    def __init__(self, search: SearchContext) -> None:
        self._search = search
        self._steps = Steps(search)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop: SearchStoppedError | None = None

    async def run(self, left: Sequence[StepState]) -> None:
        """Continue the steps that were left in flight, and make others until the search ends, or a user wishes it to pause.

        Raises:
            SearchStoppedError: The search has ended; steps in flight are done, but for those that the error leaves no sense to.
            PeerFailedError: A service refused or stayed out of reach.

        """
        search = self._search
        newest = max([state.step for state in left] + [node.step for node in search.tree.nodes()[-1:]], default=0)
        try:
            for state in left:
                self._steps.take_up(state)
                self._start(state)
            while True:
                while self._may_begin(newest):
                    newest += 1
                    self._start(await self._steps.begin(newest))
                    self._collect()
                if not self._tasks:
                    break
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                self._collect()
        finally:
            await self._abandon()
        if self._stop:
            raise self._stop
        if newest >= search.spec.max_steps:
            raise SearchStoppedError(SearchState.SUCCEEDED, StopReason.STEPS)

    def _may_begin(self, newest: int) -> bool:
        journal, spec = self._search.journal, self._search.spec
        wanted = self._stop is None and journal.search.wish is not Wish.PAUSE
        return wanted and newest < spec.max_steps and len(self._tasks) < spec.max_in_flight

    def _start(self, state: StepState) -> None:
        self._tasks.add(asyncio.create_task(self._make(state)))

    async def _make(self, state: StepState | None) -> None:
        while state:
            state = await self._steps.advance(state)

    def _collect(self) -> None:
        """Take the steps that are done out of flight; raise what one of them failed with unless the others are awaited first."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            error = task.exception()
            if isinstance(error, SearchStoppedError) and error.reason in _AWAITED:
                self._stop = self._stop or error
            elif error:
                raise error

    async def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
