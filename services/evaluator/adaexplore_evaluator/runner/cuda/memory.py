"""Tensors on the GPU that the referee can reach: storages under names, each a place in an exported allocation."""

from __future__ import annotations

import bisect
import itertools

import torch

from adaexplore_evaluator.runner.cuda.driver import allocation_of, exported
from adaexplore_evaluator.runner.cuda.guards import Guards
from adaexplore_evaluator.runner.wire import TensorSpec, Tree, Value, WireError, decode_with, encode_with, map_tensors

Segment = list[object]
_CUDA = torch.device("cuda")


class Allocations:
    """Exported allocations of this process by address; each is asked for once between two calls of `forget`.

    An allocation that torch gives back to the driver and that another one replaces has another base or size, and is asked for again.
    """

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._known: dict[int, tuple[int, str]] = {}

    def place(self, pointer: int) -> tuple[str, int]:
        """Handle of the allocation that holds an address, and the offset of the address in bytes."""
        at = bisect.bisect_right(self._bases, pointer) - 1
        base = self._bases[at] if at >= 0 else -1
        if base < 0 or pointer >= base + self._known[base][0]:
            base, size = allocation_of(pointer)
            if base not in self._known:
                bisect.insort(self._bases, base)
            self._known[base] = (size, exported(base))
        return self._known[base][1], pointer - base

    def forget(self) -> None:
        """Ask anew for every allocation."""
        self._bases.clear()
        self._known.clear()


class DeviceBuffers:
    """The runner's side of the buffers: what it allocates for the referee to fill, and what it answers with.

    A name stands for a storage until `forget`; the storage lives as long.

    Attributes:
        guards: Zones around what was allocated guarded, and around what else asks for them.

    """

    def __init__(self, prefix: str) -> None:
        self.guards = Guards()
        self._prefix = prefix
        self._numbers = itertools.count()
        self._storages: dict[str, torch.UntypedStorage] = {}
        self._allocations = Allocations()

    def allocate(self, tree: object, guarded: bool = False) -> Tree:
        """The tree again, its types backed by fresh memory of their own that holds zeros, with guard zones if asked."""
        with torch._C.DisableTorchFunction():
            return self.encode(decode_with(tree, self._guarded if guarded else _fresh))

    def encode(self, value: Value) -> Tree:
        """The tree of a value; storages get names, and tensors on the cpu are sent to the GPU first."""
        named: dict[int, str] = {}

        def place(tensor: torch.Tensor) -> str:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in named:
                named[key] = self.name(storage)
            return named[key]

        return encode_with(map_tensors(value, _on_gpu), place)

    def name(self, storage: torch.UntypedStorage) -> str:
        """A new name for a storage, which is kept from now on."""
        name = f"{self._prefix}{next(self._numbers)}"
        self._storages[name] = storage
        return name

    def decode(self, tree: object) -> Value:
        """The value of a tree whose names this side gave; always the very memory. WireError for a name that is not known."""
        # A mode that widens dtypes or places factories elsewhere must not decide how memory is read.
        with torch._C.DisableTorchFunction():
            return decode_with(tree, self._view)

    def names(self) -> frozenset[str]:
        """Names that stand for storages now."""
        return frozenset(self._storages)

    def segments(self, since: frozenset[str] = frozenset()) -> dict[str, Segment]:
        """Where storages lie that got their names after `since`: handle, offset and size in bytes; no handle for a storage of no bytes."""
        torch.cuda.current_stream().synchronize()  # the other side reads at once
        self._allocations.forget()
        return {name: self._segment(storage) for name, storage in self._storages.items() if name not in since}

    def forget(self) -> None:
        """Drop all names."""
        self._storages.clear()
        self.guards.forget()

    def drop(self, names: frozenset[str]) -> None:
        """Drop some names."""
        for name in names:
            self._storages.pop(name, None)

    def _guarded(self, spec: TensorSpec) -> torch.Tensor:
        storage = self.guards.storage(_elements(spec) * spec.dtype.itemsize)
        if storage is None:
            return _fresh(spec)
        tensor = torch.empty(0, dtype=spec.dtype, device=_CUDA).set_(storage, spec.offset, spec.shape, spec.strides)
        torch.empty(0, dtype=torch.uint8, device=_CUDA).set_(storage).zero_()
        return tensor

    def _segment(self, storage: torch.UntypedStorage) -> Segment:
        if storage.nbytes() == 0:
            return ["", 0, 0]
        handle, offset = self._allocations.place(storage.data_ptr())
        return [handle, offset, storage.nbytes()]

    def _view(self, spec: TensorSpec) -> torch.Tensor:
        storage = self._storages.get(spec.buffer or "")
        if storage is None:
            raise WireError(f"buffer {spec.buffer} is not known here")
        if storage.nbytes() < spec.storage_bytes:
            raise WireError(f"buffer {spec.buffer} has {storage.nbytes()} bytes, {spec.storage_bytes} were announced")
        tensor = torch.empty(0, dtype=spec.dtype, device=_CUDA).set_(storage, spec.offset, spec.shape, spec.strides)
        return torch.nn.Parameter(tensor, requires_grad=False) if spec.parameter else tensor


def _elements(spec: TensorSpec) -> int:
    reach = sum((size - 1) * stride for size, stride in zip(spec.shape, spec.strides, strict=True))
    return max(spec.storage_elements, 0 if 0 in spec.shape else spec.offset + 1 + reach)


def _fresh(spec: TensorSpec) -> torch.Tensor:
    storage = torch.zeros(_elements(spec), dtype=spec.dtype, device=_CUDA).untyped_storage()
    return torch.empty(0, dtype=spec.dtype, device=_CUDA).set_(storage, spec.offset, spec.shape, spec.strides)


def _on_gpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_cuda else tensor.cuda()
