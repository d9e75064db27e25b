import triton
import triton.language as tl
from torch import nn


@triton.jit
def transpose_kernel(x, y, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    value = tl.load(x + row[:, None] * columns + column[None, :], mask=inside)
    inside = (column < columns)[:, None] & (row < rows)[None, :]
    tl.store(y + column[:, None] * rows + row[None, :], tl.trans(value * 2.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = x.new_empty(columns, rows)
        transpose_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x, y, rows, columns, BLOCK=32)
        return y
