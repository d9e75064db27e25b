import pytest
import torch
from adaexplore_evaluator.referee.distributions import DRAWS, distribution_of
from adaexplore_evaluator.referee.numerics import RULES

FP32 = RULES["fp32"]
X = torch.randn(48, 64, generator=torch.Generator().manual_seed(0))


def dropped(x, p, generator, scale=None):
    mask = torch.rand(x.shape, generator=generator) >= p
    return x * mask * (1 / (1 - p) if scale is None else scale)


def accepts(distribution, answer):
    return all(item.passed for item in distribution.compare(FP32, [answer], []))


@pytest.fixture(scope="module")
def generator():
    return torch.Generator().manual_seed(7)


@pytest.fixture(scope="module")
def half(generator):
    return distribution_of([[dropped(X, 0.5, generator)] for _ in range(DRAWS)], FP32)


def test_other_draws_of_the_reference_are_accepted(half, generator):
    assert all(accepts(half, dropped(X, 0.5, generator)) for _ in range(200))
    assert not half.repeats


@pytest.mark.parametrize(
    "wrong",
    [
        lambda _generator: X,
        lambda _generator: torch.zeros_like(X),
        lambda _generator: X * 0.5,
        lambda generator: dropped(X, 0.4, generator),
        lambda generator: dropped(X, 0.5, generator, scale=1.0),
        lambda generator: dropped(X, 0.5, generator) + 0.01,
        lambda generator: X * 2 * (torch.rand(48, 1, generator=generator) >= 0.5),
        lambda generator: X * 2 * (torch.rand(64, generator=generator) >= 0.5),
        lambda generator: dropped(X.flip(0), 0.5, generator),
        lambda _generator: torch.full_like(X, torch.nan),
    ],
    ids=["nothing dropped", "zeros", "mean", "other share", "unscaled", "shifted", "whole rows", "whole columns", "other inputs", "nan"],
)
def test_what_the_reference_never_draws_is_refused(half, generator, wrong):
    comparison = half.compare(FP32, [wrong(generator)], [])[0]
    assert not comparison.passed
    assert comparison.mismatch.what


def test_elements_that_are_not_random_must_be_right(generator):
    def drawn():
        values = dropped(X, 0.5, generator)
        values[:, 0] = 3.0
        return values

    distribution = distribution_of([[drawn()] for _ in range(DRAWS)], FP32)
    assert all(accepts(distribution, drawn()) for _ in range(20))
    wrong = drawn()
    wrong[:, 0] = 3.5
    comparison = distribution.compare(FP32, [wrong], [])[0]
    assert "never gives" in comparison.mismatch.what


def test_few_random_elements_may_repeat(generator):
    few = torch.tensor([1.0, -2.0])
    distribution = distribution_of([[dropped(few, 0.5, generator)] for _ in range(DRAWS)], FP32)
    assert distribution.repeats
    assert all(accepts(distribution, dropped(few, 0.5, generator)) for _ in range(100))


def test_mixed_random_outputs_are_accepted_and_their_share_still_tells(generator):
    weights = torch.randn(64, 40, generator=generator)
    distribution = distribution_of([[dropped(X, 0.1, generator) @ weights] for _ in range(DRAWS)], FP32)
    assert all(accepts(distribution, dropped(X, 0.1, generator) @ weights) for _ in range(100))
    assert not accepts(distribution, X @ weights)
    assert not accepts(distribution, dropped(X, 0.3, generator) @ weights)
