"""Makes Triton's front end cheap enough to run once per program instead of once per compilation.

Nothing here changes what an operation means: shapes and types that were built before are reused.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language import core
from triton.language.semantic import TritonSemantic

from .patching import PatchSet

# Types that an operation between two operands of one of them keeps, division included.
_KEPT = frozenset({"fp32", "fp64", "int1", "int32", "int64"})
_FLOATS = frozenset({"fp32", "fp64"})
_INT32 = range(-(2**31), 2**31)


class InterpreterSemantic(TritonSemantic):  # type: ignore[misc]
    """Triton's semantic without what only debug builds execute, and with a short way for equal types and shapes.

    Args:
        builder: The interpreting builder.

    """

    def __init__(self, builder: Any) -> None:
        super().__init__(builder)
        self._constants: dict[tuple[Any, str], tl.tensor] = {}
        self._spread: dict[tuple[tuple[int, ...], str], tl.block_type] = {}

    def binary_op_sanitize_overflow_impl(self, lhs: Any, rhs: Any, binary_op: Any) -> None:
        """Overflow checks are device assertions, off outside of debug builds."""

    def scalar_constant(self, value: Any, dtype: tl.dtype) -> tl.tensor:
        """A number as a scalar, made once: what a tensor holds is never written in place."""
        key = value, dtype.name
        known = self._constants.get(key)
        if known is None:
            known = super().scalar_constant(value, dtype)
            if value == value:  # noqa: PLR0124 - NaN equals no key
                self._constants[key] = known
        return known

    def binary_op_type_checking_impl(self, lhs: Any, rhs: Any, *args: Any, **kwargs: Any) -> tuple[tl.tensor, tl.tensor]:
        """Bring two operands to one type and one shape."""
        left = lhs.dtype.name if isinstance(lhs, tl.tensor) else ""
        right = rhs.dtype.name if isinstance(rhs, tl.tensor) else ""
        if left == right and left in _KEPT:
            return self.broadcast_impl_value(lhs, rhs)
        if not right and _takes(left, rhs):
            return self.broadcast_impl_value(lhs, self.scalar_constant(rhs, lhs.dtype))
        if not left and _takes(right, lhs):
            return self.broadcast_impl_value(self.scalar_constant(lhs, rhs.dtype), rhs)
        return super().binary_op_type_checking_impl(lhs, rhs, *args, **kwargs)  # type: ignore[no-any-return]

    def broadcast_impl_value(self, lhs: tl.tensor, rhs: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
        """Bring two tensors to one shape."""
        left, right = lhs.type.is_block(), rhs.type.is_block()
        if left and right:
            if lhs.handle.data.shape == rhs.handle.data.shape:
                return lhs, rhs
            return super().broadcast_impl_value(lhs, rhs)  # type: ignore[no-any-return]
        if left:
            return lhs, self._spread_to(lhs.handle.data.shape, rhs)
        if right:
            return self._spread_to(rhs.handle.data.shape, lhs), rhs
        return lhs, rhs

    def _spread_to(self, shape: tuple[int, ...], value: tl.tensor) -> tl.tensor:
        """A scalar as a block."""
        dtype = value.dtype
        kind = None if dtype.is_ptr() else self._spread.get((shape, dtype.name))
        if kind is None:
            kind = tl.block_type(dtype, list(shape))
            if not dtype.is_ptr():
                self._spread[shape, dtype.name] = kind
        return self.tensor(self.builder.create_splat(kind, value.handle), kind)


def _takes(name: str, number: Any) -> bool:
    """Whether a number that meets a tensor of this type becomes one of it, whatever the operation."""
    if type(number) is int:
        return name in _FLOATS or (name in ("int32", "int64") and number in _INT32)
    return type(number) is float and name in _FLOATS


def _numbers(shape: Any) -> tuple[int, ...]:
    return tuple(size.value if isinstance(size, tl.constexpr) else size for size in getattr(shape, "values", shape))


def add_shortcuts(patches: PatchSet) -> None:
    """Reuse block types and tensor shapes that were built before, and compare a type with itself at once."""
    build_tensor, build_block, equal = core.tensor.__init__, core.block_type.__init__, core.dtype.__eq__
    tensors: dict[tuple[int, ...], dict[str, Any]] = {}
    blocks: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}

    def block_init(self: Any, element_ty: Any, shape: Any) -> None:
        key = element_ty.name, _numbers(shape)
        known = blocks.get(key)
        if known is None:
            build_block(self, element_ty, shape)
            self.plain_shape = key[1]
            blocks[key] = dict(self.__dict__)
        else:
            self.__dict__.update(known)
            self.element_ty = element_ty

    def tensor_init(self: Any, handle: Any, type: Any) -> None:  # noqa: A002 - Triton passes it by name
        # What was built before these patches has no plain shape.
        key = (getattr(type, "plain_shape", None) or _numbers(type.shape)) if type.is_block() else ()
        known = tensors.get(key)
        if known is None:
            build_tensor(self, handle, type)
            tensors[key] = {name: value for name, value in self.__dict__.items() if name not in ("handle", "type", "dtype")}
            return
        fields = self.__dict__
        fields.update(known)
        fields["handle"], fields["type"], fields["dtype"] = handle, type, type.scalar

    patches.add(core.block_type, "__init__", block_init)
    patches.add(core.tensor, "__init__", tensor_init)
    patches.add(core.dtype, "__eq__", lambda self, other: self is other or equal(self, other))
