import math

import pytest
import torch
from adaexplore_evaluator.referee.families import perturbed, rounded_to
from adaexplore_evaluator.referee.numerics import RULES, Budget, Expected, budget_for, compare, same_specials, scaled_error
from hypothesis import given, settings
from hypothesis import strategies as st

FP32 = RULES["fp32"]


def judged(rules, function, *inputs):
    generator = torch.Generator().manual_seed(7)
    truth = function(*(item.double() for item in inputs))
    reference = function(*inputs)
    noisy = [function(*(perturbed(item, rules.input_noise, generator) for item in inputs)) for _ in range(3)]
    return Expected(truth, reference, budget_for(rules, truth, reference, noisy))


def accepted(rules, found, expected):
    return compare(rules, found, expected).passed


def product(a, b):
    return a @ b


def drawn(seed, *shapes, positive=False):
    generator = torch.Generator().manual_seed(seed)
    make = torch.rand if positive else torch.randn
    return [make(shape, generator=generator) for shape in shapes]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), depth=st.sampled_from([64, 300, 2048]), block=st.sampled_from([1, 8, 32]), positive=st.booleans())
def test_honest_reorderings_of_sums_pass(seed, depth, block, positive):
    a, b = drawn(seed, (24, depth), (depth, 24), positive=positive)
    expected = judged(FP32, product, a, b)
    total = torch.zeros(24, 24)
    for start in reversed(range(0, depth, block)):
        total = total + a[:, start : start + block] @ b[start : start + block]
    assert accepted(FP32, total, expected)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), depth=st.sampled_from([16, 256, 2048]))
def test_tf32_products_fail_in_fp32_and_pass_in_tf32(seed, depth):
    a, b = drawn(seed, (32, depth), (depth, 32))
    narrow = (rounded_to(a, 10) @ rounded_to(b, 10)).float()
    assert not accepted(FP32, narrow, judged(FP32, product, a, b))
    assert accepted(RULES["tf32"], narrow, judged(RULES["tf32"], product, a, b))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), name=st.sampled_from(["fp32", "tf32", "bf16", "fp16"]))
def test_errors_of_one_percent_fail_in_every_class(seed, name):
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32)
    a, b = (item.to(dtype) for item in drawn(seed, (48, 128), (128, 48)))
    expected = judged(RULES[name], product, a, b)
    assert accepted(RULES[name], (a.float() @ b.float()).to(dtype), expected)
    assert not accepted(RULES[name], (expected.truth * 1.01).to(dtype), expected)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_accumulating_in_sixteen_bits_fails(name):
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32)
    narrow = torch.float16 if name == "fp32" else dtype
    a, b = (item.to(dtype) for item in drawn(3, (32, 2048), (2048, 32)))
    total = torch.zeros(32, 32, dtype=narrow)
    for start in range(0, 2048, 16):
        total = total + (a[:, start : start + 16].float() @ b[start : start + 16].float()).to(narrow)
    assert not accepted(RULES[name], total.to(dtype), judged(RULES[name], product, a, b))


def test_zeros_for_a_wide_softmax_fail_though_the_old_tolerance_accepts_them():
    (x,) = drawn(1, (2, 400_000), positive=True)
    expected = judged(FP32, lambda value: torch.softmax(value, 1), x)
    zeros = torch.zeros_like(x)
    assert torch.allclose(zeros, expected.reference, rtol=5e-2, atol=5e-2)
    found = compare(FP32, zeros, expected)
    assert not found.passed
    assert found.mismatch.index == (0, 0)
    assert found.mismatch.found == 0
    assert found.mismatch.expected == pytest.approx(float(expected.truth[0, 0]))


def test_cancellation_is_judged_by_the_references_own_error():
    (x,) = drawn(2, (64, 64))

    def cancelling(value):
        return (value + 1000.0) - 1000.0

    expected = judged(FP32, cancelling, x)
    assert expected.budget.largest > 1e-4
    assert accepted(FP32, x.clone(), expected)
    assert accepted(FP32, (x + 1000.00006) - 1000.00006, expected)
    assert not accepted(FP32, x + 0.5, expected)


