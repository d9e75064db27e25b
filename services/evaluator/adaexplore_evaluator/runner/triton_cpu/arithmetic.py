"""Value operations of the corrected interpreter: everything that does not touch memory."""

# ruff: noqa: N815 - the names are those of Triton's builder

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder

from . import libdevice
from .counting import OperationCounter
from .numerics import NARROW, Array, decode, encode, float_to_int, held_dtype, matmul, memory_dtype, round_to, truncate_bfloat16
from .values import Value

_PRECISION_NAMES = {
    getattr(ir.INPUT_PRECISION, member): name
    for member, name in (("TF32", "tf32"), ("TF32x3", "tf32x3"), ("IEEE", "ieee"), ("BF16x3", "bf16x3"), ("BF16x6", "bf16x6"))
    if hasattr(ir.INPUT_PRECISION, member)
}
Method = Callable[..., Value]


def _float_binary(operation: Callable[..., Any], *, special: bool = False) -> Method:
    def method(self: ArithmeticBuilder, lhs: Value, rhs: Value) -> Value:
        data = operation(lhs.data, rhs.data)
        if self.counter is not None:
            self.counter.elementwise(data.size, special=special)
        return Value(round_to(data, lhs.dtype) if lhs.dtype.name in NARROW else data, lhs.dtype)

    return method


def _float_unary(operation: Callable[..., Any], *, special: bool = True) -> Method:
    def method(self: ArithmeticBuilder, arg: Value) -> Value:
        data = operation(arg.data)
        if self.counter is not None:
            self.counter.elementwise(data.size, special=special)
        return Value(round_to(data, arg.dtype), arg.dtype)

    return method


def _int_binary(operation: Callable[..., Any]) -> Method:
    def method(self: ArithmeticBuilder, lhs: Value, rhs: Value) -> Value:
        data = operation(lhs.data, rhs.data)
        return Value(data if data.dtype == lhs.data.dtype else data.astype(lhs.data.dtype), lhs.dtype)

    return method


def _comparison(operation: Callable[..., Any]) -> Method:
    def method(self: ArithmeticBuilder, lhs: Value, rhs: Value) -> Value:
        return Value(operation(lhs.data, rhs.data), tl.int1)

    return method


def _unordered(operation: Callable[..., Any]) -> Callable[..., Any]:
    # An unordered comparison holds where the opposite ordered one does not.
    return lambda lhs, rhs: np.logical_not(operation(lhs, rhs))


def _divide_towards_zero(lhs: Array, rhs: Array) -> Array:
    safe = np.where(rhs == 0, rhs.dtype.type(1), rhs)
    quotient = np.floor_divide(lhs, safe)
    return np.asarray(quotient + ((np.remainder(lhs, safe) != 0) & ((lhs < 0) != (safe < 0))).astype(lhs.dtype))


def _remainder(lhs: Array, rhs: Array) -> Array:
    return np.asarray(np.fmod(lhs, np.where(rhs == 0, rhs.dtype.type(1), rhs)))


def _as_kind(data: Array, kind: str) -> Array:
    return data if data.dtype.kind in ("b", kind) else data.view(np.dtype(f"{kind}{data.dtype.itemsize}"))


def _logical_shift_right(lhs: Array, rhs: Array) -> Array:
    return np.right_shift(_as_kind(lhs, "u"), _as_kind(rhs, "u")).view(lhs.dtype)


def _arithmetic_shift_right(lhs: Array, rhs: Array) -> Array:
    return np.right_shift(_as_kind(lhs, "i"), _as_kind(rhs, "i")).view(lhs.dtype)


def _multiply_high(lhs: Array, rhs: Array) -> Array:
    lhs, rhs = _as_kind(lhs, "u"), _as_kind(rhs, "u")
    if lhs.dtype.itemsize < 8:
        product = lhs.astype(np.uint64) * rhs.astype(np.uint64)
        return (product >> np.uint64(lhs.dtype.itemsize * 8)).astype(lhs.dtype)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    lhs_low, lhs_high, rhs_low, rhs_high = lhs & mask, lhs >> half, rhs & mask, rhs >> half
    middle = lhs_high * rhs_low + ((lhs_low * rhs_low) >> half)
    carry = (middle & mask) + lhs_low * rhs_high
    return np.asarray(lhs_high * rhs_high + (middle >> half) + (carry >> half))


