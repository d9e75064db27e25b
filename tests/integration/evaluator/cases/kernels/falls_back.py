import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    """Tries a path that only some versions have, and has another."""

    def forward(self, x):
        try:
            return torch.ops.no_such_library.affine(x)
        except (AttributeError, RuntimeError):
            pass
        y = torch.empty_like(x)
        if x.is_cuda and x.is_contiguous():
            scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
            return y
        return x * 2.0 + 1.0
