"""Generations that bring no candidate: replies that were lost on the way, and tasks for which a provider has nothing."""

from __future__ import annotations

import pytest
from adaexplore_controller.domain import Candidate, Kernel, Outcome, SearchState, StopReason
from adaexplore_controller.tree import Move
from unit.controller.fakes import WORST_CALL, World, kernel

from adaexplore.runtime.errors import AbortedError, DeadlineError, FailedPreconditionError, ServiceError

BROKE_OFF = AbortedError("http://x broke off", reason="PROVIDER_UNREACHABLE")
LINE = "generator: PROVIDER_UNREACHABLE: http://x broke off"
NO_GRAPH = "templates needs an operator graph and this task has none:\n it branches on data; name a model with --generator openai"


def lose(world: World, *steps: int, error: ServiceError = BROKE_OFF) -> None:
    for step in steps:
        world.generator.script[f"steps/{step}/attempts/1"] = [error]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (BROKE_OFF, LINE),
        (AbortedError("not the protocol", reason="PROVIDER_PROTOCOL"), "generator: PROVIDER_PROTOCOL: not the protocol"),
        (AbortedError("the disk is full", reason="STORE_UNAVAILABLE"), "generator: STORE_UNAVAILABLE: the disk is full"),
        (DeadlineError("too slow"), "generator: DEADLINE_EXCEEDED: too slow"),
    ],
)
async def test_a_reply_that_was_lost_is_a_step_without_kernel_and_is_never_paid_for_again(
    world: World, error: ServiceError, line: str
) -> None:
    world.generator.script["steps/1/attempts/1"] = [kernel("# one")]
    world.generator.script["steps/3/attempts/1"] = [kernel("# three")]
    lose(world, 2, error=error)
    search = await world.run(max_steps=3)
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.SUCCEEDED, StopReason.STEPS)
    nodes = await world.history.nodes("s")
    assert [node.candidate.outcome for node in nodes] == [Outcome.KERNEL, Outcome.EMPTY, Outcome.KERNEL]
    assert (nodes[1].candidate.message, nodes[1].evaluation, nodes[1].reward) == (line, None, 0.0)
    assert len([r for r in world.generator.requests if "/steps/2/" in r.request_id]) == 1
    assert world.slept_s == []
    usage = search.progress.usage
    assert (usage.calls, usage.cost_micro_usd, usage.unconfirmed_calls) == (3, 2 + WORST_CALL, 1)
    assert usage.unconfirmed_cost_micro_usd == WORST_CALL


async def test_replies_lost_in_a_row_end_the_search_with_the_providers_line(world: World) -> None:
    lose(world, 2, 3, 4, 5)
    search = await world.run()
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.FAILED, StopReason.ERROR)
    assert search.progress.error_message == LINE
    assert search.progress.steps == 4
    assert await world.store.steps("s") == ()


async def test_a_reply_in_between_starts_the_count_anew(world: World) -> None:
    lose(world, 1, 2, 4, 5)
    world.generator.script |= {f"steps/{step}/attempts/1": [kernel(f"# {step}")] for step in (3, 6)}
    search = await world.run(max_steps=6)
    assert (search.progress.state, search.progress.steps) == (SearchState.SUCCEEDED, 6)


async def test_the_memory_hears_nothing_of_rules_shown_for_a_reply_that_was_lost(world: World) -> None:
    await world.run(max_steps=25)
    shown = next(node.step for node in await world.history.nodes("s") if node.shown_skills)
    other = World(world.path.with_name("other.sqlite3"))
    lose(other, shown)
    await other.run(max_steps=shown)
    node = (await other.history.nodes("s"))[-1]
    assert (node.candidate.lost, bool(node.shown_skills)) == (True, True)
    assert f"searches/s/steps/{shown}/outcome" not in other.memory.outcomes
    await other.database.close()


async def test_a_task_without_a_graph_leaves_pytorch_as_it_is_and_is_no_failure(world: World) -> None:
    lose(world, 1, error=FailedPreconditionError(NO_GRAPH, reason="GRAPH_REQUIRED"))
    search = await world.run()
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.SUCCEEDED, StopReason.EXHAUSTED)
    assert search.progress.error_message == " ".join(NO_GRAPH.split())
    assert (search.progress.best_step, await world.history.nodes("s")) == (None, ())


@pytest.mark.parametrize(("seeds", "message"), [((), "nothing left"), ((Kernel("# mine"),), "nothing left")])
async def test_a_task_for_which_a_provider_has_nothing_says_why(world: World, seeds: tuple[Kernel, ...], message: str) -> None:
    world.generator.exhausted = frozenset(Move)
    search = await world.run(seed_kernels=seeds)
    assert (search.progress.state, search.progress.stop_reason) == (SearchState.SUCCEEDED, StopReason.EXHAUSTED)
    assert search.progress.error_message == message


async def test_a_provider_that_has_run_dry_after_some_kernels_has_nothing_to_explain(world: World) -> None:
    world.generator.script["steps/1/attempts/1"] = [Candidate(Outcome.KERNEL, Kernel("# one", "d"))]
    world.generator.exhausted = frozenset(Move)
    search = await world.run()
    assert (search.progress.stop_reason, search.progress.error_message) == (StopReason.EXHAUSTED, "")