def _expanded(data: Array, shape: tuple[int, ...]) -> Array:
    # A copy: cheaper at these sizes than a read-only view and the checks that follow from it.
    result = np.empty(shape, dtype=data.dtype)
    result[...] = data
    return result


def _erf(data: Array) -> Array:
    return np.asarray(torch.erf(torch.from_numpy(np.ascontiguousarray(data))).numpy())


def _not_equal_ordered(lhs: Array, rhs: Array) -> Array:
    return np.asarray((lhs < rhs) | (lhs > rhs))


class ArithmeticBuilder(InterpreterBuilder):  # type: ignore[misc]
    """Triton's builder interface over numpy, with a GPU's rounding, saturation and NaN rules."""

    def __init__(self) -> None:
        super().__init__()
        self.counter: OperationCounter | None = None
        self.grid_dim: tuple[int, int, int] = (1, 1, 1)
        self.grid_idx: tuple[int, int, int] = (0, 0, 0)

    create_fadd = _float_binary(np.add)
    create_fsub = _float_binary(np.subtract)
    create_fmul = _float_binary(np.multiply)
    create_fdiv = _float_binary(np.divide, special=True)
    create_precise_divf = _float_binary(np.divide, special=True)
    create_frem = _float_binary(np.fmod, special=True)
    create_minimumf = _float_binary(np.minimum)
    create_maximumf = _float_binary(np.maximum)
    create_minnumf = _float_binary(np.fmin)
    create_maxnumf = _float_binary(np.fmax)

    create_add = _int_binary(np.add)
    create_sub = _int_binary(np.subtract)
    create_mul = _int_binary(np.multiply)
    create_sdiv = _int_binary(_divide_towards_zero)
    create_udiv = _int_binary(_divide_towards_zero)
    create_srem = _int_binary(_remainder)
    create_urem = _int_binary(_remainder)
    create_shl = _int_binary(np.left_shift)
    create_lshr = _int_binary(_logical_shift_right)
    create_ashr = _int_binary(_arithmetic_shift_right)
    create_umulhi = _int_binary(_multiply_high)
    create_and = _int_binary(np.bitwise_and)
    create_or = _int_binary(np.bitwise_or)
    create_xor = _int_binary(np.bitwise_xor)
    create_minsi = _int_binary(np.minimum)
    create_minui = _int_binary(np.minimum)
    create_maxsi = _int_binary(np.maximum)
    create_maxui = _int_binary(np.maximum)

    create_icmpSLE = create_icmpULE = create_fcmpOLE = _comparison(np.less_equal)
    create_icmpSLT = create_icmpULT = create_fcmpOLT = _comparison(np.less)
    create_icmpSGE = create_icmpUGE = create_fcmpOGE = _comparison(np.greater_equal)
    create_icmpSGT = create_icmpUGT = create_fcmpOGT = _comparison(np.greater)
    create_icmpEQ = create_fcmpOEQ = _comparison(np.equal)
    create_icmpNE = create_fcmpUNE = _comparison(np.not_equal)
    create_fcmpONE = _comparison(_not_equal_ordered)
    create_fcmpULT = _comparison(_unordered(np.greater_equal))
    create_fcmpUGT = _comparison(_unordered(np.less_equal))
    create_fcmpULE = _comparison(_unordered(np.greater))
    create_fcmpUGE = _comparison(_unordered(np.less))
    create_fcmpUEQ = _comparison(_unordered(_not_equal_ordered))

    create_cos = _float_unary(np.cos)
    create_sin = _float_unary(np.sin)
    create_exp = _float_unary(np.exp)
    create_exp2 = _float_unary(np.exp2)
    create_log = _float_unary(np.log)
    create_log2 = _float_unary(np.log2)
    create_sqrt = _float_unary(np.sqrt)
    create_precise_sqrt = _float_unary(np.sqrt)
    create_rsqrt = _float_unary(lambda data: 1 / np.sqrt(data))
    create_erf = _float_unary(_erf)
    create_floor = _float_unary(np.floor, special=False)
    create_ceil = _float_unary(np.ceil, special=False)
    create_fabs = _float_unary(np.abs, special=False)

    def create_iabs(self, arg: Value) -> Value:
        """Absolute value; the most negative integer stays, as on hardware."""
        return arg.like(np.abs(arg.data))

    def create_fma(self, x: Value, y: Value, z: Value) -> Value:
        """Multiply and add with one rounding."""
        data = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data.astype(np.float64)
        if self.counter is not None:
            self.counter.elementwise(2 * data.size)
        return Value(round_to(data.astype(held_dtype(z.dtype)), z.dtype), z.dtype)

    def create_clampf(self, arg: Value, low: Value, high: Value, propagate_nans: Any) -> Value:
        """min(max(x, low), high); NaN becomes `low` unless it is to propagate."""
        keeps_nan = propagate_nans == ir.PROPAGATE_NAN.ALL
        larger, smaller = (np.maximum, np.minimum) if keeps_nan else (np.fmax, np.fmin)
        if self.counter is not None:
            self.counter.elementwise(2 * arg.data.size)
        return arg.like(smaller(larger(arg.data, low.data), high.data))

    def create_select(self, condition: Value, lhs: Value, rhs: Value) -> Value:
        """`lhs` where the condition holds, else `rhs`."""
        region = lhs.region if getattr(lhs, "region", None) is getattr(rhs, "region", None) else None
        return Value(np.where(condition.data, lhs.data, rhs.data), lhs.dtype, region)

    # Conversions.

    def create_fp_to_fp(self, source: Value, target: tl.dtype, rounding: Any) -> Value:
        """Convert between floating-point types, nearest even unless towards zero is asked for."""
        dtype = target.scalar
        if rounding == ir.ROUNDING_MODE.RTZ and dtype.name == "bf16":
            return Value(truncate_bfloat16(source.data), dtype)
        if rounding == ir.ROUNDING_MODE.RTZ:
            raise NotImplementedError(f"rounding towards zero to {dtype} is not modelled")
        if dtype.name in NARROW:
            return Value(round_to(source.data.astype(np.float32), dtype), dtype)
        return Value(source.data.astype(held_dtype(dtype)), dtype)

    def create_fp_ext(self, source: Value, target: tl.dtype) -> Value:
        """Widen; exact."""
        return self.create_fp_to_fp(source, target, None)

    def create_fp_trunc(self, source: Value, target: tl.dtype) -> Value:
        """Narrow, nearest even."""
        return self.create_fp_to_fp(source, target, None)

    def create_si_to_fp(self, source: Value, target: tl.dtype) -> Value:
        """Integer to float, nearest even."""
        dtype = target.scalar
        wide = source.data.astype(np.float32 if dtype.name in NARROW else held_dtype(dtype))
        return Value(round_to(wide, dtype), dtype)

    create_ui_to_fp = create_si_to_fp

    def create_fp_to_si(self, source: Value, target: tl.dtype) -> Value:
        """Float to integer, towards zero, saturating."""
        return Value(float_to_int(source.data, held_dtype(target.scalar)), target.scalar)

    create_fp_to_ui = create_fp_to_si

    def create_int_cast(self, source: Value, target: tl.dtype, is_signed: bool) -> Value:
        """Integer to integer: wraps, extends by the source's signedness."""
        return Value(source.data.astype(held_dtype(target.scalar)), target.scalar)

    def create_bitcast(self, source: Value, target: tl.dtype) -> Value:
        """The same bits under another type."""
        dtype = target.scalar
        raw = np.ascontiguousarray(encode(source.data, source.dtype))
        return Value(decode(raw.view(memory_dtype(dtype)), dtype), dtype, source.region if dtype.is_ptr() else None)

    create_int_to_ptr = create_bitcast
    create_ptr_to_int = create_bitcast

    # Shapes.

    def create_reshape(self, arg: Value, shape: Sequence[int], allow_reorder: bool) -> Value:
        """Reshape in row-major order."""
        return arg.like(arg.data.reshape(shape))

    def create_trans(self, arg: Value, perm: Sequence[int]) -> Value:
        """Permute dimensions."""
        return arg.like(np.transpose(arg.data, perm))

    def create_expand_dims(self, arg: Value, axis: int) -> Value:
        """Insert a dimension of one."""
        return arg.like(np.expand_dims(arg.data, axis))

    def create_broadcast(self, arg: Value, shape: Sequence[int]) -> Value:
        """Repeat dimensions of one."""
        return arg.like(_expanded(arg.data, tuple(shape)))

    def create_splat(self, result_type: tl.dtype, arg: Value) -> Value:
        """A scalar as a block."""
        data = np.empty(tuple(result_type.shape), dtype=arg.data.dtype)
        data.fill(arg.data.reshape(-1)[0])
        return Value(data, arg.dtype, getattr(arg, "region", None))

    def create_unsplat(self, arg: Value) -> Value:
        """A block of one element as a scalar."""
        return arg.like(arg.data.reshape(-1)[:1])

    def create_cat(self, lhs: Value, rhs: Value) -> Value:
        """Concatenate."""
        return lhs.like(np.concatenate([lhs.data, rhs.data]))

    def create_join(self, lhs: Value, rhs: Value) -> Value:
        """Stack along a new last dimension."""
        return lhs.like(np.stack([lhs.data, rhs.data], axis=-1))

    def create_split(self, value: Value) -> tuple[Value, Value]:
        """Undo `create_join`."""
        first, second = value.data[..., 0], value.data[..., 1]
        return value.like(first if first.ndim else first.reshape(1)), value.like(second if second.ndim else second.reshape(1))

    def create_make_range(self, result_type: tl.dtype, start: int, stop: int) -> Value:
        """start, start + 1, … stop − 1 as int32."""
        return Value(np.arange(start, stop, dtype=np.int32), tl.int32)

    def create_gather(self, source: Value, indices: Value, axis: int) -> Value:
        """Elements of `source` along `axis`."""
        return source.like(np.take_along_axis(source.data, indices.data, axis=axis))

    def create_histogram(self, data: Value, bins: int, mask: Value | None) -> Value:
        """Counts per bin as int32; what falls outside is not counted."""
        picked = data.data if mask is None else data.data[mask.data]
        inside = picked[(picked >= 0) & (picked < bins)]
        return Value(np.bincount(inside.reshape(-1), minlength=bins).astype(np.int32), tl.int32)

    def get_all_ones_value(self, dtype: tl.dtype) -> Value:
        """All bits set."""
        held = held_dtype(dtype.scalar)
        return Value(np.array([True]) if held == np.bool_ else np.array([-1], dtype=np.int64).astype(held), dtype.scalar)

    def get_null_value(self, dtype: tl.dtype) -> Value:
        """Zero of a type."""
        return Value(np.zeros(1, dtype=held_dtype(dtype.scalar)), dtype.scalar)

    # Tensor cores and external functions.

    def create_dot(self, lhs: Value, rhs: Value, acc: Value, input_precision: Any, max_num_imprecise_acc: int) -> Value:
        """Matrix product plus accumulator; operands at the requested input precision."""
        precision = _PRECISION_NAMES.get(input_precision, "ieee")
        product = matmul(lhs.data, rhs.data, lhs.dtype, precision)
        if self.counter is not None:
            self.counter.dot(2 * product.size * lhs.data.shape[-1], lhs.dtype.name, precision)
        total = product.astype(np.float32 if acc.data.dtype == np.float16 else acc.data.dtype) + acc.data
        return Value(round_to(total, acc.dtype), acc.dtype)

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, arguments: Sequence[Value], result_type: tl.dtype, is_pure: bool
    ) -> Value:
        """A libdevice (or OCML) function by its symbol."""
        data = libdevice.call(symbol, [argument.data for argument in arguments])
        if self.counter is not None:
            self.counter.elementwise(data.size, special=True)
        return Value(round_to(data, result_type.scalar), result_type.scalar)

    def create_inline_asm(self, *args: Any) -> Value:
        """Inline assembly has no meaning here."""
        raise NotImplementedError("inline assembly is not modelled")

    def create_print(self, *args: Any) -> None:
        """Device prints are dropped."""

    def create_assert(self, condition: Value, message: str) -> None:
        """Device assertions are off outside of debug builds, as on a GPU."""

    def create_assume(self, condition: Value) -> None:
        """A hint to the compiler."""

    # The programming model.

    def create_get_program_id(self, axis: int) -> Value:
        """Index of the running program along a grid axis."""
        return Value(np.array([self.grid_idx[axis]], dtype=np.int32), tl.int32)

    def create_get_num_programs(self, axis: int) -> Value:
        """Size of the grid along an axis."""
        return Value(np.array([self.grid_dim[axis]], dtype=np.int32), tl.int32)

    def create_addptr(self, pointer: Value, offset: Value) -> Value:
        """Address arithmetic in elements; wraps like hardware."""
        item_bytes = max(1, pointer.get_element_ty().primitive_bitwidth // 8)
        moved = offset.data.astype(np.int64).view(np.uint64) * np.uint64(item_bytes)
        return pointer.like(pointer.data + moved)
