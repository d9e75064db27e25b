from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class ModelNew(nn.Module):
    """Two halves in two threads of a pool that lives on, both waited for."""

    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(2)

    def forward(self, x):
        y, half = torch.empty_like(x), x.shape[0] // 2

        def work(rows):
            torch.add(x[rows] * 2.0, 1.0, out=y[rows])

        list(self.pool.map(work, (slice(0, half), slice(half, None))))
        return y
