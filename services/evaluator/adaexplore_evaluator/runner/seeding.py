"""Random numbers and default types fixed for a stretch of code, and put back after it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_SEED_MASK = 2**63 - 1


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, NumPy and `random` for the body, and restore their states after it."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    on_gpu: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_gpu else []):
        torch.default_generator.manual_seed(seed & _SEED_MASK)
        if on_gpu:
            torch.cuda.manual_seed(seed & _SEED_MASK)
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Put torch's global switches back as they were before the body: default dtype, gradients, threads of the user's choice."""
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let new floating point tensors have `dtype` within the body."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
