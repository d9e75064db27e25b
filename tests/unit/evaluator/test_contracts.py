import pytest
import torch
from adaexplore_evaluator.referee.contracts import SCALES, Contract, contract_of, figures_of, quantised
from adaexplore_evaluator.referee.numerics import RULES, Budget, Expected
from adaexplore_evaluator.referee.values import MalformedReplyError

TRUTH = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
CONTRACT = Contract(0.95, 0.05, 0.1)
REPLY = {
    **{"cosine": 0.9, "relative_l1": 0.1, "rmse": 0.15, "weight_bits": 8, "activation_bits": 8, "group": 0},
    **{"quantises_output": False, "activation_scales": ["row"], "weight_scales": ["group", "unheard_of"]},
}


def compared(found):
    expected = Expected(TRUTH, TRUTH.float(), Budget(0.0, 0.0))
    return CONTRACT.compare(RULES["fp32"], [found], [expected])[0]


def test_ideal_rounding_to_eight_bits_keeps_the_contract():
    assert compared(quantised(TRUTH, SCALES["row"](TRUTH.abs(), 0), 8)).passed


@pytest.mark.parametrize("wrong", [TRUTH * 1.2, torch.zeros_like(TRUTH), TRUTH.flip(0), torch.full_like(TRUTH, torch.nan), TRUTH + 0.2])
def test_what_breaks_one_bound_fails_and_shows_by_how_much(wrong):
    comparison = compared(wrong)
    assert not comparison.passed
    assert comparison.budget.exceeded_by(comparison.error)


def test_a_truth_of_zeros_is_met_by_zeros_alone():
    zeros = torch.zeros(4)
    assert CONTRACT.kept_by(figures_of(zeros, zeros))
    assert not CONTRACT.kept_by(figures_of(zeros + 1e-6, zeros))


@pytest.mark.parametrize("name", SCALES)
def test_rounding_moves_no_value_by_more_than_half_a_step(name):
    largest = SCALES[name](TRUTH.abs(), 16)
    assert ((quantised(TRUTH, largest, 8) - TRUTH).abs() <= largest.expand_as(TRUTH) / 254 + 1e-12).all()


def test_every_combination_that_the_task_names_is_tried():
    contract = Contract(0.9, 0.1, 0.1, activation_scales=("row", "tensor"), weight_scales=("column",))
    inputs = {"args": [TRUTH.float(), TRUTH.float()], "kwargs": {"bias": torch.ones(64)}}
    schemes = contract.schemes(inputs)
    assert [name for name, _value in schemes] == ["row and column", "tensor and column"]
    assert all(torch.equal(value["kwargs"]["bias"], torch.ones(64)) for _name, value in schemes)


def test_operands_of_sixteen_bits_are_left_alone():
    ((name, value),) = Contract(0.9, 0.1, 0.1, weight_bits=4, activation_bits=16, weight_scales=("row",)).schemes([TRUTH, TRUTH])
    assert name == "untouched and row"
    assert torch.equal(value[0], TRUTH)
    assert not torch.equal(value[1], TRUTH)


def test_a_reply_becomes_a_contract():
    found = contract_of(REPLY)
    assert (found.cosine, found.activation_scales, found.weight_scales) == (0.9, ("row",), ("group", "group_of_column"))
    assert contract_of(None) is None


@pytest.mark.parametrize("change", [{"cosine": "high"}, {"rmse": float("nan")}, {"weight_bits": 1}, {"group": -1}, {"weight_scales": 3}])
def test_a_malformed_contract_is_refused(change):
    with pytest.raises(MalformedReplyError):
        contract_of(REPLY | change)
