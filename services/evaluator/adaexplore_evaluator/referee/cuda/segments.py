"""Device memory of a runner, opened in the referee; nothing about it is believed that the driver does not confirm."""

from __future__ import annotations

import bisect
import math
from contextlib import suppress
from typing import Any

import torch

from adaexplore_evaluator.runner.cuda.driver import HANDLE_BYTES, CudaDriverError, allocation_of, closed, opened
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import TensorSpec, WireError

_MOST_OPEN = 8192
_ALIGNMENT = 16


class Segments:
    """Buffers of one runner by name, as its answers place them."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, int, int]] = {}
        self._open: dict[str, tuple[int, int]] = {}
        self._bases: list[tuple[int, int]] = []

    def learn(self, reply: JsonObject) -> None:
        """Take the places that an answer tells; WireError if they have another form."""
        found = reply.get("segments", {})
        if not isinstance(found, dict):
            raise WireError("segments is no object")
        for name, place in found.items():
            checked = _checked(place)
            if self._places.setdefault(str(name), checked) != checked:
                raise WireError(f"buffer {str(name)[:64]} has moved")

    def forget(self) -> None:
        """Drop all names and end every mapping; tensors made of them must be gone."""
        self._places.clear()
        bases = [base for base, _size in self._open.values()]
        self._open.clear()
        self._bases.clear()
        for base in bases:
            with suppress(CudaDriverError):  # a process that has faulted takes its mappings with it
                closed(base)

    def view(self, spec: TensorSpec) -> torch.Tensor:
        """The runner's very memory as a tensor; WireError for a place that is not inside of an allocation of the runner."""
        raw = self.raw(spec.buffer or "", spec.storage_bytes)
        if raw.numel() == 0:
            return torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype, device="cuda")
        tensor = torch.empty(0, dtype=spec.dtype, device="cuda")
        return tensor.set_(raw.untyped_storage(), spec.offset, spec.shape, spec.strides)

    def copy(self, spec: TensorSpec) -> torch.Tensor:
        """A copy of the storage, viewed as the spec says."""
        raw = self.raw(spec.buffer or "", spec.storage_bytes).clone()
        if raw.numel() == 0:
            return torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype, device="cuda")
        tensor = raw.view(spec.dtype).as_strided(spec.shape, spec.strides, spec.offset)
        return torch.nn.Parameter(tensor, requires_grad=False) if spec.parameter else tensor

    def raw(self, name: str, size: int) -> torch.Tensor:
        """The first `size` bytes of a buffer, as bytes; never copied."""
        if name not in self._places:
            raise WireError(f"buffer {name[:64]} has no place")
        handle, offset, announced = self._places[name]
        if announced < size:
            raise WireError(f"buffer {name[:64]} has {announced} bytes, {size} are needed")
        if size == 0:
            return torch.empty(0, dtype=torch.uint8, device="cuda")
        base, extent = self._base(handle)
        if offset + size > extent:
            raise WireError(f"buffer {name[:64]} leads out of its allocation")
        return _bytes_at(base + offset, size)

    def base_of(self, address: int) -> int:
        """Base of the opened allocation that holds an address of this process; the address itself if none does."""
        if len(self._bases) != len(self._open):
            self._bases = sorted(self._open.values())
        at = bisect.bisect_right(self._bases, (address, math.inf)) - 1
        base, size = self._bases[at] if at >= 0 else (address, 0)
        return base if address < base + size else address

    def _base(self, handle: str) -> tuple[int, int]:
        if handle not in self._open:
            if len(self._open) >= _MOST_OPEN:
                raise WireError("too many allocations are shared")
            try:
                base = opened(handle)
                self._open[handle] = allocation_of(base)
            except (CudaDriverError, ValueError) as error:
                raise WireError(f"shared memory cannot be opened: {error}") from error
        return self._open[handle]


class _View:
    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def _bytes_at(address: int, size: int) -> torch.Tensor:
    return torch.as_tensor(_View(address, size), device="cuda")


def _checked(place: object) -> tuple[str, int, int]:
    if not isinstance(place, list) or len(place) != 3:
        raise WireError("a place is a handle, an offset and a size")
    handle, offset, size = place
    if not isinstance(handle, str) or (size and len(handle) != 2 * HANDLE_BYTES):
        raise WireError("a handle has another form")
    if type(offset) is not int or type(size) is not int or offset < 0 or size < 0 or offset % _ALIGNMENT:
        raise WireError("offset and size are counts of bytes, and storages are aligned")
    return handle, offset, size
