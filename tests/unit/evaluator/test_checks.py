from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from adaexplore_evaluator.referee.answers import Answer
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.checks import Checker
from adaexplore_evaluator.referee.numerics import RULES, expected_output
from adaexplore_evaluator.referee.reference import Made
from adaexplore_evaluator.referee.verdicts import StopError

FP32 = RULES["fp32"]


class Counting:
    """Calls something that is right for so many calls, and takes a second for each."""

    def __init__(self, right_calls, left_s=60.0):
        self.calls, self.now_s = 0, 0.0
        self._right_calls, self._left_s = right_calls, left_s
        self.call_s = 0.0

    def left_s(self):
        return self._left_s

    def call(self, case, _poison, _order, interpret=True, configuration=0):
        self.calls += 1
        self.now_s += self.call_s
        right = self.calls <= self._right_calls
        return Answer([case.expected[0].reference if right else torch.zeros_like(case.expected[0].reference)], [], set())


@pytest.fixture
def case():
    x = torch.rand(16, 20, generator=torch.Generator().manual_seed(0)) + 1
    truth = expected_output(FP32, x.double() * 2, x * 2, [x.double() * 2])
    return Case("own", Made([x], []), {}, (truth,))


def checker(caller):
    return Checker(caller, FP32, lambda: 7, lambda: caller.now_s)


def test_what_is_right_for_its_first_calls_alone_is_found_out(case):
    with pytest.raises(StopError) as stopped:
        checker(Counting(20)).check(case)
    assert stopped.value.finding.cause == "NUMERIC"


def test_calls_that_only_repeat_are_no_checks_of_their_own(case):
    caller = Counting(1000)
    judge = checker(caller)
    judge.check(case)
    assert caller.calls > 20
    assert len(judge.checks) == 1


@pytest.mark.parametrize(("left_s", "most"), [(60.0, 8), (8.0, 4)])
def test_repetition_takes_a_bounded_part_of_the_time(case, left_s, most):
    caller = Counting(1000, left_s)
    caller.call_s = 1.0
    checker(caller).check(case)
    assert 2 < caller.calls <= most


def test_an_answer_without_finite_values_looks_like_no_known_mistake(case):
    truth = case.expected[0]
    tempted = replace(case, lookalikes={"tf32": (truth.truth * 1.001,)})
    answer = Answer([torch.full_like(truth.reference, float("nan"))], [], set())
    caller = SimpleNamespace(call=lambda *_, **__: answer, left_s=lambda: 60.0, now_s=0.0)
    with pytest.raises(StopError) as stopped:
        checker(caller).check(tempted)
    assert stopped.value.finding.cause == "SPECIAL_VALUES"
    assert "tf32" not in stopped.value.finding.failure.message
