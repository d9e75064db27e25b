import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def fused(x_ptr, bias_ptr, residual_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0) + tl.load(bias_ptr + at % width, mask=inside, other=0.0)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    gelu = x * tl.sigmoid(2.0 * inner)
    tl.store(out_ptr + at, tl.load(residual_ptr + at, mask=inside, other=0.0) + gelu, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x, residual):
        assert x.is_cuda
        out = torch.empty_like(x)
        fused[(triton.cdiv(x.numel(), 1024),)](x, self.bias, residual, out, x.numel(), x.shape[-1], BLOCK=1024)
        return out
