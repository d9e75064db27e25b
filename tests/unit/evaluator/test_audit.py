import pytest
import torch
from adaexplore_evaluator.referee.audit import audit
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.families import perturbed
from adaexplore_evaluator.referee.numerics import RULES, expected_output
from adaexplore_evaluator.referee.reference import Made

FP32 = RULES["fp32"]


def case(function, x, family="own"):
    truth, reference = function(x.double()), function(x)
    noisy = function(perturbed(x, FP32.input_noise, torch.Generator().manual_seed(1)))
    return Case(family, Made([x], []), {}, (expected_output(FP32, truth, reference, [noisy]),))


def cases(function, x):
    return [case(function, x), case(function, x.flip(0) * 1.5, "own_second_seed"), case(function, -x, "negated")]


@pytest.fixture
def x():
    return torch.rand(16, 100, generator=torch.Generator().manual_seed(0))


def refused(result):
    return {control.name: control.refused for control in result.controls}


def test_an_honest_task_refuses_every_degenerate_answer(x):
    result = audit(FP32, cases(lambda value: torch.tanh(value) + 1, x))
    assert result.cause == ""
    assert refused(result) == {"zeros": True, "mean": True, "previous_output": True, "copy_of_input": True}
    assert 0 < result.reference_error < result.error_budget


@pytest.mark.parametrize(
    "function",
    [
        lambda value: value * 0.0,
        lambda value: value.sum() * 0 + 3,
        lambda value: torch.softmax(value, 1).sum(1),
        lambda value: torch.nn.functional.layer_norm(value, (100,)).mean(1),
    ],
)
def test_a_constant_truth_is_degenerate(x, function):
    result = audit(FP32, cases(function, x))
    assert result.cause == "DEGENERATE"
    assert result.message


def test_relu_of_positive_inputs_is_saved_by_the_negated_family(x):
    assert audit(FP32, cases(torch.relu, x)).cause == ""


def test_an_identity_may_return_its_input(x):
    assert audit(FP32, cases(lambda value: value * 1.0, x)).cause == ""


def test_the_mean_of_a_scalar_is_refused_by_the_second_seed(x):
    assert audit(FP32, cases(lambda value: value.square().mean(), x)).cause == ""


def test_a_tolerance_of_five_percent_is_refused_for_a_wide_softmax():
    wide = torch.rand(2, 4096, generator=torch.Generator().manual_seed(0))
    tasks = cases(lambda value: torch.softmax(value, 1), wide)

    def old(case, answer):
        return all(torch.allclose(found, item.reference, rtol=5e-2, atol=5e-2) for found, item in zip(answer, case.expected, strict=True))

    assert audit(FP32, tasks).cause == ""
    assert audit(FP32, tasks, accepts=old).cause == "DEGENERATE"


def test_a_reference_that_overflows_its_class_cannot_be_satisfied(x):
    result = audit(FP32, cases(lambda value: (value * 1e30 * 1e30) / 1e30, x + 1))
    assert result.cause == "UNSATISFIABLE"


def test_a_reference_without_correct_digits_cannot_be_satisfied(x):
    result = audit(FP32, cases(lambda value: (value + 1e8) - 1e8, x))
    assert result.cause == "UNSATISFIABLE"
