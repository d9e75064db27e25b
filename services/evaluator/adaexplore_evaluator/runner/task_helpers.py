"""What task files of KernelBench-X import as `data_utils`: random tensors for their cases."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

import torch

_NAME = "data_utils"


def rand_tensor(
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cuda",
    mode: str = "standard",
    outlier_prob: float = 0.001,
    outlier_scale: float = 50.0,
    low: float = -1.0,
    high: float = 1.0,
) -> torch.Tensor:
    """A random tensor: `standard` normal, `uniform` in [low, high), or `outlier`: normal, a share of `outlier_prob` of it scaled up."""
    if mode == "uniform":
        return torch.rand(*shape, device=device, dtype=dtype) * (high - low) + low
    values = torch.randn(*shape, device=device, dtype=dtype)
    if mode == "standard":
        return values
    if mode != "outlier":
        raise ValueError(f"rand_tensor knows no mode {mode!r}; use standard, uniform or outlier")
    chosen = torch.rand(*shape, device=device) < outlier_prob
    return torch.where(chosen, values * outlier_scale, values)


def rand_int(shape: Sequence[int], *, low: int, high: int, device: str = "cuda", dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Random integers of [low, high)."""
    return torch.randint(low, high, tuple(shape), device=device, dtype=dtype)


def rand_bool(shape: Sequence[int], *, device: str = "cuda") -> torch.Tensor:
    """Random truth values."""
    return torch.randint(0, 2, tuple(shape), device=device, dtype=torch.bool)


def offer_helpers() -> None:
    """Let `import data_utils` find these functions, unless it finds a module of that name already."""
    if _NAME in sys.modules or importlib.util.find_spec(_NAME) is not None:
        return
    module = ModuleType(_NAME)
    module.__dict__.update(rand_tensor=rand_tensor, rand_int=rand_int, rand_bool=rand_bool)
    sys.modules[_NAME] = module
