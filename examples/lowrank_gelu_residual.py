import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    """Low-rank up-projection with bias and tanh-approximated GELU, added to a residual stream."""

    def __init__(self, rank: int, width: int):
        super().__init__()
        self.up = nn.Linear(rank, width)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual + functional.gelu(self.up(x), approximate="tanh")


tokens = 16384
rank = 16
width = 4096


def get_inputs():
    return [torch.randn(tokens, rank), torch.randn(tokens, width)]


def get_init_inputs():
    return [rank, width]
