import torch
from torch import nn


class ModelNew(nn.Module):
    """No kernel of its own, which the track allows; einsum, out= and views of views."""

    def forward(self, x):
        factor = torch.tensor(2.0, device=x.device)
        y = torch.empty_like(x)
        torch.mul(x, factor, out=y)
        y.view(-1)[:] += 1.0
        return torch.einsum("ij->ij", y).squeeze().contiguous()
