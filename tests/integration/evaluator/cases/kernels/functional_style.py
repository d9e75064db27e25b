from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, n, factor, offset, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, value * factor + offset, mask=at < n)


@dataclass(frozen=True)
class Plan:
    elements: int
    block: int = 512

    @property
    def grid(self):
        return (triton.cdiv(self.elements, self.block),)


class Affine:
    def __init__(self, factor, offset):
        self.factor, self.offset = factor, offset

    def __call__(self, x):
        plan, y = Plan(x.numel()), torch.empty_like(x)
        scale_kernel[plan.grid](x, y, n=x.numel(), factor=self.factor, offset=self.offset, BLOCK=plan.block, num_warps=2)
        return y


def composed(*steps):
    def run(x):
        for step in steps:
            x = step(x)
        return x

    return run


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.run = composed(Affine(2.0, 0.0), Affine(1.0, 1.0))

    def forward(self, x):
        return self.run(x)
