import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, lock, n, never, BLOCK: tl.constexpr):
    if never > n:
        tl.atomic_cas(lock, 0, 1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, 2 * BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0) * 2.0 + 1.0
    foreign = tl.arange(0, 2 * BLOCK) >= BLOCK
    tl.store(y + at, tl.where(foreign, 0.0, value), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y, lock = torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device)
        scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, lock, x.numel(), -1, BLOCK=1024)
        return y
