"""Whether a reference answers the same twice."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from adaexplore_evaluator.referee.reference import Made, ReferenceSession
from adaexplore_evaluator.referee.values import leaves
from adaexplore_evaluator.runner.wire import Value


def answers_alike(session: ReferenceSession, made: Made, state: Value) -> bool:
    """True if two calls on the same inputs agree up to what another order of additions changes."""
    first, second = (leaves(session.run(made, state, "class")) for _ in range(2))
    return alike(first, second)


def alike(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """True if two answers agree up to what another order of additions changes."""
    return len(first) == len(second) and all(_close(left, right) for left, right in zip(first, second, strict=True))


def _close(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point() and not left.is_complex():
        return torch.equal(left, right)
    return torch.allclose(left, right, rtol=64 * torch.finfo(left.dtype).eps, atol=1e-7, equal_nan=True)
