import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def loss_kernel(logits, labels, losses, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(logits + row * columns + at, mask=at < columns, other=float("-inf"))
    label = tl.load(labels + row)
    top = tl.max(value, 0)
    total = tl.log(tl.sum(tl.exp(value - top), 0)) + top
    tl.store(losses + row, total - tl.load(logits + row * columns + label))


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        losses = torch.empty(logits.shape[0], device=logits.device, dtype=logits.dtype)
        loss_kernel[(logits.shape[0],)](logits, labels, losses, logits.shape[1], BLOCK=triton.next_power_of_2(logits.shape[1]))
        return losses.mean()
