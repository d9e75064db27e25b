import torch
from torch import nn


class ModelNew(nn.Module):
    """The right numbers as a view on a wider tensor of its own."""

    def forward(self, x):
        wide = torch.empty(x.shape[0], x.shape[1] + 7, device=x.device)
        y = wide[:, 3 : 3 + x.shape[1]]
        torch.add(x * 2.0, 1.0, out=y)
        return y
