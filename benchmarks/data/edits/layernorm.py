# ruff: noqa
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layer_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    n_cols,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    x_ptr += row * n_cols
    out_ptr += row * n_cols

    # Mean.
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for offset in range(0, n_cols, BLOCK):
        cols = offset + tl.arange(0, BLOCK)
        a = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        total += a
    mean = tl.sum(total, axis=0) / n_cols

    # Variance.
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for offset in range(0, n_cols, BLOCK):
        cols = offset + tl.arange(0, BLOCK)
        a = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        a = tl.where(cols < n_cols, a - mean, 0.0)
        total += a * a
    var = tl.sum(total, axis=0) / n_cols
    rstd = 1 / tl.sqrt(var + eps)

    # Scale and shift.
    for offset in range(0, n_cols, BLOCK):
        cols = offset + tl.arange(0, BLOCK)
        mask = cols < n_cols
        w = tl.load(weight_ptr + cols, mask=mask)
        b = tl.load(bias_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        x_hat = (x - mean) * rstd
        y = x_hat * w + b
        tl.store(out_ptr + cols, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x):
        x = x.contiguous()
        shape = x.shape
        width = self.ln.weight.numel()
        x = x.view(-1, width)
        out = torch.empty_like(x)
        grid = (x.shape[0],)
        block = min(triton.next_power_of_2(width), 8192)
        layer_norm_kernel[grid](
            x,
            self.ln.weight,
            self.ln.bias,
            out,
            width,
            self.ln.eps,
            BLOCK=block,
            num_warps=8,
        )
        return out.view(shape)
