"""Which calls a generation makes, and what becomes of answers that repeat or do not fit."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from adaexplore_generator.__main__ import load_prompts
from adaexplore_generator.domain import ContextKernel, Feedback, FinishReason, GenerateRequest, Move, Outcome, Reply, Task, Usage
from adaexplore_generator.graph import TaskDescription
from adaexplore_generator.pricing import Prices
from adaexplore_generator.replies import ReplyStore
from adaexplore_generator.writer import ModelWriter

from adaexplore.runtime.sources import kernel_digest
from adaexplore.runtime.sql import sqlite_engine

KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        y = x * 1.0\n        return y + 0.0\n"
OTHER = KERNEL.replace("1.0", "5.0")
PASSED = Feedback("PASSED", timing="ESTIMATED", median_us=10.0)
FAILED = Feedback("FAILED", "COMPILE")


def edit(search, new):
    return f"A change.\n<<<<<<< SEARCH\n{search}\n=======\n{new}\n>>>>>>> REPLACE\n"


def fenced(source):
    return f"It scales.\n```python\n{source}```\n"


GOOD = edit("        y = x * 1.0", "        y = x * 2.0")
SAME = edit("        y = x * 1.0", "        y = x * 1.0  # fast")
LOST = edit("z", "y")


class Script:
    """An endpoint that answers from a list and keeps what it was asked."""

    name, host, default_model, attempts_that_may_be_paid = "script", "localhost", "m", 1

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    async def complete(self, prompt, sampling, received, name):
        self.asked.append(prompt.messages[1].content)
        reply = self.replies.pop(0)
        return reply if isinstance(reply, Reply) else Reply(reply, FinishReason.STOP, "m", Usage(calls=1), prompt_digest=prompt.digest)


@pytest.fixture
async def store(tmp_path):
    store = ReplyStore(sqlite_engine(tmp_path / "replies.db"), lambda: datetime(2026, 1, 1, tzinfo=UTC))
    yield store
    await store.close()


@pytest.fixture
def generate(store):
    """Answer a request with a script; gives the candidate and what was asked."""

    async def run(request, *replies, local_calls="two"):
        script, stages = Script(*replies), []
        writer = ModelWriter(script, store, load_prompts(), Prices(()), local_calls)
        candidate = await writer.generate(request, lambda progress: stages.append(progress.stage))
        assert not script.replies
        assert len(script.asked) <= writer.most_calls(request)
        return candidate, script.asked, list(dict.fromkeys(stages)) if len(set(stages)) == len(stages) else stages

    return run


def structural(**fields):
    return GenerateRequest("id", Task("t", "class Model: pass"), TaskDescription(), Move.STRUCTURAL, **fields)


def local(*said, **fields):
    sources = [*(f"old = {number}\n" for number in range(1, len(said))), KERNEL]
    window = tuple(ContextKernel(source, feedback=one) for source, one in zip(sources, said, strict=True))
    return replace(structural(**fields), move=Move.LOCAL, context=window)


async def test_edits_are_asked_for_after_a_review_of_what_is_right(generate):
    candidate, asked, stages = await generate(local(FAILED, PASSED), "1. Use 2.0.", GOOD)
    assert (candidate.outcome, candidate.source, candidate.summary) == (Outcome.KERNEL, KERNEL.replace("1.0", "2.0"), "A change.")
    assert stages == ["reviewing", "editing"]
    assert "1. Use 2.0." in asked[1]


async def test_one_call_for_review_and_edits_is_a_choice(generate):
    candidate, asked, stages = await generate(local(PASSED), "1. Use 2.0.\n\n" + GOOD, local_calls="one")
    assert (candidate.outcome, stages) == (Outcome.KERNEL, ["editing"])
    assert "First name one to three improvements" in asked[0]


async def test_only_edits_that_do_not_fit_are_asked_for_again_and_the_others_are_kept(generate):
    more = edit("        return y - 0.0", "        return y")
    candidate, asked, stages = await generate(local(FAILED), GOOD + more, edit("        return y + 0.0", "        return y"))
    assert candidate.source == KERNEL.replace("1.0", "2.0").replace("y + 0.0", "y")
    assert stages == ["editing", "repairing"]
    assert "Edit 2 was not applied: its SEARCH part is not in the kernel: 'return y - 0.0'" in asked[1]
    assert "        return y + 0.0" in asked[1]
    assert "x * 2.0" not in asked[1]


async def test_edits_that_never_fit_are_a_mismatch(generate):
    candidate, asked, _ = await generate(local(FAILED), LOST, LOST)
    assert (candidate.outcome, len(asked)) == (Outcome.EDIT_MISMATCH, 2)


@pytest.mark.parametrize("local_calls", ["two", "one"])
async def test_edits_that_change_nothing_are_asked_for_once_more_and_told_so(generate, local_calls):
    candidate, asked, _ = await generate(local(FAILED), SAME, GOOD, local_calls=local_calls)
    assert (candidate.outcome, candidate.usage.calls) == (Outcome.KERNEL, 2)
    assert "it makes the newest version again, so it changes nothing" in asked[1]
    assert "it makes" not in asked[0]


async def test_edits_that_change_nothing_twice_are_a_duplicate_that_says_so(generate):
    candidate, asked, _ = await generate(local(FAILED), SAME, SAME)
    assert (candidate.outcome, candidate.digest, len(asked)) == (Outcome.DUPLICATE, kernel_digest(KERNEL), 2)
    assert candidate.message == "asked twice, the model made the newest version again, so it changes nothing"


async def test_an_older_version_is_named(generate):
    request = replace(local(FAILED), context=(ContextKernel(OTHER), ContextKernel(KERNEL)))
    candidate, _, _ = await generate(request, *[edit("        y = x * 1.0", "        y = x * 5.0")] * 2)
    assert (candidate.outcome, candidate.message) == (Outcome.DUPLICATE, "asked twice, the model made version 1 again")


async def test_a_known_file_is_shown_when_it_is_asked_for_again_unless_it_was_shown_already(generate):
    known = structural(known_digests=(kernel_digest(KERNEL),))
    candidate, asked, _ = await generate(known, fenced(KERNEL), fenced(OTHER))
    assert (candidate.outcome, candidate.source) == (Outcome.KERNEL, OTHER)
    assert "It was:\nBEGIN DATA\nimport torch" in asked[1]


async def test_a_kernel_of_the_pool_twice_is_a_duplicate(generate):
    candidate, asked, stages = await generate(structural(pool=(ContextKernel(KERNEL),)), fenced(KERNEL), fenced(KERNEL))
    assert (candidate.outcome, stages) == (Outcome.DUPLICATE, ["proposing", "proposing"])
    assert candidate.message == "asked twice, the model made kernel 1 of those shown again"
    assert "It was:" not in asked[1]


async def test_one_repair_is_all_that_a_request_gets(generate):
    candidate, asked, stages = await generate(local(PASSED), "1.", LOST, SAME, LOST)
    assert (candidate.outcome, stages) == (Outcome.EDIT_MISMATCH, ["reviewing", "editing", "repairing", "editing"])
    assert len(asked) == 4


async def test_what_was_asked_once_more_may_be_repaired_if_nothing_was(generate):
    candidate, _, stages = await generate(local(PASSED), "1.", SAME, LOST, GOOD)
    assert (candidate.outcome, stages) == (Outcome.KERNEL, ["reviewing", "editing", "editing", "repairing"])


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("", Outcome.EMPTY),
        ("Fuse it.", Outcome.NO_CODE),
        ("I'm sorry, I cannot.", Outcome.REFUSED),
        ("```python\nclass (\n```", Outcome.INVALID_PYTHON),
        (Reply(GOOD, FinishReason.LENGTH, "m", Usage()), Outcome.TRUNCATED),
        (Reply(GOOD, FinishReason.FILTERED, "m", Usage()), Outcome.REFUSED),
        (Reply(GOOD, FinishReason.STOP, "m", Usage(), refusal="no"), Outcome.REFUSED),
        (edit("        y = x * 1.0", "        y = ("), Outcome.INVALID_PYTHON),
        (edit(KERNEL.rstrip("\n"), ""), Outcome.NO_CODE),
    ],
)
async def test_an_answer_that_asking_again_would_not_help_is_an_outcome_at_once(generate, reply, outcome):
    candidate, asked, _ = await generate(local(FAILED), reply)
    assert (candidate.outcome, len(asked)) == (outcome, 1)
    assert candidate.message


async def test_stored_replies_lead_to_the_same_candidate_without_a_call(generate):
    request = local(PASSED)
    first, asked, _ = await generate(request, "1.", LOST, SAME, GOOD)
    again, none, _ = await generate(request)
    assert (again, none) == (first, [])
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("request_", "local_calls", "most"),
    [(structural(), "two", 2), (local(PASSED), "two", 4), (local(FAILED), "two", 3), (local(PASSED), "one", 3)],
)
def test_the_most_calls_are_known_before_any_is_made(store, request_, local_calls, most):
    assert ModelWriter(Script(), store, load_prompts(), Prices(()), local_calls).most_calls(request_) == most


async def test_no_prompt_is_longer_than_what_was_planned_for_it(generate, store):
    long = "".join(f"        y = y + {number}.0\n" for number in range(2_000))
    request = replace(local(PASSED), context=(ContextKernel(KERNEL.replace("        return", long + "        return"), feedback=PASSED),))
    lost = "".join(edit(f"        z = {number}.0", "        y = 1") for number in range(4))
    _, asked, _ = await generate(request, "1. " + "word " * 9_000, lost, lost)
    worst = ModelWriter(Script(), store, load_prompts(), Prices(())).estimate(request).worst_case
    assert sum(len(prompt.encode()) for prompt in asked) < worst.input_tokens
