import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0 + 1.0, mask=at < n)


class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        with torch.cuda.device(x.device):
            scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        ctx.factor = 2.0
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor


class ModelNew(nn.Module):
    def forward(self, x):
        return Affine.apply(x.contiguous())
