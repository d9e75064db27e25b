"""Values for a candidate on a GPU whose memory no other process reaches: they travel in files."""

from __future__ import annotations

from pathlib import Path

import torch

from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers
from adaexplore_evaluator.runner.wire import BufferFolder, Tree, Value, map_tensors


class FileBuffers(DeviceBuffers):
    """Buffers in a folder; every tensor that is read gets an allocation of its own on the GPU.

    Args:
        folder: Folder shared with the referee.

    """

    def __init__(self, folder: Path) -> None:
        super().__init__("c")
        self._files = BufferFolder(folder, "c")

    def encode(self, value: Value) -> Tree:
        """Tree of a value, copied to files."""
        return self._files.encode(map_tensors(value, torch.Tensor.cpu))

    def decode(self, tree: object) -> Value:
        """Value of a tree, copied to the GPU; raises as `BufferFolder.decode` does."""
        return map_tensors(self._files.decode(tree), torch.Tensor.cuda)
