import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.rand(512, 4096), torch.rand(4096, 512)]


def get_init_inputs():
    return []
