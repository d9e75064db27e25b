import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.rand(128, 256), torch.rand(256, 128)]


def get_init_inputs():
    return []
