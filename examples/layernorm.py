import torch
from torch import nn


class Model(nn.Module):
    """Layer normalisation over the last axis, with scale and shift."""

    def __init__(self, features: int):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


batch_size = 32
sequence = 512
features = 4096


def get_inputs():
    return [torch.randn(batch_size, sequence, features)]


def get_init_inputs():
    return [features]
