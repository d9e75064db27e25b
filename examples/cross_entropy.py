import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    """Mean cross-entropy of integer labels under the softmax of their logits."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits, labels)


batch_size = 4096
classes = 32000


def get_inputs():
    return [torch.randn(batch_size, classes), torch.randint(0, classes, (batch_size,))]


def get_init_inputs():
    return []
