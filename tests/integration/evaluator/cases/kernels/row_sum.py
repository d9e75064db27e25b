import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y + row, tl.sum(value, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], 1, device=x.device, dtype=torch.float32)
        sum_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
