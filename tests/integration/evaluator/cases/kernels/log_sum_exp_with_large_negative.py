import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def log_sum_exp_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=float("-inf"))
    top = tl.max(value, 0)
    value = tl.maximum(value, -1e30)
    safe = tl.maximum(top, -1e30)
    tl.store(y + row, tl.log(tl.sum(tl.exp(value - safe), 0)) + safe)


class ModelNew(nn.Module):
    def forward(self, scores):
        y = torch.empty(scores.shape[0], device=scores.device, dtype=scores.dtype)
        log_sum_exp_kernel[(scores.shape[0],)](scores, y, scores.shape[1], BLOCK=triton.next_power_of_2(scores.shape[1]))
        return y
