from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return {"range": (x.amin(1), x.amax(1)), "mean": x.mean(1)}
