from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.mul_(2.0)
        return x + 1.0
