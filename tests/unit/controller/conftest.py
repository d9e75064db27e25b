"""A world of fake peers for each test of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from unit.controller.fakes import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "c.sqlite3")
    yield world
    await world.database.close()
