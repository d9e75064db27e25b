"""What a Triton tensor holds while it is interpreted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import triton.language as tl

from .numerics import Array

if TYPE_CHECKING:
    from .memory import Region


class Value:
    """A block (or a scalar, as one element) of values; the counterpart of an MLIR value.

    `data` is never written in place. `dtype` is the scalar type; `region` is the tensor argument that a pointer derives from.
    """

    __slots__ = ("attr", "data", "dtype", "region")

    def __init__(self, data: Array, dtype: tl.dtype, region: Region | None = None) -> None:
        self.data = data
        self.dtype = dtype
        self.region = region
        self.attr: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self.data.all())

    def get_element_ty(self) -> tl.dtype:
        """The type that a pointer points to."""
        dtype = self.dtype
        while hasattr(dtype, "element_ty"):
            dtype = dtype.element_ty
        return dtype

    def clone(self) -> Value:
        """A copy with data of its own."""
        return Value(self.data.copy(), self.dtype, self.region)

    def set_attr(self, key: str, value: Any) -> None:
        """Compiler hints (divisibility, contiguity) do not change values."""
        self.attr[key] = value

    def like(self, data: Array) -> Value:
        """The same type and origin with other data."""
        return Value(data, self.dtype, self.region)


def scalar_tensor(value: Any, dtype: tl.dtype, numpy_dtype: Any, region: Region | None = None) -> tl.tensor:
    """A scalar Triton tensor."""
    return tl.tensor(Value(np.array([value], dtype=numpy_dtype), dtype, region), dtype)
