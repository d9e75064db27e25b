import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    first = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    source = tl.make_block_ptr(x, (rows, columns), (columns, 1), first, (ROWS, COLUMNS), (1, 0))
    target = tl.make_block_ptr(y, (rows, columns), (columns, 1), first, (ROWS, COLUMNS), (1, 0))
    value = tl.load(source, boundary_check=(0, 1))
    tl.store(target, value * 2.0 + 1.0, boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        grid = triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 64)
        scale_kernel[grid](x, y, *x.shape, ROWS=16, COLUMNS=64)
        return y