def test_a_lucky_reference_of_a_cancelling_scalar_does_not_narrow_the_budget():
    x = torch.tensor([1.0e4, -1.0e4, 1.0])
    expected = judged(FP32, lambda value: value.sum(), x)
    assert float(expected.reference) == 1.0
    assert accepted(FP32, torch.tensor(1.0005), expected)
    assert not accepted(FP32, torch.tensor(1.5), expected)


def test_a_small_block_beside_a_large_one_is_judged_by_its_own_size():
    truth = torch.cat([torch.full((64,), 1e6), torch.full((64,), 1e-6)]).double()
    expected = Expected(truth, truth.float(), budget_for(FP32, truth, truth.float(), []))
    wrong = truth.float().clone()
    wrong[64:] = 0
    found = compare(FP32, wrong, expected)
    assert found.mismatch.index == (64,)


@pytest.mark.parametrize(
    ("right", "wrong"), [(math.inf, 1.0), (math.inf, -math.inf), (math.nan, 0.0), (1.0, math.nan), (1.0, math.inf), (-math.inf, -1e30)]
)
def test_infinities_and_nan_must_agree(right, wrong):
    truth = torch.tensor([0.5, right, 2.0], dtype=torch.float64)
    expected = Expected(truth, truth.float(), Budget(1.0, 1.0))
    assert accepted(FP32, truth.float(), expected)
    found = compare(FP32, torch.tensor([0.5, wrong, 2.0]), expected)
    assert (found.mismatch.kind, found.mismatch.index) == ("special", (1,))


def test_what_overflows_in_the_class_must_be_infinite():
    truth = torch.tensor([1e300, 1.0], dtype=torch.float64)
    expected = Expected(truth, truth.float(), Budget(1e-6, 1e-6))
    assert accepted(FP32, torch.tensor([math.inf, 1.0]), expected)
    assert not accepted(FP32, torch.tensor([3e38, 1.0]), expected)


def test_a_reference_that_overflows_alone_has_no_meaning():
    truth = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert same_specials(truth, truth.float())
    assert not same_specials(truth, torch.tensor([1.0, math.inf]))


def test_flushed_subnormal_numbers_pass():
    truth = torch.full((8,), 1e-40, dtype=torch.float64)
    expected = Expected(truth, truth.float(), Budget(1e-6, 1e-6))
    assert accepted(FP32, torch.zeros(8), expected)


def test_integers_must_equal_the_truth_or_the_reference():
    expected = Expected(torch.tensor([1, 2, 3]), torch.tensor([1, 5, 3]), Budget(0, 0))
    assert accepted(FP32, torch.tensor([1, 2, 3]), expected)
    assert accepted(FP32, torch.tensor([1, 5, 3]), expected)
    found = compare(FP32, torch.tensor([1, 4, 3]), expected)
    assert (found.mismatch.kind, found.mismatch.index, found.mismatch.found) == ("exact", (1,), 4.0)


def test_one_wrong_element_is_found_across_chunks():
    truth = torch.ones(1_500_000, dtype=torch.float64)
    expected = Expected(truth, truth.float(), Budget(1e-6, 1e-6))
    wrong = truth.float()
    wrong[1_400_001] = 1.001
    assert compare(FP32, wrong, expected).mismatch.index == (1_400_001,)


def test_strided_outputs_are_compared_by_position():
    truth = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    expected = Expected(truth, truth.float(), Budget(1e-6, 1e-6))
    assert accepted(FP32, truth.float().t().contiguous().t(), expected)


def test_errors_of_empty_tensors_are_zero():
    empty = torch.empty(0, 4)
    assert scaled_error(FP32, empty, empty.double(), empty).largest == 0
