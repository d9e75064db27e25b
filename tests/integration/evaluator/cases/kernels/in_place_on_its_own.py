import triton
import triton.language as tl
from torch import nn


@triton.jit
def double_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        double_kernel[(triton.cdiv(y.numel(), 1024),)](y, y.numel(), BLOCK=1024)
        return y.add_(1.0)
