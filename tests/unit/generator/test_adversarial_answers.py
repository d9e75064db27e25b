"""Answers that invite a wrong edit: each is applied as meant or refused, never otherwise."""

import pytest
from adaexplore_generator.domain import FinishReason, Outcome, Reply, Usage
from adaexplore_generator.extract import python_problem
from adaexplore_generator.revision import revise
from hypothesis import given, settings
from hypothesis import strategies as st

from adaexplore.runtime.sources import kernel_digest
from benchmarks.edit_answers import RIGHT, WRONG, naive, ours, verdict
from benchmarks.edit_mutators import build
from benchmarks.edits_by_hand import APPLIED, REFUSED, SOURCE


def outcome(text, finish=FinishReason.STOP):
    return revise(Reply(text, finish, "model", Usage()), SOURCE, ("ModelNew",)).found


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in APPLIED], ids=[row[0] for row in APPLIED])
def test_an_answer_that_can_mean_one_thing_is_applied(text, expected):
    found = outcome(text)
    assert (found.outcome, kernel_digest(found.source)) == (Outcome.KERNEL, kernel_digest(expected)), found.message


@pytest.mark.parametrize("text", [row[1] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_an_answer_that_can_mean_several_things_or_none_is_refused(text):
    found = outcome(text)
    assert found.outcome is not Outcome.KERNEL, found.source
    assert found.message


def test_no_answer_of_the_benchmark_is_applied_wrongly():
    answers = build(seed=7, count=130)
    verdicts = [verdict(answer, ours(answer)) for answer in answers]
    assert WRONG not in verdicts
    assert verdicts.count(RIGHT) > sum(answer.truth is not None for answer in answers) * 0.9


def test_the_benchmark_sees_an_answer_that_is_applied_wrongly():
    answers = build(seed=7, count=130)
    assert any(verdict(answer, naive(answer)) == WRONG for answer in answers)


PIECES = [
    *(
        "<<<<<<< SEARCH",
        "=======",
        ">>>>>>> REPLACE",
        "```",
        "```python",
        "```diff",
        "@@ -3,2 +3,4 @@ def first(",
        "@@",
        "--- a/k.py",
        "+++ b/k.py",
    ),
    *("<old>", "</old>", "<new>", "</new>", "...", "# ... existing code ...", "", " ", "\t", "*** Begin Patch", "<think>", "</think>"),
    *(
        "    y = x + 1.0",
        "-    y = x + 1.0",
        "+    y = x + 2.0",
        "    y = x + 2.0",
        "    mask = offs < n",
        "x = (",
        ")",
        "def first(x):",
        "class ModelNew:",
    ),
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*PIECES, *SOURCE.split("\n")]), max_size=14), st.sampled_from(FinishReason))
def test_whatever_the_lines_of_an_answer_are_it_has_an_outcome(lines, finish):
    found = outcome("\n".join(lines), finish)
    assert found.outcome in set(Outcome)
    assert bool(found.message) == (found.outcome is not Outcome.KERNEL)
    if found.outcome is Outcome.KERNEL:
        assert python_problem(found.source) == ""
