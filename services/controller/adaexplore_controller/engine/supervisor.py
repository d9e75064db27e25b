"""Keeps the searches of this process running: leases, takeovers, bounded parallelism."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from adaexplore.runtime.errors import ServiceError, UnavailableError
from adaexplore_controller.domain import SearchState, StopReason, Wish
from adaexplore_controller.engine.patience import PeerFailedError, Sleep
from adaexplore_controller.engine.run import SearchRunner
from adaexplore_controller.events import StateChanged
from adaexplore_controller.store import Change, Lease, LeaseHolder, LeaseLostError, SearchStore

_POLL_S = 0.25
# Callers wait meanwhile, by default for 30 s.
_LONGEST_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """How searches are kept: lease time in seconds, searches at once, and whether abandoned ones are taken over or only marked."""

    lease_s: float = 10.0
    most_running: int = 4
    take_over: bool = True


class Supervisor:
    """Drives every search that this process holds the lease of.

    Args:
        store: Where searches are kept.
        runner: Drives one search.
        holder: This process.
        settings: Lease time, parallelism, takeover.
        now: Clock, in UTC.
        sleep: Sleeps for seconds.

    """

    def __init__(
        self,
        store: SearchStore,
        runner: SearchRunner,
        holder: LeaseHolder,
        settings: SupervisorSettings,
        now: Callable[[], datetime],
        sleep: Sleep,
    ) -> None:
        self._store, self._runner, self._holder, self._settings = store, runner, holder, settings
        self._now, self._sleep = now, sleep
        self._slots = asyncio.Semaphore(settings.most_running)
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._keepers: list[asyncio.Task[None]] = []

    def lease(self) -> Lease:
        """Return a fresh lease of this process."""
        return Lease(self._holder, self._now().timestamp() + self._settings.lease_s)

    async def start(self) -> None:
        """Take over (or mark) what was abandoned, and keep doing so; UnavailableError if the store cannot be used."""
        await self._look_for_abandoned()
        self._keepers = [
            asyncio.create_task(self._every(self._settings.lease_s / 4, self._keep_leases)),
            asyncio.create_task(self._every(self._settings.lease_s / 2, self._look_for_abandoned)),
        ]

    async def stop(self) -> None:
        """Stop driving and give all leases up; searches that no user wished to rest stay RUNNING for whoever comes next."""
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for search_id in tuple(self._driven):
            await self._halt(search_id)
            await self._give_up(search_id)

    def drive(self, search_id: str) -> None:
        """Drive a search whose lease this process has just taken."""
        before = self._driven.get(search_id)
        self._driven[search_id] = asyncio.create_task(self._drive(search_id, before))

    async def cancel(self, search_id: str) -> None:
        """Cancel a search that a user wishes to be cancelled, calls in flight included, if this process drives it."""
        if search_id not in self._driven:
            return
        await self._halt(search_id)
        search = await self._store.get(search_id)
        if search.progress.state is SearchState.RUNNING:
            end = replace(search.progress, state=SearchState.CANCELLED, stop_reason=StopReason.CANCELLED, end_time=self._now())
            change = Change(events=(StateChanged(end),), progress=end)
            with suppress(LeaseLostError):  # it has ended, or another controller carries the wish out
                await self._store.commit(search_id, self._holder.owner, change)

    async def wait_for_driver(self, search_id: str) -> None:
        """Wait until the controller that drives a search has carried a wish out, or has had the time to look for one."""
        for _ in range(math.ceil(min(self._settings.lease_s, _LONGEST_WAIT_S) / _POLL_S)):
            search = await self._store.get(search_id)
            if search.progress.state is not SearchState.RUNNING:
                return
            await self._sleep(_POLL_S)

    async def _drive(self, search_id: str, before: asyncio.Task[None] | None) -> None:
        log = structlog.get_logger().bind(search=f"searches/{search_id}")
        try:
            if before:
                await asyncio.wait({before})
            async with self._slots:
                await self._runner.run(search_id)
        except LeaseLostError:
            log.warning("another controller took the search over")
        except PeerFailedError as failure:
            # The search stays RUNNING; it is taken up again once its lease has run out.
            log.error("the store cannot be used; the search waits", error=str(failure))
        except Exception:
            log.exception("a defect of the controller stopped the search")
            await self._fail(search_id)
        finally:
            if self._driven.get(search_id) is asyncio.current_task():
                del self._driven[search_id]

    async def _fail(self, search_id: str) -> None:
        try:
            search = await self._store.get(search_id)
            message = "a defect of the controller stopped the search; its log has the details"
            end = replace(
                search.progress,
                state=SearchState.FAILED,
                stop_reason=StopReason.ERROR,
                error_message=message,
                end_time=self._now(),
            )
            change = Change(events=(StateChanged(end),), progress=end)
            await self._store.commit(search_id, self._holder.owner, change)
        except (UnavailableError, LeaseLostError):
            structlog.get_logger().warning("the defect could not be recorded", search=f"searches/{search_id}")

    async def _halt(self, search_id: str) -> None:
        task = self._driven.get(search_id)
        if task:
            task.cancel()
            await asyncio.wait({task})

    async def _give_up(self, search_id: str) -> None:
        try:
            await self._store.release(self._holder.owner, search_id)
            await self._settle(search_id)
        except UnavailableError as error:
            structlog.get_logger().warning("a lease could not be given up; it runs out by itself", error=str(error))

    async def _settle(self, search_id: str) -> bool:
        """Carry out what a user wished of a search that nobody drives; False if there is no wish."""
        search = await self._store.get(search_id)
        if search.wish is not Wish.NONE:
            await self._store.wish(search_id, search.wish)
        return search.wish is not Wish.NONE

    async def _every(self, interval_s: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await self._sleep(interval_s)
            try:
                await work()
            except ServiceError as error:
                structlog.get_logger().warning("leases could not be kept; the next turn tries again", error=str(error))
            except Exception:
                structlog.get_logger().exception("a defect in keeping leases")

    async def _keep_leases(self) -> None:
        driven = tuple(self._driven)
        if not driven:
            return
        held = await self._store.renew(self._holder.owner, driven, self.lease().expire_time)
        for search_id in driven:
            if search_id in self._driven and search_id not in held:
                self._driven[search_id].cancel()
            elif held.get(search_id) is Wish.CANCEL:
                await self.cancel(search_id)

    async def _look_for_abandoned(self) -> None:
        for search_id in await self._store.orphans(self._holder.owner):
            if search_id in self._driven or await self._settle(search_id):
                continue
            if not self._settings.take_over:
                await self._store.interrupt(search_id)
            elif await self._store.adopt(search_id, self.lease()):
                self.drive(search_id)
