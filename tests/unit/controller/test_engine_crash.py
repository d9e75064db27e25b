"""A controller that dies at any instant: the next one finishes the same search."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from adaexplore_controller.domain import Candidate, Kernel, Outcome, Search, Usage
from adaexplore_controller.events import NodeRecorded, SkillLearnt, SkillRespected, StepStarted
from adaexplore_controller.store import Change
from unit.controller.fakes import FORBIDDEN, Fuse, Killed, World, comparable, digest_of

from adaexplore.runtime.errors import UnavailableError

STEPS = 3
TOLD_ONCE = (NodeRecorded, SkillLearnt, SkillRespected, StepStarted)


def eventful(path: Path) -> World:
    """Return a world in which three steps pass through every phase: a rule is taught, proven, broken and respected."""
    world = World(path)
    world.generator.script = {
        "steps/1/attempts/1": [kernel(f"# {FORBIDDEN} one")],
        "steps/2/attempts/1": [Candidate(Outcome.DUPLICATE, Kernel("# one"), usage=Usage(1, 0, 1, 0, 1, 1))],
        "steps/2/attempts/2": [kernel(f"# {FORBIDDEN} two")],
        "steps/2/attempts/3": [replace(kernel("# two"), respected_skills=("skills/1",))],
        "steps/3/attempts/1": [Candidate(Outcome.NO_CODE, usage=Usage(1, 0, 1, 0, 1, 1))],
    }
    return world


def kernel(text: str) -> Candidate:
    return Candidate(Outcome.KERNEL, Kernel(text, digest_of(text)), text, usage=Usage(1, 0, 1, 0, 1, 1))


async def run_with_kills(world: World, kill_at: list[int]) -> Search:
    """Run a search to its end while its controllers are killed, the first at the first instant of the list, and so on."""
    await world.database.open()
    await world.start(max_steps=STEPS, max_cost_micro_usd=1_000_000)
    for life, instant in enumerate([*kill_at, None]):
        owner = "one" if life == 0 else f"life {life}"
        if life:
            await world.take_over(owner)
        world.set_fuse(Fuse(instant))
        try:
            await world.runner(owner).run("s")
        except Killed:
            if not (await world.store.get("s")).progress.state.ended:
                continue
        break
    return await world.store.get("s")


async def test_a_killed_controller_loses_nothing_and_repeats_at_most_what_was_in_flight(tmp_path: Path) -> None:
    whole = eventful(tmp_path / "whole.sqlite3")
    ended = await run_with_kills(whole, [])
    expected = comparable(await whole.history.nodes("s"))
    told = [body for body in await whole.bodies() if isinstance(body, TOLD_ONCE)]
    assert whole.fuse.instants > 10 * STEPS
    assert len(whole.generator.paid) == 5
    assert {type(body) for body in told} == set(TOLD_ONCE)
    assert any(isinstance(body, SkillRespected) and body.by_check for body in told)
    for instant in range(1, whole.fuse.instants + 1):
        world = eventful(tmp_path / f"{instant}.sqlite3")
        search = await run_with_kills(world, [instant])
        where = f"killed at instant {instant}"
        assert comparable(await world.history.nodes("s")) == expected, where
        assert [body for body in await world.bodies() if isinstance(body, TOLD_ONCE)] == told, where
        assert search.progress.usage == ended.progress.usage, where
        assert sum(world.evaluator.evaluated.values()) <= sum(whole.evaluator.evaluated.values()) + 1, where
        assert world.generator.paid == whole.generator.paid, where
        assert world.memory.failures.keys() == whole.memory.failures.keys(), where
        assert await world.ledger.purse("s") == await whole.ledger.purse("s"), where
        await world.database.close()
    await whole.database.close()


@pytest.mark.parametrize("every", [2, 3, 5])
async def test_a_write_whose_answer_is_lost_is_not_written_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    whole, world = eventful(tmp_path / "whole.sqlite3"), eventful(tmp_path / "lossy.sqlite3")
    ended = await run_with_kills(whole, [])
    commit, commits = world.store.commit, itertools.count(1)

    async def lossy(search_id: str, owner: str, change: Change) -> Search:
        written = await commit(search_id, owner, change)
        if next(commits) % every == 0:
            raise UnavailableError("the connection broke after the commit", reason="STORE_UNAVAILABLE")
        return written

    monkeypatch.setattr(world.store, "commit", lossy)
    search = await run_with_kills(world, [])
    assert next(commits) > 10
    assert search.progress == ended.progress
    assert comparable(await world.history.nodes("s")) == comparable(await whole.history.nodes("s"))
    assert await world.bodies() == await whole.bodies()
    for used in (whole, world):
        await used.database.close()


@pytest.mark.parametrize("interval", [7, 13, 29])
async def test_many_kills_in_a_row_change_nothing_either(tmp_path: Path, interval: int) -> None:
    whole, world = eventful(tmp_path / "whole.sqlite3"), eventful(tmp_path / "killed.sqlite3")
    await run_with_kills(whole, [])
    await run_with_kills(world, [interval] * 60)
    assert comparable(await world.history.nodes("s")) == comparable(await whole.history.nodes("s"))
    events = await world.history.events("s", 0, 100_000)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    await world.database.close()
    await whole.database.close()
