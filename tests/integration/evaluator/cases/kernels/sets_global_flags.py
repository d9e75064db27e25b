import os
import random
import sys
import warnings

import numpy as np
import torch
import triton
import triton.language as tl
from torch import nn


def set_flags():
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("medium")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    sys.setrecursionlimit(500)
    warnings.simplefilter("error")


set_flags()


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, value * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        set_flags()
        y = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
