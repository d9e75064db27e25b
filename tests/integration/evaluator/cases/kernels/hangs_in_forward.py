from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            x = x + 0.0
