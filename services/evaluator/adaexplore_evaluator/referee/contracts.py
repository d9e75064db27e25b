"""Quantisation contracts: what a quantised answer must reach, and whether the scheme that a task prescribes can reach it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from adaexplore_evaluator.referee.numerics import Budget, ClassRules, Comparison, Expected, Mismatch, ScaledError
from adaexplore_evaluator.referee.values import MalformedReplyError, names
from adaexplore_evaluator.runner.wire import Value, map_tensors, tensors_of

_NOT_QUANTISED_BITS: Final = 16
_LEAST_BITS: Final = 2
_MOST_BITS: Final = 64
_MOST_SCHEMES: Final = 64

_DEFAULT_GROUP: Final = 64
_UNTOUCHED: Final = "untouched"

Scale = Callable[[torch.Tensor, int], torch.Tensor]


@dataclass(frozen=True)
class Figures:
    """How near an answer is to the truth: cosine of the angle between both, mean |error| over mean |truth|, root of the mean square."""

    cosine: float
    relative_l1: float
    rmse: float


@dataclass(frozen=True)
class Contract:
    """Least cosine and largest errors of each output, and the scheme that a task prescribes.

    Attributes:
        cosine: Least cosine between answer and truth.
        relative_l1: Largest sum of |error| over sum of |truth|.
        rmse: Largest root mean square of the error, absolute.
        weight_bits: Bits of a weight; 16 and more are not quantised.
        activation_bits: Bits of an activation, the first operand.
        group: Elements of a group that shares a scale; 0 if the task states no size.
        quantises_output: The output is rounded, the operands are not.
        activation_scales: What may share a scale in the first operand, by names of `SCALES`; any where the task names none.
        weight_scales: The same for the operands after it; those of the first where the task names none.

    """

    cosine: float
    relative_l1: float
    rmse: float
    weight_bits: int = 8
    activation_bits: int = 8
    group: int = 0
    quantises_output: bool = False
    activation_scales: tuple[str, ...] = ()
    weight_scales: tuple[str, ...] = ()

    def compare(self, _rules: ClassRules, found: Sequence[torch.Tensor], expected: Sequence[Expected]) -> list[Comparison]:
        """One comparison an output, whose error is the relative L1 and the RMSE, or the cosine's distance from 1 where that fails."""
        return [self._compare(item, right) for item, right in zip(found, expected, strict=True)]

    def renewed(self, _rules: ClassRules, _truth: Sequence[torch.Tensor], _reference: Sequence[torch.Tensor]) -> Contract:
        """Itself: bounds do not depend on inputs."""
        return self

    def kept_by(self, figures: Figures) -> bool:
        """True if an answer of such figures keeps the contract; NaN does not."""
        return figures.cosine >= self.cosine and figures.relative_l1 <= self.relative_l1 and figures.rmse <= self.rmse

    def _compare(self, found: torch.Tensor, expected: Expected) -> Comparison:
        figures = figures_of(found, expected.truth)
        error, budget = ScaledError(figures.relative_l1, figures.rmse), Budget(self.relative_l1, self.rmse)
        if self.kept_by(figures):
            return Comparison(error, budget, None)
        if not budget.exceeded_by(error):
            error, budget = ScaledError(1.0 - figures.cosine, 0.0), Budget(1.0 - self.cosine, 0.0)
        return Comparison(error, budget, _worst(found, expected.truth))

    def schemes(self, inputs: Value) -> list[tuple[str, Value]]:
        """The inputs in float64 as ideal rounding leaves them, under each way to share scales that the task names, with that way."""
        operands = _operands(inputs)
        bits = [self.activation_bits, *(self.weight_bits for _ in operands[1:])][: len(operands)]
        shared = [self.activation_scales, *(self.weight_scales or self.activation_scales for _ in operands[1:])][: len(operands)]
        options = [
            (names or tuple(SCALES)) if width < _NOT_QUANTISED_BITS else (_UNTOUCHED,) for names, width in zip(shared, bits, strict=True)
        ]
        found = []
        for chosen in itertools.islice(itertools.product(*options), _MOST_SCHEMES):
            rounded = [self._rounded(*item) for item in zip(operands, chosen, bits, strict=True)]
            found.append((" and ".join(chosen), _with_operands(inputs, rounded)))
        return found

    def _rounded(self, tensor: torch.Tensor, scale: str, bits: int) -> torch.Tensor:
        if scale == _UNTOUCHED:
            return tensor.double()
        return quantised(tensor, SCALES[scale](tensor.double().abs(), self.group or _DEFAULT_GROUP), bits)


