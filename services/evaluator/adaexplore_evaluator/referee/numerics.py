"""Scaled errors against the float64 truth, and budgets for them; docs/numerics.md says why they are as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch

BLOCK: Final = 64
_CHUNK: Final = BLOCK * 16384
# A GPU is as fast only with more at once; one chunk still takes little beside a tensor that needs chunks.
_CHUNK_ON_GPU: Final = 16 * _CHUNK
_SCALE_FLOOR: Final = 2.0**-30


@dataclass(frozen=True)
class ClassRules:
    """What a precision class demands.

    Attributes:
        input_noise: Relative rounding of operands that the class permits; inputs are perturbed by it to find the task's conditioning.
        factor: How much larger than the reference's own error (and than the conditioning) an honest error may be.
        floor: Scaled error of one element that is always allowed.
        floor_rms: Scaled error in the mean square that is always allowed.
        flush: Absolute error that is always allowed: what flushing of subnormal numbers costs.

    """

    input_noise: float
    factor: float
    floor: float
    floor_rms: float
    flush: float


_FP32_ULP = 2.0**-23
RULES: Final[dict[str, ClassRules]] = {
    "fp32": ClassRules(2.0**-24, 16.0, 64 * _FP32_ULP, 16 * _FP32_ULP, 2.0**-126),
    # Tensor cores drop the low bits of an operand instead of rounding it, so an honest error has a bias of up to a unit of the last place.
    "tf32": ClassRules(2.0**-11, 4.0, 2.0**-9, 2.0**-11, 2.0**-126),
    "bf16": ClassRules(2.0**-24, 3.0, 1.25 * 2.0**-8, 1.25 * 2.0**-9, 2.0**-126),
    "fp16": ClassRules(2.0**-24, 3.0, 1.25 * 2.0**-11, 1.25 * 2.0**-12, 2.0**-22),
}


@dataclass(frozen=True)
class ScaledError:
    """Error of one tensor: of its worst element and in the mean square."""

    largest: float
    rms: float


@dataclass(frozen=True)
class Budget:
    """Scaled error that one output may reach."""

    largest: float
    rms: float

    def exceeded_by(self, error: ScaledError) -> bool:
        """True if the error is above either bound; NaN is above every bound."""
        return not (error.largest <= self.largest and error.rms <= self.rms)


@dataclass(frozen=True)
class Mismatch:
    """First disagreement of one output.

    Attributes:
        kind: `special` for infinities and NaN, `value` for finite values, `exact` for integers, `distribution` for random outputs.
        index: Position of the element.
        expected: The truth there.
        found: The value found there.
        what: What of a distribution the values are.

    """

    kind: str
    index: tuple[int, ...]
    expected: float
    found: float
    what: str = ""


@dataclass(frozen=True)
class Comparison:
    """How one output compares with the truth."""

    error: ScaledError
    budget: Budget
    mismatch: Mismatch | None

    @property
    def passed(self) -> bool:
        """True if the output agrees."""
        return self.mismatch is None


@dataclass(frozen=True)
class Expected:
    """What one output must be.

    Attributes:
        truth: The reference in float64 (or its own integer dtype).
        reference: The reference in the task's class; its dtype and shape are the contract.
        budget: The error allowed.
        sensitivity: Scaled change of the truth when its inputs are rounded in the task's class.

    """

    truth: torch.Tensor
    reference: torch.Tensor
    budget: Budget
    sensitivity: float = 0.0


def expected_output(rules: ClassRules, truth: torch.Tensor, reference: torch.Tensor, perturbed: Sequence[torch.Tensor]) -> Expected:
    """What an output must be, from the truth, the reference in its class, and truths for inputs that were rounded at random.

    The budget is a factor times the larger of the reference's own error and the effect of rounding its inputs.
    """
    if not reference.is_floating_point() and not reference.is_complex():
        return Expected(truth, reference, Budget(0.0, 0.0))
    noise = [scaled_error(rules, item, truth, reference) for item in perturbed]
    errors = [scaled_error(rules, reference, truth, reference), *noise]
    budget = Budget(
        max(rules.floor, rules.factor * max(error.largest for error in errors)),
        max(rules.floor_rms, rules.factor * max(error.rms for error in errors)),
    )
    return Expected(truth, reference, budget, max((error.largest for error in noise), default=0.0))


def budget_for(rules: ClassRules, truth: torch.Tensor, reference: torch.Tensor, perturbed: Sequence[torch.Tensor]) -> Budget:
    """Budget of one output."""
    return expected_output(rules, truth, reference, perturbed).budget


def scaled_error(rules: ClassRules, found: torch.Tensor, truth: torch.Tensor, reference: torch.Tensor) -> ScaledError:
    """Scaled error where truth and reference agree on what is finite; elements where `found` is not finite count as infinite."""
    total = _Total()
    for part in _parts(found, truth, reference):
        total.add(rules, part)
    return total.error


def compare(rules: ClassRules, found: torch.Tensor, expected: Expected) -> Comparison:
    """Compare one output of the right shape and dtype with the truth, chunk by chunk."""
    if not expected.reference.is_floating_point() and not expected.reference.is_complex():
        return _compare_exact(found, expected)
    total, special = _Total(), None
    for part in _parts(found, expected.truth, expected.reference):
        total.add(rules, part)
        if special is None and bool((wrong := part.wrong_specials()).any()):
            special = _mismatch("special", part, int(wrong.nonzero()[0]), expected)
    if special is not None or not expected.budget.exceeded_by(total.error):
        return Comparison(total.error, expected.budget, special)
    return Comparison(total.error, expected.budget, _first_value(rules, found, expected, total.error))


def same_specials(truth: torch.Tensor, reference: torch.Tensor) -> bool:
    """True if the reference in its class is infinite and NaN exactly where the truth, rounded to that class, is."""
    if not reference.is_floating_point() and not reference.is_complex():
        return True
    return all(bool(part.judged.all()) for part in _parts(reference, truth, reference))


def finite_share(tensor: torch.Tensor) -> float:
    """Share of elements that are finite; 1 for an empty tensor."""
    return float(torch.isfinite(tensor).double().mean()) if tensor.numel() else 1.0


@dataclass(frozen=True)
class _Part:
    start: int
    found: torch.Tensor
    truth: torch.Tensor
    scale: torch.Tensor
    expected_class: torch.Tensor
    judged: torch.Tensor

    @property
    def finite(self) -> torch.Tensor:
        """Where the class can hold the truth."""
        return torch.isfinite(self.expected_class)

    def errors(self, rules: ClassRules) -> torch.Tensor:
        distance = ((self.found - self.truth).abs() - rules.flush).clamp(min=0.0)
        errors = distance / self.scale
        return torch.where(torch.isfinite(self.found), errors, math.inf)

    def wrong_specials(self) -> torch.Tensor:
        return self.judged & ~_alike(self.found, self.expected_class)


class _Total:
    """Sums the errors of parts up to those of an output."""

    def __init__(self) -> None:
        self._largest, self._squares, self._count = 0.0, 0.0, 0

    def add(self, rules: ClassRules, part: _Part) -> None:
        judged = part.judged & part.finite
        errors = torch.where(judged, part.errors(rules), 0.0)
        if errors.numel():
            self._largest = max(self._largest, float(errors.max()))
            self._squares += float(errors.square().sum())
            self._count += int(judged.sum())

    @property
    def error(self) -> ScaledError:
        return ScaledError(self._largest, math.sqrt(self._squares / max(self._count, 1)))


def _parts(found: torch.Tensor, truth: torch.Tensor, reference: torch.Tensor) -> Iterator[_Part]:
    dtype = _real_dtype(reference.dtype)
    flat_found, flat_truth, flat_reference = _flat(found), _flat(truth), _flat(reference)
    whole, chunk = _root_mean_square(flat_truth), _chunk_of(flat_truth)
    for start in range(0, flat_truth.numel(), chunk):
        stop = min(start + chunk, flat_truth.numel())
        part = flat_truth[start:stop].double()
        in_class = part.to(dtype).double()
        judged = _alike(flat_reference[start:stop].double(), in_class)
        yield _Part(start, flat_found[start:stop].double(), part, _scale(flat_truth, start, stop, whole), in_class, judged)


def _root_mean_square(flat: torch.Tensor) -> float:
    """Of the finite elements; 0 where there are none. Never a copy of the whole, which may fill most of a GPU."""
    squares, count = 0.0, 0
    chunk = _chunk_of(flat)
    for start in range(0, flat.numel(), chunk):
        part = flat[start : start + chunk]
        wide, finite = part.double(), torch.isfinite(part)
        squares += float(torch.where(finite, wide, 0.0).square().sum())
        count += int(finite.sum())
    return math.sqrt(squares / count) if count else 0.0


def _chunk_of(flat: torch.Tensor) -> int:
    return _CHUNK_ON_GPU if flat.is_cuda else _CHUNK


def _scale(truth: torch.Tensor, start: int, stop: int, whole_rms: float) -> torch.Tensor:
    """|t| plus the root mean square of the 64 elements around: small values beside small ones are judged by their own size."""
    part = torch.nan_to_num(truth[start:stop].double(), nan=0.0, posinf=0.0, neginf=0.0)
    count = part.numel()
    blocks = count // BLOCK * BLOCK
    rms = part[:blocks].view(-1, BLOCK).square().mean(1).sqrt().repeat_interleave(BLOCK)
    if blocks < count:
        window = torch.nan_to_num(truth[max(0, stop - BLOCK) : stop].double(), nan=0.0, posinf=0.0, neginf=0.0)
        rms = torch.cat([rms, window.square().mean().sqrt().expand(count - blocks)])
    scale = part.abs() + rms.clamp(min=_SCALE_FLOOR * whole_rms)
    return torch.where(scale > 0, scale, 1.0)


def _alike(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Where both are NaN, both the same infinity, or both finite."""
    if bool(torch.isfinite(left).all()) and bool(torch.isfinite(right).all()):
        return torch.ones_like(left, dtype=torch.bool)
    infinite = torch.isinf(left) | torch.isinf(right)
    return (torch.isnan(left) == torch.isnan(right)) & (~infinite | (left == right) | torch.isnan(left))


