"""The store of searches: every change is one fenced transaction, so that a search is always whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from adaexplore.runtime.errors import FailedPreconditionError, NotFoundError
from adaexplore.runtime.sql import insert_or
from adaexplore_controller.domain import Node, Progress, Search, SearchSpec, SearchState, StepState, StopReason, TaskFacts, Usage, Wish
from adaexplore_controller.events import Event, EventBody, StateChanged
from adaexplore_controller.store import codec, leases, ledger, tables
from adaexplore_controller.store.database import Database
from adaexplore_controller.store.leases import Lease, Liveness, is_alive
from adaexplore_controller.tree import ROOT_STEP

# What a wish comes to once nobody works on the search any more.
_SETTLED = {
    Wish.PAUSE: Progress(state=SearchState.PAUSED),
    Wish.CANCEL: Progress(state=SearchState.CANCELLED, stop_reason=StopReason.CANCELLED),
}


_SEARCH, _LEASE, _STEPS = select(tables.searches), select(tables.leases), tables.steps_in_flight
_WITH_LEASES = select(tables.searches, tables.leases).select_from(
    tables.searches.outerjoin(tables.leases, tables.leases.c.search_id == tables.searches.c.id)
)


# A process that is known to be alive may be late to renew, for example after the machine has slept.
_GRACE_S = 60.0


class LeaseLostError(Exception):
    """Another controller drives the search; whatever this one wanted to write is void."""


@dataclass(frozen=True, slots=True)
class Change:
    """All that one moment changes in a search: written together or not at all.

    `step` is what is known now of a step in flight, `done_step` the number of one that is in flight no more; a search that ends has none
    left. `spent_s` is wall time to add.
    """

    events: tuple[EventBody, ...] = ()
    progress: Progress | None = None
    node: Node | None = None
    step: StepState | None = None
    done_step: int | None = None
    facts: TaskFacts | None = None
    spent_s: float = 0.0


class SearchStore:
    """Searches, nodes, events, steps in flight and leases in one database.

    Every method raises UnavailableError (STORE_UNAVAILABLE) if the database cannot be used.

    Args:
        database: Where they are, opened.
        now: Clock, in UTC.
        alive: Tells whether the process behind a lease is alive.
        changed: Called after every write to a search.

    """

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime],
        alive: Liveness = is_alive,
        changed: Callable[[], None] | None = None,
    ) -> None:
        self._database, self._now, self._alive, self._changed = database, now, alive, changed

    async def create(self, search_id: str, spec: SearchSpec, request_id: str, lease: Lease) -> Search:
        """Store a new RUNNING search with its first event and its lease; a known request id returns the search it started."""
        async with self._writing() as connection:
            values = self._new_row(spec) | {"id": search_id, "request_id": request_id or None}
            statement = insert_or(connection, tables.searches).values(**values)
            await connection.execute(statement.on_conflict_do_nothing(index_elements=["request_id"]))
            if request_id:
                known = (await connection.execute(select(tables.searches).where(tables.searches.c.request_id == request_id))).one()
                if known.id != search_id:
                    return codec.search_from(known)
            root = {"search_id": search_id, "step": ROOT_STEP, "parent_step": ROOT_STEP, "visits": 0, "reward_sum": 0.0, "body": "{}"}
            await connection.execute(insert(tables.nodes).values(**root))
            await leases.write(connection, search_id, lease)
            search, _ = await self._hold(connection, search_id)
            return await self._apply(connection, search, Change(events=(StateChanged(search.progress),)))

    async def get(self, search_id: str) -> Search:
        """Return a search; NotFoundError (SEARCH_NOT_FOUND) if there is none."""
        async with self._database.transaction() as connection:
            row = (await connection.execute(_SEARCH.where(tables.searches.c.id == search_id))).first()
        return _found(search_id, row)

    async def page(self, limit: int, before_number: int | None = None) -> tuple[Search, ...]:
        """Return searches, the newest first, from below a number on."""
        query = select(tables.searches).order_by(tables.searches.c.number.desc()).limit(limit)
        if before_number is not None:
            query = query.where(tables.searches.c.number < before_number)
        async with self._database.transaction() as connection:
            return tuple(codec.search_from(row) for row in await connection.execute(query))

    async def commit(self, search_id: str, owner: str, change: Change) -> Search:
        """Apply a change on behalf of the lease's owner and return the search as it is now, wishes of users included.

        Raises:
            LeaseLostError: The owner does not hold the lease any more; nothing was written.

        """
        async with self._writing() as connection:
            search, lease = await self._hold(connection, search_id)
            if lease is None or lease.holder.owner != owner:
                raise LeaseLostError(search_id)
            return await self._apply(connection, search, change)

    async def wish(self, search_id: str, wish: Wish, *, over_driver: bool = False) -> Search:
        """Note what a user wants, or carry it out at once where no controller drives the search.

        Args:
            search_id: The search.
            wish: What the user wants.
            over_driver: Carry it out at once although a controller drives the search; whatever that one still writes is void.

        Raises:
            FailedPreconditionError: The search has ended (SEARCH_ENDED) in another way than wished.

        """
        async with self._writing() as connection:
            search, lease = await self._hold(connection, search_id)
            settled = _SETTLED[wish]
            if search.progress.state is settled.state or (wish is Wish.PAUSE and search.wish is Wish.CANCEL):
                return search
            _refuse_ended(search)
            if search.progress.state is SearchState.RUNNING and self._live(lease) and not over_driver:
                return await self._apply(connection, replace(search, wish=wish), Change())
            end_time = self._now() if settled.state.ended else None
            progress = replace(search.progress, state=settled.state, stop_reason=settled.stop_reason, end_time=end_time)
            return await self._apply(connection, search, Change(events=(StateChanged(progress),), progress=progress))

    async def resume(self, search_id: str, lease: Lease) -> tuple[Search, bool]:
        """Continue a search: take its lease if nobody drives it, and tell whether the caller has to drive it now.

        Raises:
            FailedPreconditionError: The search has ended (SEARCH_ENDED).

        """
        async with self._writing() as connection:
            search, held = await self._hold(connection, search_id)
            _refuse_ended(search)
            willing = replace(search, wish=Wish.NONE if search.wish is Wish.PAUSE else search.wish)
            if search.progress.state is SearchState.RUNNING and self._live(held):
                return await self._apply(connection, willing, Change()), False
            await leases.write(connection, search_id, lease)
            progress = replace(search.progress, state=SearchState.RUNNING)
            changed = () if progress == search.progress else (StateChanged(progress),)
            return await self._apply(connection, willing, Change(events=changed, progress=progress)), True

    async def orphans(self, owner: str) -> tuple[str, ...]:
        """Return the ids of RUNNING searches that no living controller drives, the owner with a good lease included, oldest first."""
        query = _WITH_LEASES.where(tables.searches.c.state == SearchState.RUNNING.value).order_by(tables.searches.c.number)
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query)).all()
        return tuple(row.id for row in rows if not self._live(_lease_of(row), owner))

    async def adopt(self, search_id: str, lease: Lease) -> bool:
        """Take the lease of a RUNNING search that no living controller drives; False if another one was faster."""
        async with self._database.transaction() as connection:
            search, held = await self._hold(connection, search_id)
            if search.progress.state is not SearchState.RUNNING or self._live(held, lease.holder.owner):
                return False
            await leases.write(connection, search_id, lease)
            return True

    async def interrupt(self, search_id: str) -> None:
        """Mark a RUNNING search that no living controller drives as INTERRUPTED."""
        async with self._writing() as connection:
            search, lease = await self._hold(connection, search_id)
            if search.progress.state is SearchState.RUNNING and not self._live(lease):
                progress = replace(search.progress, state=SearchState.INTERRUPTED)
                await self._apply(connection, search, Change(events=(StateChanged(progress),), progress=progress))

    async def renew(self, owner: str, search_ids: Collection[str], expire_time: float) -> Mapping[str, Wish]:
        """Prolong the owner's leases and return the searches whose lease it still holds, with what users wish of them."""
        async with self._database.transaction() as connection:
            return await leases.renew(connection, owner, search_ids, expire_time)

    async def release(self, owner: str, search_id: str) -> None:
        """Give a lease up if the owner holds it."""
        async with self._database.transaction() as connection:
            await leases.release(connection, owner, search_id)

    async def steps(self, search_id: str) -> tuple[StepState, ...]:
        """Return the steps in flight, the oldest first."""
        async with self._database.transaction() as connection:
            return await _steps_in_flight(connection, search_id)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._database.transaction() as connection:
            yield connection
        if self._changed:
            self._changed()

    def _live(self, lease: Lease | None, owner: str = "") -> bool:
        """Tell whether somebody else than the owner may be driving, or the owner's own lease is still good."""
        if lease is None:
            return False
        overdue_s = self._now().timestamp() - lease.expire_time
        if lease.holder.owner == owner:
            return overdue_s < 0
        alive = self._alive(lease.holder)
        return False if alive is False else overdue_s < (_GRACE_S if alive else 0)

    def _new_row(self, spec: SearchSpec) -> dict[str, Any]:
        progress = Progress()
        bodies = {"spec": codec.text(codec.SPEC, spec), "progress": codec.text(codec.PROGRESS, progress)}
        counters = {"spent_s": 0.0, "last_sequence": 0, "version": 0}
        return {**bodies, **counters, "state": progress.state.value, "wish": Wish.NONE.value, "create_time": self._now().timestamp()}

    async def _hold(self, connection: AsyncConnection, search_id: str) -> tuple[Search, Lease | None]:
        """Read a search and its lease, and keep all other writers off both until the transaction ends."""
        # Always in this order, and in two statements: one that joins both tables would see the lease as it was before it waited.
        row = (await connection.execute(_SEARCH.where(tables.searches.c.id == search_id).with_for_update(key_share=True))).first()
        search = _found(search_id, row)
        lease = (await connection.execute(_LEASE.where(tables.leases.c.search_id == search_id).with_for_update())).first()
        return search, leases.lease_from(lease) if lease else None

    async def _apply(self, connection: AsyncConnection, search: Search, change: Change) -> Search:
        if change.progress and change.progress.state.ended:
            reserved = await ledger.close(connection, search.id)
            change = _ending(change, change.progress, await _steps_in_flight(connection, search.id), reserved)
            await connection.execute(delete(_STEPS).where(_STEPS.c.search_id == search.id))
        if change.node:
            await _add_node(connection, search.id, change.node)
        if change.done_step is not None:
            await connection.execute(delete(_STEPS).where((_STEPS.c.search_id == search.id) & (_STEPS.c.step == change.done_step)))
        if change.step:
            await _write_step(connection, search.id, change.step)
        await self._add_events(connection, search, change.events)
        after = replace(
            search,
            progress=change.progress or search.progress,
            facts=change.facts or search.facts,
            last_sequence=search.last_sequence + len(change.events),
            version=search.version + 1,
            spent_s=search.spent_s + change.spent_s,
        )
        if after.progress.state is not SearchState.RUNNING:
            after = replace(after, wish=Wish.NONE)
            await connection.execute(delete(tables.leases).where(tables.leases.c.search_id == search.id))
        values = codec.search_values(after) | ({"facts": codec.text(codec.FACTS, change.facts)} if change.facts else {})
        await connection.execute(update(tables.searches).where(tables.searches.c.id == search.id).values(**values))
        return after

    async def _add_events(self, connection: AsyncConnection, search: Search, bodies: Sequence[EventBody]) -> None:
        time = self._now()
        events = [Event(search.last_sequence + index, time, body) for index, body in enumerate(bodies, start=1)]
        if events:
            await connection.execute(insert(tables.events), [codec.event_values(search.id, event) for event in events])


