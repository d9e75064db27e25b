from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return {"average": x.mean(1), "range": [x.amin(1), x.amax(1)]}
