import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    """Two halves on two streams, joined by a wait and by an event."""

    def __init__(self):
        super().__init__()
        self.sides = torch.cuda.Stream(), torch.cuda.Stream()

    def forward(self, x):
        y = torch.empty_like(x)
        main, half = torch.cuda.current_stream(), x.shape[0] // 2
        for side, source, target in zip(self.sides, (x[:half], x[half:]), (y[:half], y[half:]), strict=True):
            side.wait_stream(main)
            with torch.cuda.stream(side):
                scale_kernel[(triton.cdiv(source.numel(), 1024),)](source, target, source.numel(), BLOCK=1024)
        main.wait_stream(self.sides[0])
        event = torch.cuda.Event()
        event.record(self.sides[1])
        main.wait_event(event)
        return y
