import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add(left, right):
    return left + right


@triton.jit
def scan_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carried = tl.zeros((), dtype=tl.float32)
    for start in tl.range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
        tl.store(y + row * columns + at, tl.associative_scan(value, 0, add) + carried, mask=at < columns)
        carried += tl.sum(value, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scan_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=256)
        return y
