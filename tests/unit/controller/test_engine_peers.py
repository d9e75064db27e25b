"""Services that are out of reach, busy, or refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from adaexplore_controller.domain import (
    SearchState,
    StopReason,
)
from adaexplore_controller.engine.patience import Patience
from unit.controller.fakes import World, comparable, kernel

from adaexplore.runtime.errors import (
    FailedPreconditionError,
    InternalError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("gone"),
        ResourceExhaustedError("busy", reason="QUEUE_FULL", retry_after_s=3.0),
        UnauthenticatedError("tokens are being exchanged", reason="TOKEN_WRONG"),
    ],
)
async def test_a_service_that_comes_back_is_waited_for(world: World, error: Exception, tmp_path: Path) -> None:
    world.evaluator.script["steps/2/evaluation"] = [error] * 6  # type: ignore[list-item]
    world.generator.script["steps/3/attempts/1"] = [UnavailableError("restarting")]
    search = await world.run(max_steps=5)
    assert search.progress.stop_reason is StopReason.STEPS
    assert len(world.slept_s) == 7
    other = World(tmp_path / "other.sqlite3")
    await other.run(max_steps=5)
    assert comparable(await other.history.nodes("s")) == comparable(await world.history.nodes("s"))
    await other.database.close()
    if isinstance(error, ResourceExhaustedError):
        assert min(world.slept_s[:6]) >= 3.0


async def test_a_service_that_stays_away_ends_the_search_with_one_clear_line(world: World) -> None:
    world.patience = Patience(outage_s=60)
    world.evaluator.script["steps/2/evaluation"] = [UnavailableError("connection\nrefused")] * 1000
    search = await world.run()
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.FAILED, StopReason.ERROR)
    assert search.progress.error_message == "evaluator: UNAVAILABLE: connection refused"
    assert 60 <= sum(world.slept_s) < 75
    assert len(await world.history.nodes("s")) == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FailedPreconditionError("set OPENAI_API_KEY", reason="KEY_MISSING"), "generator: KEY_MISSING: set OPENAI_API_KEY"),
        (PermissionDeniedError("the key was refused", reason="KEY_REFUSED"), "generator: KEY_REFUSED: the key was refused"),
        (NotFoundError("no such model", reason="MODEL_UNKNOWN"), "generator: MODEL_UNKNOWN: no such model"),
        (InternalError("a defect"), "generator: INTERNAL: a defect"),
        (ResourceExhaustedError("5 MB", reason="MESSAGE_TOO_LARGE"), "generator: MESSAGE_TOO_LARGE: 5 MB"),
        (UnauthenticatedError("no token", reason="TOKEN_MISSING"), "generator: TOKEN_MISSING: no token"),
    ],
)
async def test_a_refusal_ends_the_search_at_once_with_its_reason(world: World, error: Exception, line: str) -> None:
    world.generator.script["steps/2/attempts/1"] = [error]  # type: ignore[list-item]
    search = await world.run()
    assert (search.progress.state, search.progress.error_message) == (SearchState.FAILED, line)
    assert world.slept_s == []
    assert len(await world.history.nodes("s")) == 1


async def test_an_unreachable_provider_is_given_up_sooner_than_a_service(world: World) -> None:
    world.generator.script["steps/1/attempts/1"] = [UnavailableError("http://x refused", reason="PROVIDER_UNREACHABLE")] * 1000
    search = await world.run()
    assert search.progress.error_message == "generator: PROVIDER_UNREACHABLE: http://x refused"
    assert sum(world.slept_s) < 30


async def test_a_failed_service_leaves_neither_nodes_nor_lessons(world: World) -> None:
    world.generator.script["steps/1/attempts/1"] = [kernel("# one")]
    world.evaluator.script["steps/1/evaluation"] = [InternalError("worker lost")]
    await world.run()
    assert await world.history.nodes("s") == ()
    assert (world.memory.failures, world.memory.outcomes) == ({}, {})
