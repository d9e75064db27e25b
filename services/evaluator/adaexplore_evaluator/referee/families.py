"""Input families: what is changed about a task's own inputs, so that a kernel cannot be right by accident."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from adaexplore_evaluator.referee.values import map_storages
from adaexplore_evaluator.runner.wire import Value, tensors_of

OWN: Final = "own"
SECOND_SEED: Final = "own_second_seed"
ONE_ELEMENT: Final = "one_element"
PARAMETERS_MOVED: Final = "parameters_moved"
NEAR_ONE: Final = "near_one"


def scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """A change that multiplies finite values by `factor`; infinities keep their meaning and stay."""

    def change(flat: torch.Tensor) -> torch.Tensor:
        return torch.where(torch.isfinite(flat), (flat.double() * factor).to(flat.dtype), flat)

    return change


def shifted(flat: torch.Tensor) -> torch.Tensor:
    """Move values by their mean; where that is small, by a standard deviation. Positive inputs become sign-mixed."""
    wide = flat.double()
    finite = wide[torch.isfinite(wide)]
    if finite.numel() == 0:
        return flat
    mean, deviation = float(finite.mean()), float(finite.std(correction=0))
    step = -mean if abs(mean) >= 0.25 * deviation else deviation
    return torch.where(torch.isfinite(wide), (wide + step).to(flat.dtype), flat)


# A product of many such values neither vanishes nor overflows: the mean of their logarithms is about zero.
_AROUND_ONE: Final = 0.3
_MEAN_ONE: Final = 1.05
_MOST_DEVIATIONS: Final = 2.5


def near_one(flat: torch.Tensor) -> torch.Tensor:
    """Values around one, in the order of the values given."""
    wide = flat.double()
    finite = wide[torch.isfinite(wide)]
    if finite.numel() == 0:
        return flat
    deviation = finite.std(correction=0).clamp_min(torch.finfo(torch.float64).tiny)
    away = ((wide - finite.mean()) / deviation).clamp(-_MOST_DEVIATIONS, _MOST_DEVIATIONS)
    return torch.where(torch.isfinite(wide), _MEAN_ONE * (1.0 + _AROUND_ONE * away), wide).to(flat.dtype)


TRANSFORMS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "scaled_up": scaled(3.0),
    "scaled_down": scaled(0.01),
    "negated": scaled(-1.0),
    "shifted": shifted,
    "large": scaled(100.0),
}


def transformed(inputs: Value, family: str) -> Value:
    """The inputs of a family of TRANSFORMS or NEAR_ONE; integers keep their values."""
    return map_storages(inputs, near_one if family == NEAR_ONE else TRANSFORMS[family])


def one_element_changed(inputs: Value, generator: torch.Generator, strength: float) -> Value | None:
    """The inputs with one random element of each floating point tensor moved by `strength` × its root mean square.

    None if there is no such tensor.
    """
    floats = [tensor for tensor in tensors_of(inputs) if tensor.is_floating_point() and tensor.numel()]
    if not floats:
        return None

    def change(flat: torch.Tensor) -> torch.Tensor:
        wide = flat.double()
        position = int(torch.randint(flat.numel(), (1,), generator=generator, device=generator.device))
        finite = wide[torch.isfinite(wide)]
        size = float(finite.square().mean().sqrt()) if finite.numel() else 1.0
        changed = flat.clone()
        changed[position] = (torch.nan_to_num(wide[position], neginf=0.0, posinf=0.0) + strength * (size or 1.0)).to(flat.dtype)
        return changed

    return map_storages(inputs, change)


def perturbed(value: Value, noise: float, generator: torch.Generator) -> Value:
    """The value in float64 with every element moved by a random relative amount of at most `noise`."""

    def change(flat: torch.Tensor) -> torch.Tensor:
        wide = flat.double()
        return wide * (
            1.0 + noise * (2.0 * torch.rand(wide.shape, generator=generator, dtype=torch.float64, device=generator.device) - 1.0)
        )

    return map_storages(value, change)


def rounded_to(value: Value, mantissa_bits: int, towards_zero: bool = False) -> Value:
    """The value in float64 with mantissas rounded to so many explicit bits, as TF32 (10) or bfloat16 (7) operands are.

    Tensor cores that are given float32 operands drop what is beyond: they round towards zero.
    """
    to_integer = torch.trunc if towards_zero else torch.round

    def change(flat: torch.Tensor) -> torch.Tensor:
        mantissa, exponent = torch.frexp(flat.double())
        steps = 2.0 ** (mantissa_bits + 1)
        rounded = torch.ldexp(to_integer(mantissa * steps) / steps, exponent)
        return torch.where(torch.isfinite(flat), rounded, flat.double())

    return map_storages(value, change)
