"""Which inputs a task is judged on, and that they leave no part of an answer unjudged."""

import types

import pytest
import torch
from adaexplore_evaluator.referee.cases import CaseMaker, covered
from adaexplore_evaluator.referee.families import NEAR_ONE, OWN
from adaexplore_evaluator.referee.numerics import RULES
from adaexplore_evaluator.referee.reference import Made

COLUMNS = 2048


class Session:
    """In place of a reference's process: a function of one tensor."""

    def __init__(self, function):
        self.function = function

    def answer(self, made, _state, compute, watch=()):
        wide = made.inputs[0].double()
        # A scan in blocks, as GPUs do it, rounds otherwise than the truth.
        found = self.function(wide if compute == "float64" else wide.float())
        return types.SimpleNamespace(changed=(), leaves=[found], outputs=[found])


def cases_of(function, inputs):
    generator = torch.Generator().manual_seed(1)
    maker = CaseMaker(Session(function), RULES["fp32"], generator)
    own = maker.case(OWN, Made([inputs], []), {})
    second = Made([inputs.flip(0)], [])
    return [own, *maker.families(own, second)]


def product(x):
    return torch.cumprod(x, dim=1)


def stops(x):
    y = torch.zeros_like(x)
    y[:, :128] = torch.cumprod(x[:, :128], dim=1)
    return y


def accepted(case, function):
    return case.accepts(RULES["fp32"], [function(case.made.inputs[0])])


def test_a_long_product_that_vanishes_is_judged_to_its_end():
    cases = cases_of(product, torch.rand(32, COLUMNS, generator=torch.Generator().manual_seed(2)))
    assert not covered(cases[:1])
    assert NEAR_ONE in [case.family for case in cases]
    around = next(case for case in cases if case.family == NEAR_ONE)
    assert accepted(around, product)
    assert not accepted(around, stops)


@pytest.mark.parametrize("function", [torch.relu, torch.exp, lambda x: x.sum(dim=1)])
def test_inputs_around_one_are_only_added_where_something_is_left_unjudged(function):
    cases = cases_of(function, torch.randn(8, 64, generator=torch.Generator().manual_seed(3)))
    assert covered(cases)
    assert NEAR_ONE not in [case.family for case in cases]
