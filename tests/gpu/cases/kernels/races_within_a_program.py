import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def reversed_twice_kernel(x, scratch, y, n, BLOCK: tl.constexpr):
    """Hands values from thread to thread through memory, with nothing that lets the readers wait for the writers."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(scratch + at, tl.load(x + at) * 2.0)
    mirrored = tl.program_id(0) * BLOCK + BLOCK - 1 - tl.arange(0, BLOCK)
    tl.store(y + mirrored, tl.load(scratch + mirrored) + 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        scratch, y = torch.empty_like(x), torch.empty_like(x)
        reversed_twice_kernel[(x.numel() // 8192,)](x, scratch, y, x.numel(), BLOCK=8192, num_warps=16)
        return y
