import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float64)
    tl.store(y + at, (value * 2.0 + 1.0).to(y.dtype.element_ty), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        scale_kernel[(triton.cdiv(x.numel(), 1024),)](x.view(-1), y.view(-1), x.numel(), BLOCK=1024)
        return y.reshape(x.shape)
