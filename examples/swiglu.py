import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    """SwiGLU gate: the first half of the features, through SiLU, scales the second half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, dim=-1)
        return functional.silu(gate) * value


batch_size = 8192
hidden = 8192


def get_inputs():
    return [torch.randn(batch_size, 2 * hidden)]


def get_init_inputs():
    return []
