"""Decompositions by their invariants: what every right answer shares where signs, phases and order are free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from adaexplore_evaluator.referee.numerics import Budget, ClassRules, Comparison, Expected, compare, expected_output

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Invariants:
    """Compares the factors of one decomposition (`svd`, `eig`, `eigh` or `qr`) with those of the reference.

    Attributes:
        kind: The decomposition.
        truth: Factors of the reference in float64.
        expected: What the invariants of each output must be.

    """

    kind: str
    truth: tuple[torch.Tensor, ...]
    expected: tuple[tuple[Expected, ...], ...]

    def compare(self, rules: ClassRules, found: Tensors, _expected: Sequence[Expected]) -> list[Comparison]:
        """One comparison an output: the first of its invariants that fails, or the last."""
        answered = invariants_of(self.kind, found, self.truth)
        return [_first_failure(rules, *pair) for pair in zip(answered, self.expected, strict=True)]

    def renewed(self, rules: ClassRules, truth: Tensors, reference: Tensors) -> Invariants:
        """The invariants for other inputs, with budgets no smaller than for these."""
        fresh = invariants_for(self.kind, rules, truth, reference, [])
        pairs = zip(fresh.expected, self.expected, strict=True)
        return replace(fresh, expected=tuple(tuple(map(_no_stricter, parts, known)) for parts, known in pairs))


def _no_stricter(item: Expected, known: Expected) -> Expected:
    budget = Budget(max(item.budget.largest, known.budget.largest), max(item.budget.rms, known.budget.rms))
    return replace(item, budget=budget)


def invariants_for(kind: str, rules: ClassRules, truth: Tensors, reference: Tensors, perturbed: Sequence[Tensors]) -> Invariants:
    """What the factors must be, from those of the float64 truth, of the reference in its class, and of rounded inputs."""
    right = invariants_of(kind, truth, truth)
    own = invariants_of(kind, reference, truth)
    noisy = [invariants_of(kind, item, truth) for item in perturbed]
    expected = tuple(
        tuple(
            expected_output(rules, item, own[place][number].to(_class_of(item, reference[place])), [draw[place][number] for draw in noisy])
            for number, item in enumerate(items)
        )
        for place, items in enumerate(right)
    )
    return Invariants(kind, tuple(truth), expected)


def invariants_of(kind: str, factors: Tensors, like: Tensors) -> list[list[torch.Tensor]]:
    """For each factor the tensors, in double precision, that do not depend on what is free; `like` gives the order of eigenvalues."""
    wide = [item.to(torch.complex128 if item.is_complex() else torch.float64) for item in factors]
    if kind == "svd":
        left, values, right = wide
        count = values.shape[-1]
        whole = (left[..., :count] * values.unsqueeze(-2).to(left.dtype)) @ right[..., :count, :]
        return [[_gram(left)], [values], [_gram(right.mH), whole]]
    if kind == "qr":
        return _of_qr(*wide)
    values, vectors = _in_order_of(wide[0], wide[1], like[0])
    if kind == "eigh":
        return [[values], [_gram(vectors), (vectors * values.unsqueeze(-2).to(vectors.dtype)) @ vectors.mH]]
    return [[values], [vectors.norm(dim=-2), _similar(values, vectors)]]


def _of_qr(orthogonal: torch.Tensor, upper: torch.Tensor) -> list[list[torch.Tensor]]:
    below = torch.tril(upper, diagonal=-1)
    if orthogonal.numel() == 0:  # only the triangle was asked for
        return [[orthogonal], [upper.mH @ upper, below]]
    return [[_gram(orthogonal)], [orthogonal @ upper, below]]


def _gram(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.mH @ matrix


def _similar(values: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """The matrix that has these eigenvalues and eigenvectors; NaN where the vectors do not span the space."""
    scaled = vectors * values.unsqueeze(-2)
    solved, info = torch.linalg.solve_ex(vectors, scaled, left=False)
    failed = info.reshape(*info.shape, 1, 1) != 0
    return torch.where(failed, torch.nan, solved)


def _in_order_of(values: torch.Tensor, vectors: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues, each beside the one of `like` that is nearest and still free, with their vectors."""
    distance = torch.nan_to_num((values.unsqueeze(-2) - like.to(values.dtype).unsqueeze(-1)).abs(), nan=torch.inf)
    size = values.shape[-1]
    flat = distance.reshape(-1, size, size).clone()
    order = torch.empty(flat.shape[0], size, dtype=torch.int64, device=values.device)
    for row in range(size):
        order[:, row] = flat[:, row].argmin(-1)
        flat.scatter_(2, order[:, row].reshape(-1, 1, 1).expand(-1, size, 1), torch.inf)
    order = order.reshape(values.shape)
    return values.gather(-1, order), vectors.gather(-1, order.unsqueeze(-2).expand_as(vectors))


def _class_of(item: torch.Tensor, reference: torch.Tensor) -> torch.dtype:
    """The dtype of the class that an invariant is rounded to: real where it is real."""
    return reference.dtype if item.is_complex() or not reference.is_complex() else reference.real.dtype


def _first_failure(rules: ClassRules, found: Sequence[torch.Tensor], expected: Sequence[Expected]) -> Comparison:
    comparisons = [compare(rules, item, right) for item, right in zip(found, expected, strict=True)]
    return next((item for item in comparisons if not item.passed), comparisons[-1])
