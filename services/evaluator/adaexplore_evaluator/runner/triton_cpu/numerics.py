"""How narrow floating-point types are held and rounded.

numpy knows neither bfloat16 nor 8-bit floats: their values are held in float32 and rounded to the type after every operation, which is
what a GPU's result type does. `encode` and `decode` translate between that and the bytes in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl

Array = np.ndarray[Any, Any]

_KINDS: dict[str, Any] = {
    "int1": np.bool_,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
    "fp16": np.float16,
    "fp32": np.float32,
    "fp64": np.float64,
    "bf16": np.float32,
    "fp8e5": np.float32,
    "fp8e4nv": np.float32,
    "fp8e4b8": np.float32,
    "fp8e5b16": np.float32,
}
_HELD: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in _KINDS.items()}
_FLOAT8: dict[str, tuple[torch.dtype, float]] = {
    "fp8e5": (torch.float8_e5m2, 57344.0),
    "fp8e4nv": (torch.float8_e4m3fn, 448.0),
    "fp8e4b8": (torch.float8_e4m3fnuz, 240.0),
    "fp8e5b16": (torch.float8_e5m2fnuz, 57344.0),
}
NARROW = frozenset({"bf16", *_FLOAT8})


def held_dtype(dtype: tl.dtype) -> np.dtype[Any]:
    """The numpy dtype that values of a scalar Triton type are held in; pointers are uint64 addresses."""
    if dtype.is_ptr():
        return np.dtype(np.uint64)
    if dtype.name not in _HELD:
        raise NotImplementedError(f"values of type {dtype} are not modelled")
    return _HELD[dtype.name]


def memory_dtype(dtype: tl.dtype) -> np.dtype[Any]:
    """The numpy dtype of the raw bytes of a scalar Triton type in memory."""
    if dtype.is_ptr():
        return np.dtype(np.uint64)
    if dtype.name == "bf16":
        return np.dtype(np.uint16)
    if dtype.name in _FLOAT8:
        return np.dtype(np.uint8)
    return held_dtype(dtype)


def round_bfloat16(values: Array) -> Array:
    """Round float32 values to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32)).reshape(values.shape)


def truncate_bfloat16(values: Array) -> Array:
    """Round float32 values towards zero to bfloat16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), bits.view(np.float32)).reshape(values.shape)


def _to_float8(values: Array, name: str) -> torch.Tensor:
    # The hardware conversions saturate: what overflows, infinities included, becomes the largest finite value.
    dtype, largest = _FLOAT8[name]
    return torch.from_numpy(np.clip(np.ascontiguousarray(values, dtype=np.float32), -largest, largest)).to(dtype)


def round_to(values: Array, dtype: tl.dtype) -> Array:
    """Values as they come out of an operation whose result type is `dtype`, held as `held_dtype(dtype)`."""
    name = dtype.name
    if name == "bf16":
        return round_bfloat16(values)
    if name in _FLOAT8:
        return _to_float8(values, name).to(torch.float32).numpy().reshape(values.shape)
    held = held_dtype(dtype)
    return values if values.dtype == held else values.astype(held)


def encode(values: Array, dtype: tl.dtype) -> Array:
    """Held values as raw memory words."""
    if dtype.name == "bf16":
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        return (bits >> np.uint32(16)).astype(np.uint16).reshape(values.shape)
    if dtype.name in _FLOAT8:
        return _to_float8(values, dtype.name).view(torch.uint8).numpy().reshape(values.shape)
    return values


def decode(raw: Array, dtype: tl.dtype) -> Array:
    """Raw memory words as held values."""
    if dtype.name == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.name in _FLOAT8:
        words = torch.from_numpy(np.ascontiguousarray(raw)).view(_FLOAT8[dtype.name][0])
        return words.to(torch.float32).numpy().reshape(raw.shape)
    return raw


def round_tf32(values: Array) -> Array:
    """Round float32 values to TF32's 10 mantissa bits, nearest, ties to even; infinities and NaN unchanged."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values).reshape(values.shape)


def float_to_int(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert like the hardware: towards zero, saturating, NaN becomes 0."""
    limits = np.iinfo(dtype)
    wide = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    high, low = wide >= float(limits.max), wide <= float(limits.min)
    inside = np.where(high | low, 0.0, wide).astype(dtype)
    return np.where(high, dtype.type(limits.max), np.where(low, dtype.type(limits.min), inside))


def matmul(lhs: Array, rhs: Array, dtype: tl.dtype, precision: str) -> Array:
    """Product of two tiles as the tensor cores form it: operands at the stated precision, float32 (or int32, float64) accumulation.

    `precision` ("tf32", "tf32x3", "bf16x3", "bf16x6", "ieee") matters for float32 operands only. TF32 rounds to nearest.
    """
    if dtype.is_int():
        return np.asarray(np.matmul(lhs.astype(np.int32), rhs.astype(np.int32)))
    if dtype.name == "fp64":
        return np.asarray(np.matmul(lhs, rhs))
    lhs, rhs = lhs.astype(np.float32), rhs.astype(np.float32)
    if dtype.name != "fp32" or precision == "ieee":
        return np.asarray(np.matmul(lhs, rhs))
    narrow = round_bfloat16 if precision.startswith("bf16") else round_tf32
    lhs_big, rhs_big = narrow(lhs), narrow(rhs)
    if precision == "tf32":
        return np.asarray(np.matmul(lhs_big, rhs_big))
    lhs_small, rhs_small = narrow(lhs - lhs_big), narrow(rhs - rhs_big)
    products = np.matmul(lhs_small, rhs_big) + np.matmul(lhs_big, rhs_small) + np.matmul(lhs_big, rhs_big)
    return np.asarray(products)