def contract_of(reply: object) -> Contract | None:
    """The contract that a runner read from its task; MalformedReplyError if it is none."""
    if reply is None:
        return None
    if not isinstance(reply, dict):
        raise MalformedReplyError("contract is no object")
    try:
        cosine, relative_l1, rmse = (float(reply[name]) for name in ("cosine", "relative_l1", "rmse"))
        weight_bits, activation_bits, group = (int(reply[name]) for name in ("weight_bits", "activation_bits", "group"))
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedReplyError("contract has another form") from error
    finite = all(map(math.isfinite, (cosine, relative_l1, rmse)))
    if not finite or not all(_LEAST_BITS <= bits <= _MOST_BITS for bits in (weight_bits, activation_bits)) or group < 0:
        raise MalformedReplyError("contract has impossible bounds")
    scales = [_known_scales(names(reply, f"{kind}_scales")) for kind in ("activation", "weight")]
    return Contract(cosine, relative_l1, rmse, weight_bits, activation_bits, group, reply.get("quantises_output") is True, *scales)


def figures_of(found: torch.Tensor, truth: torch.Tensor) -> Figures:
    """Figures of an answer; a truth of zeros is met by zeros alone."""
    left, right = found.double().reshape(-1), truth.double().reshape(-1)
    error = (left - right).abs()
    total, norm = float(right.abs().sum()), float(left.norm() * right.norm())
    missed = float(error.sum())
    cosine = float(left @ right) / norm if norm > 0 else (1.0 if missed == 0 else 0.0)
    relative = missed / total if total > 0 else (0.0 if missed == 0 else math.inf)
    return Figures(cosine, relative, float(error.square().mean().sqrt()) if error.numel() else 0.0)


def quantised(tensor: torch.Tensor, largest: torch.Tensor, bits: int) -> torch.Tensor:
    """The tensor in float64, rounded to the nearest of the symmetric steps that `bits` and the `largest` magnitudes give."""
    most = 2 ** (bits - 1) - 1
    step = largest.expand_as(tensor) / most
    rounded = torch.round(tensor.double() / torch.where(step > 0, step, 1.0)).clamp(-most - 1, most) * step
    return torch.where(step > 0, rounded, tensor.double())


def per_row(magnitudes: torch.Tensor, _group: int = 0) -> torch.Tensor:
    """Largest magnitude along the last dimension."""
    return magnitudes.amax(-1, keepdim=True)


def _grouped(magnitudes: torch.Tensor, group: int) -> torch.Tensor:
    """Largest magnitude of each group along the last dimension."""
    return torch.cat([part.amax(-1, keepdim=True).expand_as(part) for part in torch.split(magnitudes, group, -1)], -1)


def _but(dimension: int) -> Scale:
    """Largest magnitude over all dimensions but one."""

    def largest(magnitudes: torch.Tensor, _group: int) -> torch.Tensor:
        return magnitudes.amax([place for place in range(magnitudes.dim()) if place != dimension], keepdim=True)

    return largest


# What shares a scale, by name; groups lie along the last dimension, or along the one before it.
SCALES: Final[dict[str, Scale]] = {
    "row": per_row,
    "column": lambda magnitudes, _group: magnitudes.amax(-2, keepdim=True),
    "output_channel": _but(0),
    "input_channel": _but(1),
    "group": _grouped,
    "group_of_column": lambda magnitudes, group: _grouped(magnitudes.mT, group).mT,
    "tensor": lambda magnitudes, _group: magnitudes.amax(),
}


def _known_scales(found: Sequence[str]) -> tuple[str, ...]:
    known = [name for name in found if name in SCALES]
    return tuple([*known, "group_of_column"] if "group" in known else known)


def _operands(inputs: Value) -> list[torch.Tensor]:
    return [tensor for tensor in tensors_of(inputs) if tensor.is_floating_point() and tensor.dim() > 1]


def _with_operands(inputs: Value, operands: Sequence[torch.Tensor]) -> Value:
    rest = iter(operands)
    return map_tensors(inputs, lambda tensor: next(rest) if tensor.is_floating_point() and tensor.dim() > 1 else tensor)


def _worst(found: torch.Tensor, truth: torch.Tensor) -> Mismatch:
    left, right = found.double().reshape(-1), truth.double().reshape(-1)
    error = torch.nan_to_num((left - right).abs(), nan=math.inf)
    position = int(error.argmax())
    index = tuple(int(item) for item in torch.unravel_index(torch.tensor(position), truth.shape)) if truth.dim() else ()
    return Mismatch("value", index, float(right[position]), float(left[position]))
