"""Two replicas of the memory over one database, as two processes have it."""

import asyncio
import dataclasses

import pytest
from adaexplore_memory.domain import Environment, FailureReport, OutcomeReport, SkillState
from adaexplore_memory.memory import Memory
from adaexplore_memory.select import Query
from adaexplore_memory.store import SCHEMA, SkillFilter, open_store

ROUNDS = 5
SOURCE = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, tl.math.NAME(x), mask=offsets < n)
"""


def report(request_id, task="task-1", name="tanh"):
    return FailureReport(
        request_id,
        task,
        f"kernel-{request_id}",
        SOURCE.replace("NAME", name),
        "FAILED",
        "COMPILE",
        "COMPILE",
        exception_type="AttributeError",
        detail=f"module 'triton.language.math' has no attribute '{name}'",
        triton_version="3.7.1",
        target="sm_90",
    )


@pytest.fixture
async def replicas(place_for):
    place = place_for(SCHEMA)
    async with open_store(place.engine()) as first, open_store(place.engine()) as second:
        memories = [Memory(store, now_us=lambda: 1) for store in (first, second)]
        # CPython before 3.11.8 counts the depth of two parsers together, which two processes do not share.
        memories[1].close()
        memories[1]._reader = memories[0]._reader
        yield memories
        memories[0].close()


async def test_a_failure_that_reaches_two_replicas_counts_once_and_is_answered_alike(replicas):
    for number in range(ROUNDS):
        answers = await asyncio.gather(*(memory.record_failure(report(f"f{number}")) for memory in replicas))
        assert answers[0] == answers[1]
        assert answers[0].skill.evidence.failure_count == number + 1


async def test_two_replicas_that_learn_the_same_at_once_make_one_rule_of_two_tasks(replicas):
    for name in ("tanh", "erfc", "sinh", "cosh", "tan"):
        reports = [report(f"{name}-{task}", task, name) for task in ("task-1", "task-2")]
        answers = await asyncio.gather(*(memory.record_failure(it) for memory, it in zip(replicas, reports, strict=True)))
        assert sorted(answer.created for answer in answers) == [False, True]
        skill = await replicas[0].get(answers[0].skill.name)
        assert (skill.state, skill.evidence.task_digests) == (SkillState.ACTIVE, ("task-1", "task-2"))


async def test_outcomes_that_reach_two_replicas_are_all_counted_and_each_once(replicas):
    name = (await replicas[0].record_failure(report("f"))).skill.name
    outcomes = [OutcomeReport(f"o{number}", (name,), (name,), False, "kernel", "task-1") for number in range(20)]
    await asyncio.gather(*(memory.record_outcome(outcome) for outcome in outcomes for memory in replicas))
    counters = (await replicas[1].get(name)).counters
    assert (counters.shown, counters.avoided) == (20, 20)


async def test_a_replica_selects_and_checks_by_what_the_other_has_just_written(replicas):
    query, source = Query(frozenset({"tanh"}), Environment("3.7.1", "sm_90")), SOURCE.replace("NAME", "tanh")
    assert await replicas[1].select(query) == ()
    name = (await replicas[0].record_failure(report("a"))).skill.name
    assert await replicas[1].select(query) == ()
    await replicas[0].record_failure(report("b", "task-2"))
    assert [selected.skill.name for selected in await replicas[1].select(query)] == [name]
    assert [violation.skill.name for violation in await replicas[1].check(source, query.environment)] == [name]
    skill = await replicas[1].get(name)
    await replicas[1].update(dataclasses.replace(skill, state=SkillState.RETIRED), ["state"], "")
    assert await replicas[0].select(query) == ()
    assert await replicas[0].check(source, query.environment) == ()
    await replicas[1].update(dataclasses.replace(skill, state=SkillState.ACTIVE), ["state"], "")
    assert len(await replicas[0].select(query)) == 1
    await replicas[1].delete(name, "")
    assert await replicas[0].select(query) == ()


async def test_what_is_read_is_of_one_instant_though_others_write_meanwhile(replicas):
    await replicas[0].record_failure(report("f"))

    async def write():
        for number in range(20):
            await replicas[0].record_failure(report(f"f{number}", f"task-{number}"))

    async def read():
        for _ in range(40):
            (skill,) = (await replicas[1].list(SkillFilter(), 0, "")).skills
            assert skill.evidence.failure_count == len(skill.evidence.failure_ids)

    await asyncio.gather(write(), read())
