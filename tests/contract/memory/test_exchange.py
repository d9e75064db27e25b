"""What is imported, and what is counted, in every kind of database."""

import dataclasses

import pytest
from adaexplore_memory.domain import (
    Counters,
    Evidence,
    FailureReport,
    ImportOutcome,
    OutcomeReport,
    Pattern,
    Proof,
    Skill,
    SkillKind,
    SkillState,
    Snippet,
)
from adaexplore_memory.memory import MAX_IMPORTED, Memory
from adaexplore_memory.store import SCHEMA, SkillFilter, open_store

from adaexplore.runtime.errors import InvalidArgumentError

SOURCE = (
    "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, tl.math.tanh(tl.load(x_ptr)))\n"
)
SNIPPET = Snippet(SOURCE, "kernel", {"x_ptr": "*fp32"}, {})
FOREIGN = Skill(
    "skills/of-another-memory",
    SkillKind.PITFALL,
    SkillState.ACTIVE,
    "You cannot use `tl.math.tanh`.",
    "Use libdevice.",
    evidence=Evidence(("a", "b", "c"), ("f",), 9, "tanh", SNIPPET, (SNIPPET,), Proof(True, 0, "3.7.1", "sm_90")),
    patterns=(Pattern("triton.language.math.tanh"),),
    counters=Counters(7, 1, 5),
)
FAILURE = FailureReport("r1", "task-1", "kernel-1", SOURCE, "FAILED", "NUMERIC", "CHECK")


@pytest.fixture
async def memory(place_for):
    async with open_store(place_for(SCHEMA).engine()) as store:
        opened = Memory(store, now_us=lambda: 5)
        yield opened
        opened.close()


async def test_what_is_imported_is_a_candidate_and_keeps_what_can_be_tried_here(memory):
    (result,) = await memory.import_skills([FOREIGN])
    assert result.outcome is ImportOutcome.IMPORTED
    skill = await memory.get(result.skill_name)
    assert skill.state is SkillState.CANDIDATE
    assert skill.evidence == Evidence(signature="tanh", reproducer=SNIPPET, repairs=(SNIPPET,))
    assert (skill.rule, skill.instead, skill.patterns, skill.counters) == (FOREIGN.rule, FOREIGN.instead, FOREIGN.patterns, Counters())


async def test_what_is_known_stays_as_it_is_and_what_is_wrong_hinders_nothing(memory):
    rules = ["You cannot use one.", "you CANNOT  use one", "You may", "You cannot use tl.load.", "You cannot use two."]
    drafts = [Skill("", SkillKind.PITFALL, SkillState.ACTIVE, rule) for rule in ("You cannot use one.", *rules[2:])]
    results = await memory.import_skills([*drafts, dataclasses.replace(FOREIGN, rule="You cannot use one.", evidence=Evidence())])
    outcomes = [result.outcome.name for result in results]
    assert outcomes == ["IMPORTED", "REFUSED", "REFUSED", "IMPORTED", "KNOWN"]
    assert results[4].skill_name == results[0].skill_name
    assert "begin with" in results[1].message
    assert "rests on" in results[2].message
    assert (await memory.get(results[0].skill_name)).instead == ""


async def test_the_same_import_again_changes_nothing(memory):
    first = await memory.import_skills([FOREIGN])
    second = await memory.import_skills([FOREIGN])
    assert second[0].outcome is ImportOutcome.KNOWN
    assert second[0].skill_name == first[0].skill_name
    assert len((await memory.list(SkillFilter(), 0, "")).skills) == 1


async def test_one_call_takes_no_more_than_it_says(memory):
    with pytest.raises(InvalidArgumentError, match="at most 500"):
        await memory.import_skills([FOREIGN] * (MAX_IMPORTED + 1))


async def test_what_the_memory_holds_is_counted(memory):
    (imported,) = await memory.import_skills([FOREIGN])
    empty = await memory.stats()
    assert (empty.failures, empty.failed_tasks, empty.outcomes, empty.counters, empty.proven_skills) == ({}, 0, 0, Counters(), 0)
    await memory.record_failure(FAILURE)
    await memory.record_failure(dataclasses.replace(FAILURE, request_id="r2", task_digest="task-2"))
    await memory.record_outcome(OutcomeReport("o1", (imported.skill_name,), (imported.skill_name,)))
    proof = dataclasses.replace(FOREIGN, name=imported.skill_name, evidence=dataclasses.replace(FOREIGN.evidence))
    await memory.update(proof, ["evidence.proof"], "")
    found = await memory.stats()
    assert sum(found.skills.values()) == 1
    assert found.failures == {"NUMERIC": (2, 0)}
    assert (found.failed_tasks, found.outcomes, found.counters, found.proven_skills) == (2, 1, Counters(1, 0, 1), 1)
