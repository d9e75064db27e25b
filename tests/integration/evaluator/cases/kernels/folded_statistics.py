import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def affine_kernel(x, y, scale, shift, pixels, channels, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = (at // pixels) % channels
    value = tl.load(x + at, mask=at < n, other=0.0)
    value = value * tl.load(scale + channel, mask=at < n) + tl.load(shift + channel, mask=at < n)
    tl.store(y + at, tl.maximum(value, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        norm = self.norm
        if norm.training:
            variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
        else:
            variance, mean = norm.running_var, norm.running_mean
        scale = norm.weight * torch.rsqrt(variance + norm.eps)
        shift = norm.bias - mean * scale
        x = x.contiguous()
        y, n = torch.empty_like(x), x.numel()
        affine_kernel[(triton.cdiv(n, 512),)](x, y, scale, shift, x.shape[2] * x.shape[3], x.shape[1], n, BLOCK=512)
        return y
