"""Databases that no migration has touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.sql import postgres_engine, sqlite_engine


@pytest.fixture(params=["sqlite", "postgresql"])
def blank(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AsyncEngine]:
    """Return what gives engines over one database without tables."""
    if request.param == "sqlite":
        return lambda: sqlite_engine(tmp_path / "blank.sqlite3")
    url = request.getfixturevalue("postgres").fresh()
    return lambda: postgres_engine(url, application="tests", lock_timeout_ms=60_000)
