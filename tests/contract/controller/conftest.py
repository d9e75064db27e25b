"""A store with a clock of its own, over every database that the controller supports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from adaexplore_controller.domain import SearchSpec
from adaexplore_controller.store import SCHEMA, Database, History, Lease, LeaseHolder, Ledger, SearchStore
from contract.conftest import Place

from adaexplore.runtime.migrations import Schema


@dataclass
class Clock:
    """A clock that moves only when told to."""

    time: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class House:
    """A store, what reads it, and helpers that speak as one controller."""

    database: Database
    store: SearchStore
    history: History
    ledger: Ledger
    clock: Clock
    dead: set[str]
    alive: set[str]

    def lease(self, owner: str = "me", seconds: float = 10.0) -> Lease:
        return Lease(LeaseHolder(owner, "host", owner), self.clock().timestamp() + seconds)

    async def start(self, search_id: str = "s1", request_id: str = "", owner: str = "me") -> None:
        await self.store.create(search_id, SearchSpec(b"spec", seed=7, max_steps=5), request_id, self.lease(owner))


def make_house(database: Database, clock: Clock | None = None) -> House:
    clock, dead, alive = clock or Clock(), set[str](), set[str]()

    def is_alive(holder: LeaseHolder) -> bool | None:
        return False if holder.owner in dead else (True if holder.owner in alive else None)

    return House(database, SearchStore(database, clock, alive=is_alive), History(database), Ledger(database, clock), clock, dead, alive)


@pytest.fixture
def place(place_for: Callable[[Schema], Place]) -> Place:
    return place_for(SCHEMA)


@pytest.fixture
async def house(place: Place) -> AsyncIterator[House]:
    house = make_house(Database(place.engine()))
    await house.database.open()
    yield house
    await house.database.close()


@pytest.fixture
async def neighbour(place: Place, house: House) -> AsyncIterator[House]:
    """The house of another controller over the same database."""
    other = make_house(Database(place.engine()), house.clock)
    await other.database.open()
    yield other
    await other.database.close()
