"""The functions of CUDA's libdevice and AMD's OCML, by symbol, over numpy arrays.

float32 functions are evaluated in float64 and rounded once: within the half ulp of what the vendor's library promises at best. Fast
approximations (`fast_expf`, …) give the accurate value. Variants that round upwards, downwards or to zero are not modelled, except for
conversions to integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch

from .numerics import Array, float_to_int

Function = Callable[..., Any]


def _torch(function: Callable[..., torch.Tensor]) -> Function:
    return lambda *arrays: np.asarray(function(*[torch.from_numpy(np.array(array)) for array in arrays]).numpy())


def _power(base: Array, exponent: Array) -> Array:
    return np.asarray(np.power(base, exponent.astype(np.float64)))


def _norm(*parts: Array) -> Array:
    return np.asarray(np.sqrt(reduce(np.add, [part * part for part in parts])))


def _round_half_away(data: Array) -> Array:
    return np.copysign(np.floor(np.abs(data) + 0.5), data)


def _log_exponent(data: Array) -> Array:
    return np.where(np.isfinite(data) & (data != 0), np.frexp(data)[1] - 1, np.where(data == 0, -np.inf, np.abs(data)))


def _remainder(lhs: Array, rhs: Array) -> Array:
    return np.asarray(lhs - np.rint(lhs / rhs) * rhs)


def _gamma(data: Array) -> Array:
    magnitude = np.exp(_torch(torch.lgamma)(data))
    odd = (data < 0) & (np.mod(np.floor(data), 2) == 1)
    return np.where((data < 0) & (data == np.floor(data)), np.nan, np.where(odd, -magnitude, magnitude))


# Evaluated in float64 whatever the argument's type is.
_REAL: dict[str, Function] = {
    "abs": np.abs,
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": _round_half_away,
    "sqrt": np.sqrt,
    "rsqrt": lambda data: 1 / np.sqrt(data),
    "cbrt": np.cbrt,
    "rcbrt": lambda data: 1 / np.cbrt(data),
    "rcp": lambda data: 1 / data,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda data: np.power(10.0, data),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "logb": _log_exponent,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinpi": lambda data: np.sin(np.pi * np.fmod(data, 2.0)),
    "cospi": lambda data: np.cos(np.pi * np.fmod(data, 2.0)),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *parts: 1 / _norm(*parts),
    "rnorm4d": lambda *parts: 1 / _norm(*parts),
    "erf": _torch(torch.erf),
    "erfc": _torch(torch.erfc),
    "erfcx": _torch(torch.special.erfcx),
    "erfinv": _torch(torch.erfinv),
    "erfcinv": lambda data: _torch(torch.erfinv)(1 - data),
    "normcdf": _torch(torch.special.ndtr),
    "normcdfinv": _torch(torch.special.ndtri),
    "lgamma": _torch(torch.lgamma),
    "tgamma": _gamma,
    "j0": _torch(torch.special.bessel_j0),
    "j1": _torch(torch.special.bessel_j1),
    "y0": _torch(torch.special.bessel_y0),
    "y1": _torch(torch.special.bessel_y1),
    "cyl_bessel_i0": _torch(torch.special.i0),
    "cyl_bessel_i1": _torch(torch.special.i1),
    "i0": _torch(torch.special.i0),
    "i1": _torch(torch.special.i1),
    "pow": np.power,
    "powi": _power,
    "pown": _power,
    "fmod": np.fmod,
    "remainder": _remainder,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.maximum(x - y, 0)),
    "copysign": np.copysign,
    "fma": lambda x, y, z: x * y + z,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "divide": np.divide,
    "saturate": lambda data: np.fmin(np.fmax(data, 0.0), 1.0),
    "ldexp": lambda data, exponent: np.ldexp(data, exponent.astype(np.int32)),
    "scalbn": lambda data, exponent: np.ldexp(data, exponent.astype(np.int32)),
}
# Answered in int32.
_PREDICATES: dict[str, Function] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "finite": np.isfinite,
    "signbit": np.signbit,
    "ilogb": lambda data: np.frexp(data)[1] - 1,
}


def _bits(data: Array) -> Array:
    return np.asarray(data.view(np.dtype(f"u{data.dtype.itemsize}")))


def _popcount(data: Array) -> Array:
    return np.bitwise_count(_bits(data)).astype(np.int32)


def _leading_zeros(data: Array) -> Array:
    bits, width = _bits(data), data.dtype.itemsize * 8
    for shift in (1, 2, 4, 8, 16, 32)[: width.bit_length() - 1]:
        bits = bits | (bits >> bits.dtype.type(shift))
    return np.asarray((width - np.bitwise_count(bits).astype(np.int32)).astype(np.int32))


def _find_first_set(data: Array) -> Array:
    bits = _bits(data)
    lowest = bits & (~bits + bits.dtype.type(1))
    return np.where(bits == 0, 0, np.bitwise_count(lowest - bits.dtype.type(1)) + 1).astype(np.int32)


def _reverse_bits(data: Array) -> Array:
    flat = np.ascontiguousarray(_bits(data)).reshape(-1, 1).view(np.uint8)
    mirrored = np.packbits(np.unpackbits(flat, axis=1)[:, ::-1], axis=1, bitorder="big")
    return np.ascontiguousarray(mirrored).view(data.dtype).reshape(data.shape)


def _multiply_high(lhs: Array, rhs: Array) -> Array:
    return np.asarray(((lhs.astype(object) * rhs.astype(object)) >> (lhs.dtype.itemsize * 8)).astype(lhs.dtype))


def _average(lhs: Array, rhs: Array) -> Array:
    return ((lhs.astype(np.int64) + rhs.astype(np.int64)) >> 1).astype(lhs.dtype)


def _rounded_average(lhs: Array, rhs: Array) -> Array:
    return ((lhs.astype(np.int64) + rhs.astype(np.int64) + 1) >> 1).astype(lhs.dtype)


def _sum_of_differences(x: Array, y: Array, z: Array) -> Array:
    return (np.abs(x.astype(np.int64) - y.astype(np.int64)) + z).astype(z.dtype)


_EXACT: dict[str, Function] = {
    "popc": _popcount,
    "popcll": _popcount,
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "ffs": _find_first_set,
    "ffsll": _find_first_set,
    "brev": _reverse_bits,
    "brevll": _reverse_bits,
    "abs": np.abs,
    "llabs": np.abs,
    "mulhi": _multiply_high,
    "umulhi": _multiply_high,
    "mul64hi": _multiply_high,
    "umul64hi": _multiply_high,
    "hadd": _average,
    "uhadd": _average,
    "rhadd": _rounded_average,
    "urhadd": _rounded_average,
    "sad": _sum_of_differences,
    "usad": _sum_of_differences,
    "nextafter": np.nextafter,
    "nextafterf": np.nextafter,
    "int_as_float": lambda data: data.view(np.float32),
    "uint_as_float": lambda data: data.view(np.float32),
    "float_as_int": lambda data: data.view(np.int32),
    "float_as_uint": lambda data: data.view(np.uint32),
    "longlong_as_double": lambda data: data.view(np.float64),
    "double_as_longlong": lambda data: data.view(np.int64),
}
_INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_REALS = {"float": np.float32, "double": np.float64}
_ROUNDING: dict[str, Function] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_CONVERSION = re.compile(r"(int|uint|ll|ull|float|double)2(int|uint|ll|ull|float|double)_(r[nzdu])")


def _convert(source: str, target: str, rounding: str) -> Function:
    if target in _INTEGERS:
        return lambda data: float_to_int(_ROUNDING[rounding](data), np.dtype(_INTEGERS[target]))
    if rounding != "rn":
        raise NotImplementedError(f"{source}2{target}_{rounding} is not modelled")
    return lambda data: data.astype(_REALS[target])


def _normalise(name: str) -> list[str]:
    """Names under which a function may be listed, most specific first."""
    name = re.sub(r"^native_|^fast_|_f32$|_f64$", "", name)
    if re.search(r"_r[zdu]$", name):
        return []
    name = re.sub(r"_rn$", "", name)
    shorter = [name.removesuffix(suffix) for suffix in ("f", "d") if name.endswith(suffix)]
    # fadd_rn, dmul_rn, frsqrt_rn: the leading letter is the type.
    bare = [stem[1:] for stem in (name, *shorter) if stem[:1] in ("f", "d")]
    return [name, *shorter, *bare]


def _resolve(symbol: str) -> tuple[str, Function]:
    name = re.sub(r"^__(nv|ocml)_", "", symbol)
    if match := _CONVERSION.fullmatch(name):
        return "exact", _convert(*match.groups())
    if name in ("llrint", "llrintf", "llround", "llroundf"):
        nearest = np.rint if "rint" in name else _round_half_away
        return "exact", lambda data: float_to_int(nearest(data), np.dtype(np.int64))
    for candidate in _normalise(name):
        for kind, table in (("predicate", _PREDICATES), ("real", _REAL)):
            if candidate in table:
                return kind, table[candidate]
    if name in _EXACT:
        return "exact", _EXACT[name]
    raise NotImplementedError(f"{symbol} is not modelled")


def call(symbol: str, arguments: Sequence[Array]) -> Array:
    """The value of `symbol`, for example "__nv_tanhf", elementwise; NotImplementedError where it is not modelled."""
    if all(argument.dtype.kind in "iub" for argument in arguments):
        name = re.sub(r"^__(nv|ocml)_", "", symbol)
        if name in _EXACT:
            return np.asarray(_EXACT[name](*arguments))
    kind, function = _resolve(symbol)
    if kind == "exact":
        return np.asarray(function(*arguments))
    wide = [argument.astype(np.float64) for argument in arguments]
    if kind == "predicate":
        return np.asarray(function(*arguments)).astype(np.int32)
    narrow = any(argument.dtype == np.float32 for argument in arguments)
    return np.asarray(function(*wide)).astype(np.float32 if narrow else np.float64)
