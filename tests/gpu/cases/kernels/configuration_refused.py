import torch
import triton
import triton.language as tl
from torch import nn

REFUSED = triton.Config({"BLOCK": 512, "INSTRUCTION": "no.such.instruction $0, $1;"})
TAKEN = triton.Config({"BLOCK": 512, "INSTRUCTION": "mov.b32 $0, $1;"})


@triton.autotune(configs=[REFUSED, TAKEN], key=["n"])
@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr, INSTRUCTION: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    value = tl.inline_asm_elementwise(INSTRUCTION, "=r,r", [value], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y + at, value * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 512),)](x, y, x.numel())
        return y
