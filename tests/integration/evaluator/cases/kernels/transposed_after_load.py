import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def after_load(self):
        self.transposed = self.first.weight.t().contiguous()

    def forward(self, x):
        return self.second(torch.relu(x @ self.transposed + self.first.bias))
