import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def statistics_kernel(x, total, largest, place, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=0.0)
    tl.store(total + row, tl.sum(value, 0))
    value = tl.where(inside, value, float("-inf"))
    top, where = tl.max(value, 0, return_indices=True)
    tl.store(largest + row, top)
    tl.store(place + row, where.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        total, largest = x.new_empty(2, rows).unbind(0)
        place = torch.empty(rows, dtype=torch.int64, device=x.device)
        statistics_kernel[(rows,)](x, total, largest, place, columns, BLOCK=triton.next_power_of_2(columns))
        return total, largest, place
