import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps, num_stages=2) for block in (256, 512, 1024) for warps in (2, 4)],
    key=["n"],
    warmup=1,
    rep=1,
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + at, tl.load(x + at) * 2.0 + 1.0)
    else:
        tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
        return y
