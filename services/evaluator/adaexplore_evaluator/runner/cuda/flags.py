"""Torch's switches for the precision of products, as a class demands them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from adaexplore_evaluator.runner.precision import TF32


@contextmanager
def class_products(precision: str) -> Iterator[None]:
    """Products and convolutions of torch in the class's precision for the body: TF32 in `tf32` alone."""
    matmul, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    matmul.allow_tf32 = convolutions.allow_tf32 = precision == TF32
    try:
        yield
    finally:
        # Torch's own defaults; what stood before cannot be read where it was set by torch's newer names.
        matmul.allow_tf32, convolutions.allow_tf32 = False, True
