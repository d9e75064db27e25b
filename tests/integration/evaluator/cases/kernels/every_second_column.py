import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def columns_kernel(x, y, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at * 2, mask=at < columns)
    tl.store(y + row * columns + at, value * 2.0 + 1.0, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        view = x[:, ::2]
        y = torch.empty(view.shape, device=x.device)
        columns_kernel[(x.shape[0],)](view, y, view.stride(0), view.shape[1], BLOCK=triton.next_power_of_2(view.shape[1]))
        return y
