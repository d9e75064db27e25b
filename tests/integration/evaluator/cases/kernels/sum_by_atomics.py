import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.atomic_add(y + row, tl.sum(value, 0), sem="relaxed")


class ModelNew(nn.Module):
    """Adds two parts of a row in whatever order they come: the last bits differ from run to run, and may."""

    def forward(self, x):
        rows, columns = x.shape
        y = torch.zeros(rows, 1, device=x.device, dtype=x.dtype)
        block = triton.next_power_of_2(triton.cdiv(columns, 2))
        sum_kernel[(rows, 2)](x, y, columns, BLOCK=block)
        return y
