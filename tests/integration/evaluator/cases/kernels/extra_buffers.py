import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def normalise_kernel(x, y, weight, bias, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(value, 0) / columns
    centred = tl.where(inside, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + epsilon)
    value = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    inner = 0.7978845608028654 * (value + 0.044715 * value * value * value)
    tl.store(y + row * columns + at, value * tl.sigmoid(2.0 * inner), mask=inside)


class ModelNew(nn.Module):
    """Has more in its state than the reference: buffers that are kept, and one that is not saved."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scratch", torch.zeros(width), persistent=False)
        self.block = triton.next_power_of_2(width)

    def forward(self, x):
        y, norm = torch.empty_like(x), self.norm
        normalise_kernel[(x.shape[0],)](x, y, norm.weight, norm.bias, x.shape[1], norm.eps, BLOCK=self.block, num_warps=4)
        self.calls += 1
        return y
