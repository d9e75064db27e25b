"""Random outputs as distributions: an answer must look like one more draw of the reference, and no two answers may be the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from adaexplore_evaluator.referee.numerics import Budget, ClassRules, Comparison, Expected, Mismatch, ScaledError

# Draws of the reference that stand for its distribution; the first is left out where another is held against the rest.
DRAWS: Final = 32
_GRID: Final = (-2.0, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 2.0)
_MOST_SQUARE: Final = 64.0
# What draws of the reference span is widened by itself on both sides: of 32 draws about six standard deviations from the middle.
_MARGIN: Final = 1.0
_FEWEST_FLOOR: Final = 2.0
_MATRIX_RANK: Final = 2
# What rounding leaves of a difference of sums that are equal.
_ROUNDING: Final = 1e-13


@dataclass(frozen=True)
class _Feature:
    name: str
    value: float
    # What the value may differ by from one draw to another though all are honest.
    floor: float


@dataclass(frozen=True)
class _Others:
    """Mean and deviation of each element over several draws, and the root mean square of all of them."""

    mean: torch.Tensor
    deviation: torch.Tensor
    rms: torch.Tensor


@dataclass(frozen=True)
class _Draws:
    """Draws of one output, and what their features span."""

    others: _Others
    shape: torch.Size
    tolerance: float
    spans: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Distribution:
    """Compares answers with draws of the reference.

    Attributes:
        outputs: Draws of each output.
        repeats: Whether two draws of the reference were the same, as those of a few elements may be.

    """

    outputs: tuple[_Draws, ...]
    repeats: bool

    def compare(self, _rules: ClassRules, found: Sequence[torch.Tensor], _expected: Sequence[Expected]) -> list[Comparison]:
        """One comparison an output; its error is how far the worst feature lies from what draws span, in units of what is allowed."""
        return [_compare(item, draws) for item, draws in zip(found, self.outputs, strict=True)]

    def renewed(self, _rules: ClassRules, _truth: Sequence[torch.Tensor], _reference: Sequence[torch.Tensor]) -> Distribution:
        """Itself: one draw for other inputs is no distribution, so what is timed is not compared again."""
        return self


def distribution_of(draws: Sequence[Sequence[torch.Tensor]], rules: ClassRules) -> Distribution:
    """The distribution that draws of the reference show, each a list of outputs of the same shapes."""
    outputs = []
    for items in zip(*draws, strict=True):
        values = torch.stack([_flat(item) for item in items])
        exact = not items[0].is_floating_point() and not items[0].is_complex()
        outputs.append(_draws_of(values, items[0].shape, 0.0 if exact else 4 * rules.floor))
    repeats = any(
        all(torch.equal(*pair) for pair in zip(left, right, strict=True)) for place, left in enumerate(draws) for right in draws[:place]
    )
    return Distribution(tuple(outputs), repeats)


def _draws_of(values: torch.Tensor, shape: torch.Size, tolerance: float) -> _Draws:
    found = [_features(value, rest, shape, tolerance) for value, rest in zip(values, _without_each(values), strict=True)]
    spans = []
    for features in zip(*found, strict=True):
        low, high = min(item.value for item in features), max(item.value for item in features)
        margin = _MARGIN * (high - low) + features[0].floor
        spans.append((low - margin, high + margin))
    return _Draws(_others_of(values[1:]), shape, tolerance, tuple(spans))


def _others_of(values: torch.Tensor) -> _Others:
    return _Others(values.mean(0), values.std(0), values.square().mean().sqrt())


def _without_each(values: torch.Tensor) -> Iterator[_Others]:
    """For each draw what the others show; from sums over all, so that many draws cost no more than each looked at once."""
    count = values.shape[0]
    if not bool(torch.isfinite(values).all()):
        for left_out in range(count):
            yield _others_of(torch.cat([values[:left_out], values[left_out + 1 :]]))
        return
    # Around the first draw: what never varies is nought there, and stays so in sums.
    around = values - values[0]
    total, squares, whole = around.sum(0), around.square().sum(0), values.square().sum(1)
    for value, away, own in zip(values, around, whole, strict=True):
        mean = (total - away) / (count - 1)
        left = squares - away.square()
        variance = (left - (count - 1) * mean.square()) / (count - 2)
        variance = torch.where(variance > _ROUNDING * left, variance, 0.0)
        yield _Others(values[0] + mean, variance.sqrt(), ((whole.sum() - own) / ((count - 1) * value.numel())).sqrt())


def _compare(found: torch.Tensor, draws: _Draws) -> Comparison:
    features = _features(_flat(found), draws.others, draws.shape, draws.tolerance)
    distances = [_distance(item.value, *span) for item, span in zip(features, draws.spans, strict=True)]
    worst = max(range(len(distances)), key=distances.__getitem__)
    error, budget = ScaledError(distances[worst], 0.0), Budget(1.0, 0.0)
    if not budget.exceeded_by(error):
        return Comparison(error, budget, None)
    low, high = draws.spans[worst]
    return Comparison(error, budget, Mismatch("distribution", (), (low + high) / 2, features[worst].value, features[worst].name))


def _distance(value: float, low: float, high: float) -> float:
    half = (high - low) / 2
    distance = abs(value - (low + high) / 2)
    return math.inf if math.isnan(distance) else (distance / half if half > 0 else (0.0 if distance == 0 else math.inf))


def _features(value: torch.Tensor, others: _Others, shape: torch.Size, tolerance: float) -> list[_Feature]:
    """What is told of one draw beside others; names complete "its … is"."""
    mean, deviation = others.mean, others.deviation
    size = mean.abs() + others.rms
    varies = deviation > tolerance * size
    count, still = max(int(varies.sum()), 1), max(int((~varies).sum()), 1)
    scores = torch.where(varies, (value - mean) / torch.where(varies, deviation, 1.0), 0.0)
    known = scores[varies]
    floor = _FEWEST_FLOOR / math.sqrt(count)
    moved = (~varies & ~((value - mean).abs() <= 4 * tolerance * size)).sum() / still
    return [
        _Feature("mean deviation", float(known.sum()) / count, floor),
        _Feature("mean squared deviation", float(known.square().clamp(max=_MOST_SQUARE).sum()) / count, floor),
        _Feature("share of values that the reference never gives", float(moved), _FEWEST_FLOOR / still),
        _Feature("share of zeros", float((value == 0).double().mean()), _FEWEST_FLOOR / value.numel()),
        *(_Feature(f"share of deviations below {edge:g}", float((known <= edge).sum()) / count, floor) for edge in _GRID),
        *_along("deviation", scores, varies, shape),
        # Of what is dropped, deviations have the sign of the value: this way they point the same way.
        *_along("deviation from zero", scores * mean.sign(), varies, shape),
    ]


def _along(what: str, scores: torch.Tensor, varies: torch.Tensor, shape: torch.Size) -> list[_Feature]:
    """How much rows and columns deviate as wholes: elements that are drawn together tell there."""
    if len(shape) < _MATRIX_RANK:
        return []
    whole, mask = scores.reshape(shape), varies.reshape(shape)
    found = []
    for name, dimension in (("rows", -1), ("columns", -2)):
        sums, counts = whole.sum(dimension), mask.sum(dimension)
        square = float((sums.square() / counts.clamp(min=1)).mean())
        found.append(_Feature(f"{what} of whole {name}", square, _FEWEST_FLOOR / math.sqrt(max(sums.numel(), 1))))
    return found


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.double().reshape(-1)
