import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)
        self.transposed = self.first.weight.detach().t().contiguous()
        self.bias = self.first.bias.detach().clone()
        self.last = self.second.weight.detach().clone()
        self.last_bias = self.second.bias.detach().clone()

    def forward(self, x):
        return nn.functional.linear(torch.relu(x @ self.transposed + self.bias), self.last, self.last_bias)
