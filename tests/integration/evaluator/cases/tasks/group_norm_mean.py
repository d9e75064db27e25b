import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x).mean(dim=(1, 2, 3))


def get_inputs():
    return [torch.rand(16, 32, 16, 16)]


def get_init_inputs():
    return [32, 8]
