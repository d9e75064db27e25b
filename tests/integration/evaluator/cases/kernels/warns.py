import sys
import warnings

from torch import nn

warnings.warn("this is slow", stacklevel=1)


class ModelNew(nn.Module):
    def forward(self, x):
        print("computing", file=sys.stderr, flush=True)
        return x * 2.0 + 1.0
