"""Answers of timed rounds against the reference on the very inputs of their slots."""

import types

import pytest
import torch
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.cuda.proof import Proof
from adaexplore_evaluator.referee.distributions import distribution_of
from adaexplore_evaluator.referee.numerics import RULES, expected_output
from adaexplore_evaluator.referee.reference import Made
from adaexplore_evaluator.referee.verdicts import StopError

X = torch.rand(64, 64, generator=torch.Generator().manual_seed(1)) + 0.5


class Session:
    """In place of the reference's process: a function of one tensor."""

    def __init__(self, function):
        self.function = function

    def run(self, made, _state, _compute, shape):
        return [self.function(made.inputs[0])]

    def answer(self, made, _state, compute, shape, watch=()):
        x = made.inputs[0].double() if compute == "float64" else made.inputs[0]
        found = self.function(x)
        return types.SimpleNamespace(outputs=found, leaves=[found])


def proof_of(function, comparer=None):
    task = types.SimpleNamespace(source=types.SimpleNamespace(precision="fp32"))
    made, rules = Made([X], []), RULES["fp32"]
    reference = function(X)
    expected = () if comparer else (expected_output(rules, function(X.double()), reference, []),)
    return Proof(task, Session(function), made, {}, Case("own", made, {}, expected, rules=rules, comparer=comparer))


def doubled(x):
    return x * 2.0


def dropped(x):
    return torch.where(torch.rand_like(x) < 0.5, 0.0, x * 2.0)


def random_proof():
    return proof_of(dropped, distribution_of([[dropped(X)] for _ in range(32)], RULES["fp32"]))


def test_an_answer_is_held_against_the_inputs_of_its_own_slot():
    proof, slot = proof_of(doubled), X * 0.9
    proof.verify([slot], doubled(slot))
    with pytest.raises(StopError) as stopped:
        proof.verify([slot], doubled(X))
    assert stopped.value.finding.cause == "NUMERIC"


def test_a_random_answer_must_look_like_a_draw_for_its_slot():
    proof, slot = random_proof(), X * 0.9
    for _ in range(4):
        proof.verify([slot], dropped(slot))


SKIPS = {
    "zeros": torch.zeros_like,
    "its input": torch.clone,
    "what was there before": lambda x: torch.rand_like(x) * 2.0 - 1.0,
    "another slot's draw": lambda _: dropped(X),
    "the mean": lambda x: x,
}


@pytest.mark.parametrize("answer", SKIPS.values(), ids=SKIPS)
def test_work_that_is_left_out_in_timed_rounds_is_found_out_though_answers_are_random(answer):
    proof, slot = random_proof(), X * 0.5
    with pytest.raises(StopError) as stopped:
        proof.verify([slot], answer(slot))
    assert stopped.value.finding.cause == "NUMERIC"
    assert "no draw of the reference's distribution" in stopped.value.finding.failure.message


def test_a_random_answer_of_another_form_is_refused():
    with pytest.raises(StopError) as stopped:
        random_proof().verify([X], dropped(X)[:32])
    assert stopped.value.finding.cause == "SHAPE"
