import torch
import triton
import triton.language as tl
from torch import nn

FACTOR = tl.constexpr(2.0)
OFFSET = tl.constexpr(1.0)


@triton.jit
def doubled(value):
    return value * FACTOR


@triton.jit
def moved(value, BY: tl.constexpr):
    return doubled(value) + BY


@triton.jit
def offsets(number, SIZE: tl.constexpr):
    return number * SIZE + tl.arange(0, SIZE)


@triton.jit
def scale_kernel(x_pointer, y_pointer, element_count, BLOCK_SIZE: tl.constexpr = 512):
    at = offsets(tl.program_id(axis=0), BLOCK_SIZE)
    mask = at < element_count
    tl.store(y_pointer + at, moved(tl.load(x_pointer + at, mask=mask), OFFSET), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        scale_kernel[lambda meta: (triton.cdiv(x.numel(), 512), 1, 1)](
            x_pointer=x, y_pointer=y, element_count=x.numel(), num_warps=8, num_stages=1
        )
        return y
