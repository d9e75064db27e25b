"""One place for a store, in every kind of database that is supported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from databases import Databases
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.migrations import Schema
from adaexplore.runtime.sql import postgres_engine, sqlite_engine


@dataclass(frozen=True)
class Place:
    """Where a store is. Each call of `engine` gives an engine of its own, as another process would have."""

    kind: str
    engine: Callable[[], AsyncEngine]


@pytest.fixture(params=["sqlite", "postgresql"])
def place_for(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Schema], Place]]:
    """What makes the place of a service's store; PostgreSQL is migrated already."""
    if request.param == "sqlite":
        yield lambda schema: Place("sqlite", lambda: sqlite_engine(tmp_path / "deep" / schema.file_name))
        return
    databases: Databases = request.getfixturevalue("postgres")
    with ExitStack() as lent:

        def place(schema: Schema) -> Place:
            url = lent.enter_context(databases.lent(schema))
            return Place("postgresql", lambda: postgres_engine(url, application="tests", lock_timeout_ms=60_000))

        yield place