async def _steps_in_flight(connection: AsyncConnection, search_id: str) -> tuple[StepState, ...]:
    found = await connection.execute(select(_STEPS.c.body).where(_STEPS.c.search_id == search_id).order_by(_STEPS.c.step))
    return tuple(codec.STEP.validate_json(body) for body in found.scalars())


def _ending(change: Change, progress: Progress, steps: Sequence[StepState], reserved: int) -> Change:
    """Return the change that ends a search with what its unfinished steps have used, and may have used, although no node tells of it."""
    usage = progress.usage
    for step in steps:
        usage = usage.plus(step.unrecorded)
    if reserved:
        usage = usage.plus(Usage(calls=1, cost_micro_usd=reserved, unconfirmed_calls=1, unconfirmed_cost_micro_usd=reserved))
    whole = replace(progress, usage=usage)
    events = tuple(StateChanged(whole) if isinstance(body, StateChanged) else body for body in change.events)
    return replace(change, events=events, progress=whole, step=None, done_step=None)


async def _add_node(connection: AsyncConnection, search_id: str, node: Node) -> None:
    own = {"step": node.step, "parent_step": node.parent_step, "visits": 0, "reward_sum": 0.0, "body": codec.text(codec.NODE, node)}
    await connection.execute(insert(tables.nodes).values(search_id=search_id, **own))
    here = tables.nodes.c.search_id == search_id
    path = select(tables.nodes.c.step, tables.nodes.c.parent_step).where(here & (tables.nodes.c.step == node.step)).cte(recursive=True)
    # The root is its own parent; without the last condition the walk would never end there.
    above = here & (tables.nodes.c.step == path.c.parent_step) & (path.c.step != ROOT_STEP)
    path = path.union_all(select(tables.nodes.c.step, tables.nodes.c.parent_step).where(above))
    raised = {"visits": tables.nodes.c.visits + 1, "reward_sum": tables.nodes.c.reward_sum + node.reward}
    await connection.execute(update(tables.nodes).where(here & tables.nodes.c.step.in_(select(path.c.step))).values(**raised))


async def _write_step(connection: AsyncConnection, search_id: str, step: StepState) -> None:
    values = {"phase": step.phase.value, "body": codec.text(codec.STEP, step)}
    statement = insert_or(connection, _STEPS).values(search_id=search_id, step=step.step, **values)
    await connection.execute(statement.on_conflict_do_update(index_elements=["search_id", "step"], set_=values))


def _found(search_id: str, row: Row[Any] | None) -> Search:
    if row is None:
        name = f"searches/{search_id}"
        raise NotFoundError(f"there is no search `{name}`; ListSearches names all", reason="SEARCH_NOT_FOUND", resource=name)
    return codec.search_from(row)


def _lease_of(row: Row[Any]) -> Lease | None:
    return leases.lease_from(row) if row.owner else None


def _refuse_ended(search: Search) -> None:
    if search.progress.state.ended:
        message = f"`{search.name}` has ended ({search.progress.state}); start a new search"
        raise FailedPreconditionError(message, reason="SEARCH_ENDED", resource=search.name)
