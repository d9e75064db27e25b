"""Memory with guard zones on both sides, so that a kernel that writes beyond its tensor is found out though its values are right."""

from __future__ import annotations

from typing import Any

import torch

ZONE_BYTES = 1 << 17
_PATTERN = 0xA5
# Beyond these, memory is plain: calls that make thousands of tensors stay fast, and what is held to the end of a call stays small.
_MOST_ZONES = 256
_MOST_BYTES = 1 << 31
_MOST_TOGETHER = 1 << 33
_CUDA = torch.device("cuda")


class Guards:
    """Guarded storages of one call.

    A guarded storage is exactly as large as was asked and begins at its tensor, as any other; it cannot grow. It is kept until it has been
    looked at: what a tensor that is gone was written beyond counts too, and another stream may still be at work on it.
    """

    def __init__(self) -> None:
        self._zones: list[_Zone] = []

    def storage(self, size: int) -> torch.UntypedStorage | None:
        """A new storage of `size` bytes with a zone on each side, uninitialised; None where it is not guarded."""
        together = size + sum(zone.size for zone in self._zones)
        if not 0 < size <= _MOST_BYTES or together > _MOST_TOGETHER or len(self._zones) >= _MOST_ZONES:
            return None
        zone = _Zone(size)
        self._zones.append(zone)
        return viewed(zone).untyped_storage()

    def guarded(self, value: Any) -> Any:
        """A fresh tensor's like on guarded memory, uninitialised; the tensor itself where it cannot be."""
        if not isinstance(value, torch.Tensor) or value.device.type != _CUDA.type or value.layout is not torch.strided:
            return value
        storage = self.storage(value.untyped_storage().nbytes()) if type(value) is torch.Tensor and not value.storage_offset() else None
        if storage is None:
            return value
        return torch.empty(0, dtype=value.dtype, device=value.device).set_(storage, 0, value.shape, value.stride())

    def broken(self) -> list[str]:
        """What was written beyond guarded storages since they were made, one sentence each; they are not looked at again."""
        found = [zone.broken() for zone in self._zones]
        self.forget()
        return [text for text in found if text]

    def forget(self) -> None:
        """Keep none of them any longer."""
        self._zones.clear()


class _Zone:
    """One allocation; shows its middle to whoever asks for a CUDA array."""

    def __init__(self, size: int) -> None:
        # The middle begins and ends on what the allocator would have aligned it to.
        self._end = ZONE_BYTES + size
        self.size = size
        self._whole = torch.empty(2 * ZONE_BYTES + size, dtype=torch.uint8, device=_CUDA)
        self._whole[:ZONE_BYTES].fill_(_PATTERN)
        self._whole[self._end :].fill_(_PATTERN)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        address = self._whole.data_ptr() + ZONE_BYTES
        return {"shape": (self.size,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None}

    def broken(self) -> str:
        front, back = self._whole[:ZONE_BYTES] != _PATTERN, self._whole[self._end :] != _PATTERN
        before, beyond = int(front.sum()), int(back.sum())
        if not before + beyond:
            return ""
        distance = int(back.nonzero()[0]) if beyond else ZONE_BYTES - int(front.nonzero()[-1])
        side = "beyond the end" if beyond else "before the start"
        return f"{before + beyond} bytes were written {side} of a tensor of {self.size} bytes, the nearest {distance} bytes from it"


def viewed(zone: _Zone) -> torch.Tensor:
    """The middle of a zone as bytes; the tensor keeps the zone alive."""
    return torch.as_tensor(zone, device=_CUDA)
