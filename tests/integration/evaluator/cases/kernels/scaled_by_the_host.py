import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.cpu().numpy() * 2.0 + 1.0).cuda()
