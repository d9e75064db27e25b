"""Swaps triton.language between compiling and interpreting.

Both happen in one process with one import: the builtins are replaced only while a kernel is being interpreted.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core
from triton.runtime.jit import JITFunction

from .reductions import BlockReductions
from .values import Value

_ABSENT = object()


class PatchSet:
    """A list of attributes with their other values, applied and undone as a whole."""

    def __init__(self) -> None:
        self._changes: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._originals: list[tuple[Any, str, Any]] = []

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Plan to set `owner.name`; a later plan for the same attribute wins."""
        self._changes[(id(owner), name)] = (owner, name, value)

    def __enter__(self) -> PatchSet:
        for owner, name, value in self._changes.values():
            # Only what the owner itself defines is put back; what it inherits shows again once the patch is gone.
            self._originals.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, value)
        return self

    def __exit__(self, *_: object) -> None:
        while self._originals:
            owner, name, value = self._originals.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def bind(builtin: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    """A Triton builtin that finds `semantic` by itself."""
    function = getattr(builtin, "__wrapped__", builtin)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return function(*args, **kwargs)

    return call


def _method(function: JITFunction) -> Callable[..., Any]:
    """A library function as a method of tensors, which a JITFunction in a class is not by itself."""

    def method(tensor: tl.tensor, *args: Any, **kwargs: Any) -> Any:
        return function(tensor, *args, **kwargs)

    return method


def _libdevice_modules() -> Iterable[tuple[ModuleType, ModuleType]]:
    """(module, module that implements its functions) pairs."""
    from triton.language.extra import libdevice  # noqa: PLC0415 - imported late: candidates may never use it
    from triton.language.extra.cuda import libdevice as cuda  # noqa: PLC0415
    from triton.language.extra.hip import libdevice as hip  # noqa: PLC0415

    return ((libdevice, cuda), (cuda, cuda), (hip, hip))


def _scalar_bool(tensor: tl.tensor) -> bool:
    # A block as a condition only occurs where Triton asks "is there a mask?".
    data = tensor.handle.data
    return bool(data.reshape(-1)[0]) if data.size == 1 else True


def _transposed(tensor: tl.tensor) -> tl.tensor:
    shape = [int(size) for size in tensor.shape]
    shape[-1], shape[-2] = shape[-2], shape[-1]
    return tl.tensor(tensor.handle.like(np.swapaxes(tensor.handle.data, -1, -2)), tl.block_type(tensor.dtype, shape))


def _hint(tensor: Any, *_: Any, **__: Any) -> Any:
    return tensor


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _patch_types(patches: PatchSet) -> None:
    for kind in (core.dtype, core.block_type, core.pointer_type):
        patches.add(kind, "to_ir", lambda self, builder: self)
    patches.add(core.tensor, "__bool__", _scalar_bool)
    patches.add(core.tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))
    patches.add(core.tensor, "__int__", lambda self: int(self.handle.data.reshape(-1)[0]))
    patches.add(core.tensor, "T", property(_transposed))


def _patch_control(patches: PatchSet, loop: Callable[..., Any], reductions: BlockReductions) -> None:
    for module in (tl, core):
        patches.add(module, "range", loop)
        patches.add(module, "static_range", _static_range)
        for name in ("static_assert", "static_print", "device_print", "device_assert", "debug_barrier"):
            patches.add(module, name, _nothing)
        for name in ("multiple_of", "max_contiguous", "max_constancy"):
            patches.add(module, name, _hint)
        patches.add(module, "reduce", reductions.reduce)
        patches.add(module, "associative_scan", reductions.associative_scan)
    patches.add(core.tensor, "reduce", reductions.reduce)
    patches.add(core.tensor, "associative_scan", reductions.associative_scan)


def _static_range(first: Any, second: Any = None, step: Any = 1, **_: Any) -> range:
    plain = [int(bound.value if isinstance(bound, tl.constexpr) else bound) for bound in (first, second, step) if bound is not None]
    return range(0, plain[0], plain[1]) if second is None else range(*plain)


def interpreted_language(semantic: Any, loop: Callable[..., Any], reductions: BlockReductions) -> PatchSet:
    """Everything that differs in triton.language while a kernel is interpreted."""
    patches = PatchSet()
    owners: list[Any] = [
        tl,
        core,
        core.tensor,
        tl.math,
        getattr(core, "tensor_descriptor_base", None),
        getattr(core, "tensor_descriptor", None),
    ]
    for owner in filter(None, owners):
        for name, member in inspect.getmembers(owner):
            if core.is_builtin(member):
                patches.add(owner, name, bind(member, semantic))
    for name, member in inspect.getmembers(core.tensor, lambda member: isinstance(member, JITFunction)):
        patches.add(core.tensor, name, _method(member))
    for module, implementation in _libdevice_modules():
        for name, member in inspect.getmembers(implementation, inspect.isfunction):
            if core.is_builtin(member):
                patches.add(module, name, bind(member, semantic))
    _patch_control(patches, loop, reductions)
    _patch_types(patches)
    return patches


def scalar(value: int, dtype: tl.dtype) -> tl.tensor:
    """A loop variable."""
    return tl.tensor(Value(np.array([value], dtype=np.int64 if dtype.primitive_bitwidth == 64 else np.int32), dtype), dtype)
