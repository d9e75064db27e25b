import pytest
import torch
from adaexplore_evaluator.referee.invariants import invariants_for
from adaexplore_evaluator.referee.numerics import RULES

FP32 = RULES["fp32"]
A = torch.randn(3, 9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SQUARE = A[:, :6]
SYMMETRIC = SQUARE + SQUARE.mT

FACTORS = {
    "svd": lambda a: torch.linalg.svd(a, full_matrices=False),
    "qr": torch.linalg.qr,
    "eigh": lambda a: torch.linalg.eigh(a[:, :6] + a[:, :6].mT),
    "eig": lambda a: torch.linalg.eig(a[:, :6]),
}


def small(factors):
    return [item.to(torch.complex64 if item.is_complex() else torch.float32) for item in factors]


def accepted(kind, found):
    truth, noisy = FACTORS[kind](A), FACTORS[kind](A * (1 + 2.0**-24))
    invariants = invariants_for(kind, FP32, list(truth), small(truth), [list(noisy)])
    return all(item.passed for item in invariants.compare(FP32, small(found), []))


def turned(kind):
    first, *rest = FACTORS[kind](A)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0, 1.0], dtype=torch.float64)
    if kind == "svd":
        return [first * signs, rest[0], rest[1] * signs[:, None]]
    if kind == "qr":
        return [first * signs, rest[0] * signs[:, None]]
    if kind == "eigh":
        return [first, rest[0] * signs]
    order = torch.tensor([3, 1, 0, 5, 2, 4])
    return [first[:, order], (rest[0] * torch.exp(1j * torch.arange(6.0, dtype=torch.float64)))[..., order]]


@pytest.mark.parametrize("kind", FACTORS)
def test_the_factors_themselves_are_accepted(kind):
    assert accepted(kind, FACTORS[kind](A))


@pytest.mark.parametrize("kind", FACTORS)
def test_free_signs_phases_and_order_are_accepted(kind):
    assert accepted(kind, turned(kind))


@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("wrong", [lambda t: t * 1.001, torch.zeros_like, lambda t: torch.full_like(t, torch.nan)])
def test_one_wrong_factor_is_refused(kind, place, wrong):
    factors = list(FACTORS[kind](A))
    factors[place] = wrong(factors[place])
    assert not accepted(kind, factors)


@pytest.mark.parametrize("kind", FACTORS)
def test_factors_of_another_matrix_are_refused(kind):
    assert not accepted(kind, FACTORS[kind](A.flip(-1) + 0.1))


def test_a_triangle_that_is_none_is_refused():
    q, r = torch.linalg.qr(A)
    turn = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64))[0]
    assert not accepted("qr", [q @ turn, turn.mT @ r])
