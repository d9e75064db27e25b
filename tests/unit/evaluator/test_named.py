import pytest
import torch
from adaexplore_evaluator.referee.audit import audit
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.contracts import Contract
from adaexplore_evaluator.referee.named import InvalidCasesError, class_rules, demand_satisfiable, named_inputs, of_one_form
from adaexplore_evaluator.referee.numerics import RULES, expected_output
from adaexplore_evaluator.referee.reference import Answered, LoadedTask, Made

FP32 = RULES["fp32"]


def case(family, x, function):
    truth = function(x.double())
    return Case(family, Made([x], []), {}, (expected_output(FP32, truth, truth.to(x.dtype), []),))


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_rules_are_those_of_the_smallest_floating_point_dtype():
    assert class_rules(FP32, [torch.zeros(1), torch.zeros(1, dtype=torch.float16)]) is RULES["fp16"]
    assert class_rules(FP32, [torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.float16)]) is RULES["bf16"]
    assert class_rules(RULES["tf32"], [torch.zeros(1), torch.zeros(1, dtype=torch.int8)]) is RULES["tf32"]


def test_the_audit_hears_cases_of_other_shapes_but_not_of_other_dtypes():
    def doubled_where_narrow(x):
        return x * 2 if x.shape[-1] < 8 else x

    cases = [case("own", draw(4, 9), doubled_where_narrow), case("narrow", draw(4, 3), doubled_where_narrow)]
    cases.append(case("half", draw(4, 3).half(), doubled_where_narrow))
    assert [item.family for item in of_one_form(cases)] == ["own", "narrow"]
    controls = {control.name: control for control in audit(FP32, of_one_form(cases)).controls}
    assert controls["copy_of_input"].refused
    assert not {control.name: control for control in audit(FP32, cases[:1]).controls}["copy_of_input"].refused


class Session:
    """A reference that multiplies its two inputs, and cases that differ with the seed."""

    def __init__(self, sizes=(3,)):
        self.sizes = sizes

    def answer(self, made, _state, _compute, **_options):
        return Answered(made.inputs[0] @ made.inputs[1], (), (), "")

    def make_cases(self, seed):
        generator = torch.Generator().manual_seed(seed)
        return [(name, Made([torch.randn(size, size, generator=generator)], [])) for name, size in self.sizes]

    def make_inputs(self, _seed):
        return Made([torch.zeros(2)], [])


def product(contract_rmse, bits=8):
    contract = Contract(0.95, 0.05, contract_rmse, bits, bits, activation_scales=("row", "tensor"), weight_scales=("column",))
    a, b = draw(24, 32), draw(32, 40)
    truth = a.double() @ b.double()
    return contract, Case("random", Made([a, b], []), {}, (expected_output(FP32, truth, truth.float(), []),), comparer=contract)


def test_a_contract_within_reach_of_one_scheme_stands():
    contract, item = product(0.5)
    demand_satisfiable(Session(), contract, [item], {})


@pytest.mark.parametrize(("rmse", "bits"), [(0.001, 8), (0.5, 2)])
def test_a_contract_that_no_scheme_keeps_is_refused_with_the_figures_of_the_nearest(rmse, bits):
    contract, item = product(rmse, bits)
    with pytest.raises(InvalidCasesError, match=r"scales by row and column.*RMSE .* `random`") as error:
        demand_satisfiable(Session(), contract, [item], {})
    assert error.value.cause == "UNSATISFIABLE"


def test_the_largest_case_is_timed_and_drawn_twice():
    found = named_inputs(Session((("a", 2), ("b", 5), ("c", 3))), LoadedTask("function", "f", has_inputs=False, has_cases=True), [1, 2])
    assert found.timed.inputs[0].shape == found.second.inputs[0].shape == (5, 5)
    assert not torch.equal(found.timed.inputs[0], found.second.inputs[0])
    assert [name for name, _made in found.others] == ["a", "c"]


def test_own_inputs_are_timed_and_every_case_is_kept():
    found = named_inputs(Session((("a", 2), ("b", 5))), LoadedTask("function", "f", has_inputs=True, has_cases=True), [1, 2])
    assert found.timed.inputs[0].shape == (2,)
    assert [name for name, _made in found.others] == ["a", "b"]


def test_large_draws_of_one_name_that_differ_in_numbers_alone_are_kept_once():
    sizes = (("small[0]", 4), ("small[1]", 4), ("large[0]", 300), ("large[1]", 300), ("large[2]", 310), ("other[0]", 300))
    found = named_inputs(Session(sizes), LoadedTask("function", "f", has_inputs=True, has_cases=True), [1, 2])
    assert [name for name, _made in found.others] == ["small[0]", "small[1]", "large[0]", "large[2]", "other[0]"]
