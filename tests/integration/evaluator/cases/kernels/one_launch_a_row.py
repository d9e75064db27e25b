import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_kernel(x, y, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < columns) * 2.0 + 1.0, mask=at < columns)


class ModelNew(nn.Module):
    """Many small launches from a loop of the host: slow and right."""

    def forward(self, x):
        y = torch.empty_like(x)
        for source, target in zip(x, y, strict=True):
            row_kernel[(1,)](source, target, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
