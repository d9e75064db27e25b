import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_kernel(x, y, stride_x, stride_y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride_x + at, mask=at < columns, other=0.0)
    tl.store(y + row * stride_y + at, value * 2.0 + 1.0, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(rows, columns, device=x.device)
        half = columns // 2
        # Right to left: the left half, masked by the width of the base, is overwritten with the same values.
        for first in (half, 0):
            source, target = x[:, first:], y[:, first:]
            row_kernel[(rows,)](source, target, source.stride(0), target.stride(0), columns, BLOCK=512)
        return y
