"""What every store of the memory must do."""

import asyncio
import dataclasses

import pytest
from adaexplore_memory.domain import Evidence, FailureReport, OutcomeReport, Pattern, Proof, Scope, Skill, SkillKind, SkillState, Snippet
from adaexplore_memory.store import SCHEMA, Remembered, SkillFilter, open_store

SNIPPET = Snippet("source", "kernel", {"x_ptr": "*fp32", "n": "i32"}, {"BLOCK": "128"}, 4, 3)
SKILL = Skill(
    "skills/one",
    SkillKind.PITFALL,
    SkillState.CANDIDATE,
    "You cannot use one.",
    "Use two.",
    Scope(">=3.0", "cuda", ("sm_90",), ("softmax",)),
    Evidence(("task-1",), (), 1, "signature-1", SNIPPET, (SNIPPET, SNIPPET), Proof(True, 1, "3.7.1", "sm_90", 7)),
    (Pattern("a.b"), Pattern(statement_kind="Break")),
    create_time_us=5,
    update_time_us=6,
    revision=1,
    distilled=True,
)
REPORT = FailureReport("request", "task-1", "kernel-1", "source", "FAILED", "COMPILE", "COMPILE")


def other(number, **changes):
    evidence = Evidence(("task-1",), signature=f"signature-{number}")
    return dataclasses.replace(SKILL, name=f"skills/{number}", rule=f"You cannot use {number}.", evidence=evidence, **changes)


@pytest.fixture
def place(place_for):
    return place_for(SCHEMA)


@pytest.fixture
async def store(place):
    async with open_store(place.engine()) as opened:
        yield opened


async def test_a_skill_is_read_as_it_was_written(store):
    async with store.transaction() as tx:
        await tx.insert(SKILL)
    async with store.transaction() as tx:
        assert await tx.find("skills/one") == SKILL
        assert await tx.find_by_signature("signature-1") == SKILL
        assert await tx.find_by_rule("you  CANNOT use one") == SKILL
        assert await tx.find("skills/none") is None
        assert await tx.find_by_signature("") is None


async def test_a_failed_transaction_leaves_nothing_behind(store):
    async def fail():
        async with store.transaction() as tx:
            await tx.insert(SKILL)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with store.transaction() as tx:
        assert await tx.find("skills/one") is None


async def test_every_write_changes_the_etag(store):
    async with store.transaction() as tx:
        await tx.insert(SKILL)
        written = await tx.update(dataclasses.replace(SKILL, instead="Use three."))
        assert written.etag != SKILL.etag
        assert await tx.find("skills/one") == written


async def test_a_task_counts_once_and_failures_keep_their_newest_hundred(store):
    async with store.transaction() as tx:
        await tx.insert(SKILL)
        await tx.add_task("skills/one", "task-1")
        await tx.add_task("skills/one", "task-2")
        for number in range(120):
            await tx.add_failure(f"failure-{number}", REPORT, "text", SKILL, number)
        evidence = (await tx.find("skills/one")).evidence
    assert evidence.task_digests == ("task-1", "task-2")
    assert evidence.failure_ids == tuple(f"failure-{number}" for number in range(119, 19, -1))


async def test_deleting_a_skill_deletes_its_evidence(store):
    async with store.transaction() as tx:
        await tx.insert(SKILL)
        await tx.add_failure("failure-1", REPORT, "text", SKILL, 1)
        await tx.delete("skills/one")
        assert await tx.taught_by("kernel-1", "task-1") == frozenset()
        await tx.insert(dataclasses.replace(SKILL, evidence=Evidence(signature="signature-1")))
        assert (await tx.find("skills/one")).evidence.task_digests == ()


async def test_pages_run_from_the_newest_to_the_oldest_without_gap_or_repeat(store):
    async with store.transaction() as tx:
        for number in range(7):
            await tx.insert(other(number))
        seen, before = [], None
        while True:
            skills, before = await tx.page(SkillFilter(), before, 3)
            seen += [skill.name for skill in skills]
            if before is None:
                break
    assert seen == [f"skills/{number}" for number in range(6, -1, -1)]