def _first_value(rules: ClassRules, found: torch.Tensor, expected: Expected, error: ScaledError) -> Mismatch:
    """First element above its bound; where only the mean square is, the first element above that bound."""
    bound = expected.budget.largest if error.largest > expected.budget.largest else expected.budget.rms
    for part in _parts(found, expected.truth, expected.reference):
        wrong = part.judged & part.finite & (part.errors(rules) > bound)
        if bool(wrong.any()):
            return _mismatch("value", part, int(wrong.nonzero()[0]), expected)
    raise AssertionError("an error above its budget has an element above that bound")


def _mismatch(kind: str, part: _Part, offset: int, expected: Expected) -> Mismatch:
    index = _index(part.start + offset, expected.reference)
    return Mismatch(kind, index, float(part.truth[offset]), float(part.found[offset]))


def _compare_exact(found: torch.Tensor, expected: Expected) -> Comparison:
    """Integers must equal the truth or, where rounding decides (ties of an argmax), the reference."""
    truth = expected.truth.to(expected.reference.dtype)
    wrong = ((found != truth) & (found != expected.reference)).reshape(-1)
    share = float(wrong.double().mean()) if wrong.numel() else 0.0
    mismatch = None
    if bool(wrong.any()):
        position = int(wrong.nonzero()[0])
        index = _index(position, expected.reference)
        mismatch = Mismatch("exact", index, float(truth.reshape(-1)[position]), float(found.reshape(-1)[position]))
    return Comparison(ScaledError(share, share), expected.budget, mismatch)


def _index(position: int, like: torch.Tensor) -> tuple[int, ...]:
    shape = (*like.shape, 2) if like.is_complex() else tuple(like.shape)
    found: list[int] = []
    for size in reversed(shape):
        found.append(position % size)
        position //= size
    return tuple(reversed(found))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.reshape(-1)


def _real_dtype(dtype: torch.dtype) -> torch.dtype:
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)
