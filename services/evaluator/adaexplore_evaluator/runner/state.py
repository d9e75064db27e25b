"""Named parameters and buffers: listing, moving off defaults, and loading into an instance."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from adaexplore_evaluator.runner.wire import DTYPE_NAMES

RELATIVE_NOISE = 0.1
ABSOLUTE_NOISE = 0.05
_RUNNING_MEAN = "running_mean"
_RUNNING_VAR = "running_var"


@dataclass(frozen=True)
class LoadResult:
    """What did not fit when a state was loaded: names the instance lacks, and (name, expected, found) of other types."""

    missing: tuple[str, ...]
    mismatched: tuple[tuple[str, str, str], ...]


def state_of(instance: object) -> dict[str, torch.Tensor]:
    """The tensors of an instance's `state_dict` by name; tied ones keep their shared storage. Empty for a plain function."""
    if not isinstance(instance, torch.nn.Module):
        return {}
    entries = instance.state_dict(keep_vars=True)
    return {name: value for name, value in entries.items() if isinstance(value, torch.Tensor)}


def move_off_defaults(state: dict[str, torch.Tensor], seed: int) -> None:
    """Add seeded noise in place to parameters and running statistics, so that constants a kernel bakes in show.

    Noise has 0.1 × the tensor's root mean square plus 0.05, on weights of rank 2 or more without the absolute part unless they
    are all zero; running variances stay positive; counters, masks and every other buffer keep their meaning and their values.
    """
    generator = torch.Generator().manual_seed(seed & (2**63 - 1))
    moved: set[int] = set()
    with torch.no_grad():
        for name, tensor in state.items():
            if tensor.data_ptr() in moved or not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            moved.add(tensor.data_ptr())
            if isinstance(tensor, torch.nn.Parameter):
                tensor.add_(_noise(tensor, generator))
            elif name.endswith(_RUNNING_VAR):
                tensor.mul_((0.5 + torch.rand(tensor.shape, generator=generator, device="cpu")).to(tensor))
            elif name.endswith(_RUNNING_MEAN):
                tensor.add_(_noise(tensor, generator))


def load_state(instance: object, state: dict[str, torch.Tensor]) -> LoadResult:
    """Copy `state` by name into an instance, cast to the instance's own dtypes; extra names of the instance are left alone.

    A tensor of another shape is reported and not copied.
    """
    own = state_of(instance)
    missing = tuple(name for name in state if name not in own)
    mismatched = []
    with torch.no_grad():
        for name, value in state.items():
            target = own.get(name)
            if target is None:
                continue
            if target.shape != value.shape:
                mismatched.append((name, describe_type(value), describe_type(target)))
            else:
                target.copy_(value)
    return LoadResult(missing=missing, mismatched=tuple(mismatched))


def describe_type(tensor: torch.Tensor) -> str:
    """Dtype and shape for people, for example `float32[4, 8]`."""
    return f"{DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype))}{list(tensor.shape)}"


def _noise(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    sample = torch.randn(tensor.shape, generator=generator, dtype=torch.float64, device="cpu")
    size = float(tensor.detach().double().square().mean().sqrt())
    absolute = ABSOLUTE_NOISE if tensor.dim() < 2 or not size else 0.0
    return (sample * (RELATIVE_NOISE * size + absolute)).to(tensor)
