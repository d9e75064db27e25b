"""Several steps of one search at a time: nothing is lost, nothing is done twice, and what ends a search ends it whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from adaexplore_controller.domain import Candidate, Evaluation, Outcome, SearchState, StopReason, Usage, Verdict, Wish
from adaexplore_controller.events import NodeRecorded, StepStarted
from adaexplore_controller.ports import GenerationRequest, Listener
from unit.controller.fakes import FakeGenerator, Fuse, Killed, World, kernel

IN_FLIGHT = 4


@dataclass
class SlowGenerator(FakeGenerator):
    """Takes a few turns of the loop for each reply, some more than others; the first ones only once so many are written at one time."""

    expected: int = 1
    writing: int = 0
    most: int = 0
    met: asyncio.Event = field(default_factory=asyncio.Event)

    async def generate(self, request: GenerationRequest, listener: Listener) -> Candidate:
        self.writing += 1
        self.most = max(self.most, self.writing)
        if self.writing >= self.expected:
            self.met.set()
        await self.met.wait()
        try:
            for _ in range(request.seed % 5):
                await asyncio.sleep(0.002)
            return await super().generate(request, listener)
        finally:
            self.writing -= 1


def slow(path: Path) -> World:
    return World(path, generator=SlowGenerator())


async def test_steps_are_made_beside_each_other_and_each_is_recorded_once(tmp_path: Path) -> None:
    world = World(tmp_path / "c.sqlite3", generator=SlowGenerator(expected=IN_FLIGHT))
    search = await world.run(max_steps=25, max_in_flight=IN_FLIGHT)
    nodes = await world.history.nodes("s")
    bodies = await world.bodies()
    assert world.generator.most == IN_FLIGHT
    assert (search.progress.state, search.progress.stop_reason, search.progress.steps) == (SearchState.SUCCEEDED, StopReason.STEPS, 25)
    assert [node.step for node in nodes] == list(range(1, 26))
    assert all(node.parent_step < node.step for node in nodes)
    assert Counter(body.step for body in bodies if isinstance(body, NodeRecorded)) == Counter(range(1, 26))
    assert [body.step for body in bodies if isinstance(body, StepStarted)] == list(range(1, 26))
    assert max(node.evaluation.speedup or 0.0 for node in nodes if node.passed) == search.progress.best_speedup
    assert search.progress.usage == sum_of(reply.usage for reply in world.generator.replies.values())
    assert await world.store.steps("s") == ()
    await world.database.close()


def sum_of(usages) -> Usage:
    total = Usage()
    for usage in usages:
        total = total.plus(usage)
    return total


async def test_a_killed_controller_loses_no_step_in_flight_and_pays_for_none_twice(tmp_path: Path) -> None:
    whole = slow(tmp_path / "whole.sqlite3")
    await whole.run(max_steps=8, max_in_flight=IN_FLIGHT, max_cost_micro_usd=1_000_000)
    for instant in range(1, whole.fuse.instants, 12):
        world = slow(tmp_path / f"{instant}.sqlite3")
        await world.database.open()
        await world.start(max_steps=8, max_in_flight=IN_FLIGHT, max_cost_micro_usd=1_000_000)
        for life, fuse in enumerate((Fuse(instant), Fuse(instant), Fuse())):
            if life:
                await world.take_over(f"life {life}")
            world.set_fuse(fuse)
            try:
                await world.runner(f"life {life}" if life else "one").run("s")
            except Killed:
                if not (await world.store.get("s")).progress.state.ended:
                    continue
            break
        search, where = await world.store.get("s"), f"killed at instant {instant}"
        bodies = await world.bodies()
        assert search.progress.steps == 8, where
        assert [node.step for node in await world.history.nodes("s")] == list(range(1, 9)), where
        assert Counter(body.step for body in bodies if isinstance(body, NodeRecorded)) == Counter(range(1, 9)), where
        assert set(world.generator.paid.values()) == {1}, where
        purse = await world.ledger.purse("s")
        assert (purse.spent, purse.reserved) == (search.progress.usage.cost_micro_usd, 0), where
        assert purse.spent == 7 * sum(reply.usage.calls for reply in world.generator.replies.values()), where
        await world.database.close()
    await whole.database.close()


async def test_a_pause_waits_for_all_steps_in_flight_and_begins_no_other(tmp_path: Path) -> None:
    world = slow(tmp_path / "c.sqlite3")
    world.evaluator.hold = asyncio.Event()
    await world.database.open()
    await world.start(max_steps=20, max_in_flight=IN_FLIGHT)
    running = asyncio.create_task(world.runner().run("s"))
    await world.evaluator.busy.wait()
    await world.store.wish("s", Wish.PAUSE)
    world.evaluator.hold.set()
    await running
    search = await world.store.get("s")
    begun = [body.step for body in await world.bodies() if isinstance(body, StepStarted)]
    assert search.progress.state is SearchState.PAUSED
    assert search.progress.steps == len(begun) < 20
    assert await world.store.steps("s") == ()
    await world.store.resume("s", world.lease())
    await world.runner().run("s")
    assert (await world.store.get("s")).progress.steps == 20
    await world.database.close()


async def test_a_cancelled_search_has_no_step_in_flight_left(tmp_path: Path) -> None:
    world = slow(tmp_path / "c.sqlite3")
    world.evaluator.hold = asyncio.Event()
    await world.database.open()
    await world.start(max_steps=20, max_in_flight=IN_FLIGHT)
    running = asyncio.create_task(world.runner().run("s"))
    await world.evaluator.busy.wait()
    await world.store.wish("s", Wish.CANCEL)
    world.evaluator.hold.set()
    await running
    search = await world.store.get("s")
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.CANCELLED, StopReason.CANCELLED)
    assert await world.store.steps("s") == ()
    assert search.progress.usage.calls == sum(reply.usage.calls for reply in world.generator.replies.values())
    await world.database.close()


async def test_the_same_kernel_from_two_steps_in_flight_is_judged_once(tmp_path: Path) -> None:
    world = slow(tmp_path / "c.sqlite3")
    world.generator.script = {f"steps/{step}/attempts/1": [kernel("# the same")] for step in (1, 2)}
    await world.run(max_steps=4, max_in_flight=2)
    nodes = await world.history.nodes("s")
    judged = [node.candidate.kernel.source for node in nodes if node.evaluation]
    assert judged.count("# the same") == 1
    assert sorted(node.candidate.outcome for node in nodes[:2]) == [Outcome.DUPLICATE, Outcome.KERNEL]
    await world.database.close()


async def test_what_one_step_runs_out_of_lets_the_others_finish(tmp_path: Path) -> None:
    world = slow(tmp_path / "c.sqlite3")
    nothing = Candidate(Outcome.EXHAUSTED, message="nothing left")
    world.generator.script = {f"steps/3/attempts/{attempt}": [nothing] for attempt in range(1, 20)}
    search = await world.run(max_steps=12, max_in_flight=3)
    recorded = [node.step for node in await world.history.nodes("s")]
    begun = [body.step for body in await world.bodies() if isinstance(body, StepStarted)]
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.SUCCEEDED, StopReason.EXHAUSTED)
    assert recorded == [step for step in begun if step != 3]
    assert search.progress.steps == len(recorded)
    await world.database.close()


async def test_an_invalid_task_ends_the_steps_beside_it(tmp_path: Path) -> None:
    world = slow(tmp_path / "c.sqlite3")
    world.evaluator.script = {"steps/2/evaluation": [Evaluation(b"e", Verdict.TASK_INVALID, "NONDETERMINISTIC", "TASK", "it varies")]}
    search = await world.run(max_steps=12, max_in_flight=3)
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.FAILED, StopReason.TASK_INVALID)
    assert await world.store.steps("s") == ()
    await world.database.close()


@pytest.mark.parametrize("in_flight", [1, 3])
async def test_money_holds_whatever_is_in_flight(tmp_path: Path, in_flight: int) -> None:
    world = slow(tmp_path / "c.sqlite3")
    search = await world.run(max_steps=50, max_in_flight=in_flight, max_cost_micro_usd=250)
    purse = await world.ledger.purse("s")
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.SUCCEEDED, StopReason.COST)
    assert (purse.spent, purse.reserved) == (search.progress.usage.cost_micro_usd, 0)
    assert 250 - world.generator.worst < purse.spent <= 250
    await world.database.close()
