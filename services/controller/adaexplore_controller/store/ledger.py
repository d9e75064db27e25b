"""The ledger: money is reserved before it can be spent, and what was spent replaces what was reserved.

Money is counted in micro-USD in two purses, the search's and the day's (UTC). Locks are always taken in the order day, search, ledger row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from adaexplore.runtime.sql import insert_or
from adaexplore_controller.store import tables
from adaexplore_controller.store.database import Database


@dataclass(frozen=True, slots=True)
class Caps:
    """Most that may be spent, in micro-USD; None means no limit."""

    search: int | None = None
    day: int | None = None

    @property
    def any(self) -> bool:
        """True if anything is limited."""
        return self.search is not None or self.day is not None


class Grant(Enum):
    """What became of a wish for money."""

    GRANTED = "GRANTED"
    # Others hold reservations; what they leave of them may be enough.
    WAIT = "WAIT"
    SEARCH_SPENT = "SEARCH_SPENT"
    DAY_SPENT = "DAY_SPENT"


@dataclass(frozen=True, slots=True)
class Purse:
    """What was spent, of which `unconfirmed` at its worst case, and what is reserved for calls in flight."""

    spent: int = 0
    unconfirmed: int = 0
    reserved: int = 0

    def grants(self, amount: int, cap: int | None, spent: Grant) -> Grant:
        """Say whether an amount may be reserved on top."""
        if cap is None or self.spent + self.reserved + amount <= cap:
            return Grant.GRANTED
        return Grant.WAIT if self.spent + amount <= cap else spent


@dataclass(frozen=True, slots=True)
class _Row:
    day: str
    reserved: int
    spent: int | None
    unconfirmed: int

    @property
    def held(self) -> int:
        return self.reserved if self.spent is None else 0


class Ledger:
    """Reservations and payments of searches in the controller's database.

    Every method raises UnavailableError (STORE_UNAVAILABLE) if the database cannot be used.

    Args:
        database: Where they are, opened.
        now: Clock, in UTC.

    """

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database, self._now = database, now

    async def reserve(self, search_id: str, request_id: str, amount: int, caps: Caps) -> Grant:
        """Reserve money for a request, or raise what is reserved for it to an amount; asked again, nothing is reserved twice."""
        async with self._database.transaction() as connection:
            day, purses, row = await self._locked(connection, search_id, request_id)
            more = amount - (row.reserved if row else 0)
            # What was settled before its step was stored is answered from the generator's store: nothing more is paid.
            if more <= 0 or (row and row.spent is not None):
                return Grant.GRANTED
            by_day = purses[_day(day)].grants(more, caps.day, Grant.DAY_SPENT)
            by_search = purses[_search(search_id)].grants(more, caps.search, Grant.SEARCH_SPENT)
            for refusal in (by_search, by_day):
                if refusal is not Grant.GRANTED:
                    return refusal
            values = {"search_id": search_id, "day": day, "reserved": amount}
            await _write(connection, request_id, values, known=row is not None)
            await _move(connection, day, search_id, reserved=more)
            return Grant.GRANTED

    async def settle(self, search_id: str, request_id: str, spent: int, unconfirmed: int) -> None:
        """Note what a request has cost, of which `unconfirmed` at its worst case, in place of what was reserved for it."""
        async with self._database.transaction() as connection:
            day, _, row = await self._locked(connection, search_id, request_id)
            if row is None and spent == 0:
                return
            held, before, doubtful = (row.held, row.spent or 0, row.unconfirmed) if row else (0, 0, 0)
            values = {"search_id": search_id, "day": day, "reserved": 0, "spent": spent, "unconfirmed": unconfirmed}
            await _write(connection, request_id, values, known=row is not None)
            await _move(connection, day, search_id, reserved=-held, spent=spent - before, unconfirmed=unconfirmed - doubtful)

    async def _locked(self, connection: AsyncConnection, search_id: str, request_id: str) -> tuple[str, Mapping[str, Purse], _Row | None]:
        """Lock the purses of a request and then its row, and return its day, the purses and the row."""
        row = await _row(connection, request_id, lock=False)
        day = row.day if row else self._now().date().isoformat()
        purses = await _purses(connection, day, search_id)
        # Read again: whoever held the purses may have written the row meanwhile.
        return day, purses, await _row(connection, request_id)

    async def purse(self, search_id: str) -> Purse:
        """Return what a search has spent and reserved."""
        async with self._database.transaction() as connection:
            return await _read(connection, _search(search_id))

    async def today(self) -> Purse:
        """Return what all searches have spent today and what is reserved."""
        async with self._database.transaction() as connection:
            return await _read(connection, _day(self._now().date().isoformat()))


async def close(connection: AsyncConnection, search_id: str) -> int:
    """Count what an ended search still has reserved as spent, since its calls may have been paid for, and return that in micro-USD."""
    open_rows = (tables.ledger.c.search_id == search_id) & tables.ledger.c.spent.is_(None)
    found = (await connection.execute(select(tables.ledger.c.request_id, tables.ledger.c.day).where(open_rows))).all()
    total = 0
    for day, request_id in sorted((row.day, row.request_id) for row in found):
        await _purses(connection, day, search_id)
        row = await _row(connection, request_id)
        held = row.held if row else 0
        values = {"reserved": 0, "spent": held, "unconfirmed": held}
        await connection.execute(update(tables.ledger).where(open_rows, tables.ledger.c.request_id == request_id).values(**values))
        await _move(connection, day, search_id, reserved=-held, spent=held, unconfirmed=held)
        total += held
    return total


def _day(day: str) -> str:
    return f"day:{day}"


def _search(search_id: str) -> str:
    return f"search:{search_id}"


async def _row(connection: AsyncConnection, request_id: str, *, lock: bool = True) -> _Row | None:
    query = select(tables.ledger).where(tables.ledger.c.request_id == request_id)
    found = (await connection.execute(query.with_for_update() if lock else query)).first()
    return _Row(found.day, found.reserved, found.spent, found.unconfirmed) if found else None


async def _write(connection: AsyncConnection, request_id: str, values: Mapping[str, object], *, known: bool) -> None:
    if known:
        await connection.execute(update(tables.ledger).where(tables.ledger.c.request_id == request_id).values(**values))
    else:
        await connection.execute(insert(tables.ledger).values(request_id=request_id, **values))


async def _purses(connection: AsyncConnection, day: str, search_id: str) -> Mapping[str, Purse]:
    """Lock both purses and return them."""
    found: dict[str, Purse] = {}
    for name in (_day(day), _search(search_id)):
        fresh = insert_or(connection, tables.purses).values(name=name, spent=0, unconfirmed=0, reserved=0)
        await connection.execute(fresh.on_conflict_do_nothing())
        row = (await connection.execute(select(tables.purses).where(tables.purses.c.name == name).with_for_update())).one()
        found[name] = Purse(row.spent, row.unconfirmed, row.reserved)
    return found


async def _move(connection: AsyncConnection, day: str, search_id: str, *, reserved: int, spent: int = 0, unconfirmed: int = 0) -> None:
    purse = tables.purses.c
    changes = {"reserved": purse.reserved + reserved, "spent": purse.spent + spent, "unconfirmed": purse.unconfirmed + unconfirmed}
    await connection.execute(update(tables.purses).where(purse.name.in_((_day(day), _search(search_id)))).values(**changes))


async def _read(connection: AsyncConnection, name: str) -> Purse:
    row = (await connection.execute(select(tables.purses).where(tables.purses.c.name == name))).first()
    return Purse(row.spent, row.unconfirmed, row.reserved) if row else Purse()
