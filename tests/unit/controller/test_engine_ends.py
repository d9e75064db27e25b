"""How searches rest and end: pause, cancel, wall time, lost leases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from adaexplore_controller.domain import Candidate, Evaluation, Outcome, SearchState, StopReason, Usage, Verdict, Wish
from adaexplore_controller.engine.control import Control
from adaexplore_controller.engine.patience import Sleep
from adaexplore_controller.engine.supervisor import Supervisor, SupervisorSettings
from adaexplore_controller.events import StateChanged
from adaexplore_controller.store import LeaseHolder, LeaseLostError
from unit.controller.fakes import FORBIDDEN, World, comparable, kernel

from adaexplore.runtime.errors import InternalError


async def test_a_search_pauses_after_the_step_in_flight_and_goes_on_where_it_stopped(world: World, tmp_path: Path) -> None:
    await world.database.open()
    await world.start(max_steps=6)
    world.evaluator.hold = asyncio.Event()
    running = asyncio.create_task(world.runner().run("s"))
    await world.evaluator.busy.wait()
    await world.store.wish("s", Wish.PAUSE)
    world.evaluator.hold.set()
    await running
    paused = await world.store.get("s")
    assert (paused.progress.state, paused.progress.steps) == (SearchState.PAUSED, 1)
    assert (await world.store.resume("s", world.lease("two")))[1]
    await world.runner("two").run("s")
    other = World(tmp_path / "other.sqlite3")
    await other.run(max_steps=6)
    assert comparable(await other.history.nodes("s")) == comparable(await world.history.nodes("s"))
    await other.database.close()


async def test_a_wish_to_cancel_stops_at_the_next_write(world: World) -> None:
    await world.database.open()
    await world.start()
    await world.store.wish("s", Wish.CANCEL)
    await world.runner().run("s")
    search = await world.store.get("s")
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.CANCELLED, StopReason.CANCELLED)
    assert world.generator.requests == []


async def test_the_wall_time_is_counted_over_all_runs(world: World) -> None:
    await world.database.open()
    await world.start(max_wall_time_s=100.0)
    world.evaluator.hold = asyncio.Event()
    running = asyncio.create_task(world.runner().run("s"))
    await world.evaluator.busy.wait()
    world.monotonic_s = 100.5
    await world.store.wish("s", Wish.PAUSE)
    world.evaluator.hold.set()
    await running
    assert (await world.store.get("s")).spent_s == 100.5
    await world.store.resume("s", world.lease("two"))
    await world.runner("two").run("s")
    search = await world.store.get("s")
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.SUCCEEDED, StopReason.WALL_TIME)
    assert search.progress.steps == 1


async def test_the_wall_time_ends_a_call_in_flight(world: World) -> None:
    world.evaluator.hold = asyncio.Event()
    search = await world.run(max_wall_time_s=0.2)
    assert search.progress.stop_reason is StopReason.WALL_TIME
    assert await world.history.nodes("s") == ()


async def test_a_controller_that_lost_its_lease_writes_nothing_more(world: World) -> None:
    await world.database.open()
    await world.start()
    world.evaluator.hold = asyncio.Event()
    running = asyncio.create_task(world.runner().run("s"))
    await world.evaluator.busy.wait()
    await world.take_over("two")
    before = await world.store.get("s")
    world.evaluator.hold.set()
    with pytest.raises(LeaseLostError):
        await running
    assert await world.store.get("s") == before


def _supervisor(world: World, owner: str, sleep: Sleep | None = None) -> Supervisor:
    return Supervisor(world.store, world.runner(owner), LeaseHolder(owner), SupervisorSettings(), world.now, sleep or world.sleep)


async def _driven_by_one(world: World) -> Supervisor:
    await world.database.open()
    await world.start()
    world.evaluator.hold = asyncio.Event()
    driver = _supervisor(world, "one")
    driver.drive("s")
    await world.evaluator.busy.wait()
    return driver


async def test_a_controller_that_does_not_drive_a_search_cancels_it_through_the_one_that_does(world: World) -> None:
    driver = await _driven_by_one(world)
    await driver.start()

    async def until_ended(_: float) -> None:
        while (await world.store.get("s")).progress.state is SearchState.RUNNING:
            await world.sleep(0)

    control = Control(world.store, _supervisor(world, "two", until_ended), world.estimator, new_id=lambda: "x")
    answer = await control.cancel("s")
    assert (answer.progress.state, answer.progress.stop_reason) == (SearchState.CANCELLED, StopReason.CANCELLED)
    assert await world.store.get("s") == answer
    await driver.stop()


async def test_a_driver_that_does_not_look_in_time_is_not_waited_for_and_writes_nothing_more(world: World) -> None:
    driver = await _driven_by_one(world)
    control = Control(world.store, _supervisor(world, "two"), world.estimator, new_id=lambda: "x")
    answer = await control.cancel("s")
    assert answer.progress.state is SearchState.CANCELLED
    assert 0 < sum(world.slept_s) <= 10
    assert world.evaluator.hold
    world.evaluator.hold.set()
    await driver.stop()
    assert await world.store.get("s") == answer
    assert await world.history.nodes("s") == ()


async def _end_in_step_two(world: World, ending: str) -> None:
    """Run a search whose second step is written for money at the second attempt and that ends while its kernel is being judged."""
    world.generator.script["steps/1/attempts/1"] = [kernel("# one")]
    world.evaluator.script["steps/1/evaluation"] = [Evaluation(b"e", Verdict.PASSED, "", "TIMING")]
    world.generator.script["steps/2/attempts/1"] = [Candidate(Outcome.DUPLICATE, usage=Usage(2, 0, 1, 0, 1, 3))]
    world.generator.script["steps/2/attempts/2"] = [kernel("# two")]
    await world.database.open()
    await world.start(max_wall_time_s=2.0 if ending == "wall time" else None)
    world.evaluator.hold = asyncio.Event()
    if ending == "task":
        world.evaluator.script["steps/2/evaluation"] = [Evaluation(b"e", Verdict.TASK_INVALID, "DEGENERATE", message="zeros pass")]
    if ending == "error":
        world.evaluator.script["steps/2/evaluation"] = [InternalError("worker lost")]
    if ending not in ("cancel", "orphan"):
        await world.runner().run("s")
        return
    supervisor = _supervisor(world, "one")
    supervisor.drive("s")
    await world.evaluator.busy.wait()
    await world.store.wish("s", Wish.CANCEL)
    await (supervisor.cancel("s") if ending == "cancel" else supervisor.stop())


@pytest.mark.parametrize("ending", ["wall time", "cancel", "orphan", "task", "error"])
async def test_what_an_unfinished_step_has_used_is_counted_however_the_search_ends(world: World, ending: str) -> None:
    await _end_in_step_two(world, ending)
    search = await world.store.get("s")
    assert len(await world.history.nodes("s")) == 1
    assert search.progress.usage == Usage(4, 0, 3, 0, 3, 5)
    assert (await world.bodies())[-1] == StateChanged(search.progress)
    assert await world.store.steps("s") == ()


async def test_what_a_node_counts_is_not_counted_again_when_its_step_is_cut_off(world: World) -> None:
    world.generator.script["steps/1/attempts/1"] = [kernel(f"# {FORBIDDEN}")]
    world.memory.record_failure = _refuse  # type: ignore[method-assign]
    search = await world.run()
    assert (search.progress.stop_reason, search.progress.steps) == (StopReason.ERROR, 1)
    assert search.progress.usage == Usage(1, 0, 1, 0, 1, 1)


async def _refuse(*_: object) -> None:
    raise InternalError("lost")
