"""Texts and numbers that one database takes and another does not: every store answers alike."""

import base64

import pytest
from adaexplore_memory import convert
from adaexplore_memory.memory import Memory
from adaexplore_memory.store import SCHEMA, SkillFilter, open_store
from integration.memory.calls import evaluation, failure

from adaexplore.memory.v1 import memory_pb2 as pb
from adaexplore.runtime.errors import InvalidArgumentError, NotFoundError

LONG_NAME = "x" * 500


@pytest.fixture
async def memory(place_for):
    async with open_store(place_for(SCHEMA).engine()) as store:
        memory = Memory(store, now_us=lambda: 1)
        yield memory
        memory.close()


async def record(memory, **changes):
    return await memory.record_failure(convert.failure_from(failure(**changes)))


async def test_what_a_candidate_writes_into_its_failure_cannot_make_it_unrecordable(memory):
    nasty = "Na\x00me\ud7ff\u2028" * 2_000
    assert (await record(memory, exception_type=nasty, detail=nasty, message=nasty, signature=nasty)).failure_id
    reported = failure("other")
    reported.evaluation.failure.kernel_name = reported.evaluation.platform.target = nasty
    assert (await memory.record_failure(convert.failure_from(reported))).failure_id


async def test_a_long_name_can_be_learnt(memory):
    source = failure().kernel.source.replace("tanh", LONG_NAME)
    detail = f"module 'triton.language.math' has no attribute '{LONG_NAME}'"
    first = await record(memory, text=source, detail=detail)
    assert first.created
    again = await record(memory, request_id="again", task="task-2", text=source, detail=detail)
    assert again.skill.name == first.skill.name
    assert len(again.skill.evidence.signature) < 200


async def test_a_digest_that_is_too_long_is_refused(memory):
    for field in ("kernel_digest", "task_digest"):
        told = evaluation()
        setattr(told, field, "d" * 129)
        with pytest.raises(InvalidArgumentError, match=f"evaluation.{field}: must have at most 128"):
            convert.outcome_from(pb.RecordOutcomeRequest(request_id="o", evaluation=told))


async def test_a_skill_with_the_longest_signature_is_kept_and_a_longer_one_refused(memory):
    def draft(signature):
        request = pb.CreateSkillRequest()
        request.skill.kind, request.skill.rule, request.skill.evidence.signature = 1, f"You cannot {len(signature)}.", signature
        return convert.skill_from(request.skill)

    longest = "".join(chr(0x4E00 + index) for index in range(866))
    assert (await memory.create(draft(longest), "")).evidence.signature == longest
    for longer in (longest + "x" * 10, "x" * 1_001):
        with pytest.raises(InvalidArgumentError, match="2,600 bytes"):
            await memory.create(draft(longer), "")


@pytest.mark.parametrize("number", [2**63, 10**30])
async def test_a_page_token_that_no_server_gave_out_is_refused(memory, number):
    token = base64.urlsafe_b64encode(f"{number}:/".encode()).decode()
    with pytest.raises(InvalidArgumentError, match="page_token"):
        await memory.list(SkillFilter(), 0, token)


async def test_a_name_that_no_database_holds_names_no_skill(memory):
    with pytest.raises((NotFoundError, InvalidArgumentError)):
        await memory.get("skills/\x00")