async def test_a_page_holds_only_what_the_filter_wants(store):
    async with store.transaction() as tx:
        await tx.insert(other(1))
        await tx.insert(other(2, state=SkillState.ACTIVE))
        await tx.insert(other(3, kind=SkillKind.TECHNIQUE))
        active, _ = await tx.page(SkillFilter(state=SkillState.ACTIVE), None, 10)
        techniques, _ = await tx.page(SkillFilter(kind=SkillKind.TECHNIQUE), None, 10)
        assert [skill.name for skill in active] == ["skills/2"]
        assert [skill.name for skill in techniques] == ["skills/3"]
        assert await tx.active(["skills/3", "skills/2", "skills/1", "skills/none"]) == active


async def test_every_write_is_noted_in_order_and_what_is_not_active_is_noted_as_gone(store):
    async with store.transaction() as tx:
        for number in (1, 2):
            await tx.insert(other(number, state=SkillState.ACTIVE))
    async with store.reading() as tx:
        noted = await tx.changes(0, 10)
        assert [(name, skill.rule) for _, name, skill in noted] == [("skills/1", "You cannot use 1."), ("skills/2", "You cannot use 2.")]
        assert [name for _, name, _ in await tx.changes(0, 1)] == ["skills/1"]
    async with store.transaction() as tx:
        await tx.update(other(1, state=SkillState.RETIRED))
        await tx.insert(other(3, state=SkillState.ACTIVE))
        await tx.delete("skills/2")
    async with store.reading() as tx:
        later = await tx.changes(noted[-1][0], 10)
    assert [(name, skill is None) for _, name, skill in later] == [("skills/1", True), ("skills/3", False), ("skills/2", True)]


async def test_a_page_of_long_skills_is_cut_and_continued(store):
    long = dataclasses.replace(SNIPPET, source="x" * 1_000_000)
    async with store.transaction() as tx:
        for number in range(5):
            skill = other(number)
            await tx.insert(dataclasses.replace(skill, evidence=dataclasses.replace(skill.evidence, reproducer=long)))
        first, before = await tx.page(SkillFilter(), None, 10)
        second, _ = await tx.page(SkillFilter(), before, 10)
    assert len(first) == 2
    assert [skill.name for skill in (*first, *second)] == ["skills/4", "skills/3", "skills/2", "skills/1"]


async def test_an_answer_is_remembered_for_its_method_and_id(store):
    answer = Remembered("failure-1", "skills/one", True)
    async with store.transaction() as tx:
        await tx.remember("RecordFailure", "id", answer, 1)
        await tx.remember("RecordFailure", "", answer, 1)
        assert await tx.remembered("RecordFailure", "id") == answer
        assert await tx.remembered("CreateSkill", "id") is None
        assert await tx.remembered("RecordFailure", "") is None


async def test_a_failure_that_comes_after_its_outcome_still_breaks_it_once(store):
    async with store.transaction() as tx:
        await tx.insert(SKILL)
        await tx.add_outcome(OutcomeReport("outcome-1", ("skills/one",), (), True, "kernel-1", "task-1"), [], ["skills/one"], 1)
        await tx.add_outcome(OutcomeReport("outcome-2", ("skills/one",), (), True, "kernel-2", "task-1"), [], ["skills/one"], 1)
        assert await tx.break_outcomes("skills/one", "kernel-1", "task-1") == 1
        assert await tx.break_outcomes("skills/one", "kernel-1", "task-1") == 0


async def test_what_is_written_survives_closing(place):
    async with open_store(place.engine()) as store, store.transaction() as tx:
        await tx.insert(SKILL)
    async with open_store(place.engine()) as store, store.reading() as tx:
        assert await tx.find("skills/one") == SKILL


async def test_sixteen_writers_over_two_openings_lose_nothing(place):
    async with open_store(place.engine()) as first, open_store(place.engine()) as second:
        async with first.transaction() as tx:
            await tx.insert(SKILL)

        async def count(store):
            for _ in range(5):
                async with store.transaction() as tx:
                    skill = await tx.find("skills/one")
                    counters = dataclasses.replace(skill.counters, shown=skill.counters.shown + 1)
                    await tx.update(dataclasses.replace(skill, counters=counters))

        await asyncio.gather(*(count((first, second)[number % 2]) for number in range(16)))
        async with second.transaction() as tx:
            skill = await tx.find("skills/one")
    assert skill.counters.shown == 80
    assert skill.revision == 81
