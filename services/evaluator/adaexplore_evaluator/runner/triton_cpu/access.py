"""Memory operations of the corrected interpreter: loads, stores, atomics, block pointers and descriptors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as raw_memory
from triton._C.libtriton import ir
from triton.runtime.interpreter import BlockPointerHandle, TensorDescHandle

from .arithmetic import ArithmeticBuilder
from .memory import Memory, RaceRecorder, Region, outside, overflowed
from .model import Violation, ViolationKind
from .numerics import Array, decode, encode, held_dtype, memory_dtype, round_to
from .values import Value

_POISON_LENGTH = 8192


class AccessListener(Protocol):
    """Counts accesses while a sampled program runs."""

    def access(self, region: Region, addresses: Array, mask: Array | None, item_bytes: int, kind: str) -> None:
        """One block access; `kind` is "read", "write" or "atomic"."""


class Poison:
    """What undefined lanes hold: huge values of both signs and NaN for floats, odd patterns for integers.

    Zero would hide a missing `other`; one constant would hide in a maximum or cancel in a sum.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._pools: dict[str, Array] = {}

    def fill(self, shape: tuple[int, ...], dtype: tl.dtype) -> Array:
        """Raw memory words for lanes of `dtype`."""
        raw = memory_dtype(dtype)
        if raw == np.bool_:
            return np.ones(shape, dtype=raw)
        pool = self._pools.get(dtype.name)
        if pool is None:
            pool = self._pools[dtype.name] = self._pool(dtype)
        return np.resize(pool, shape)

    def _pool(self, dtype: tl.dtype) -> Array:
        random = np.random.default_rng(self._seed)
        if not dtype.is_floating():
            raw = memory_dtype(dtype)
            info = np.iinfo(raw)
            return np.asarray(random.integers(info.max // 3, info.max // 2, _POISON_LENGTH, dtype=raw) | raw.type(1))
        largest = {"fp16": 6e4, "fp32": 1e37, "fp64": 1e37, "bf16": 1e37}.get(dtype.name, 400.0)
        magnitude = largest * random.uniform(0.1, 1.0, _POISON_LENGTH)
        values = np.where(random.random(_POISON_LENGTH) < 0.5, magnitude, -magnitude)
        values[random.random(_POISON_LENGTH) < 0.25] = np.nan
        return encode(round_to(values.astype(held_dtype(dtype)), dtype), dtype)


@dataclass
class LaunchState:
    """What the memory operations of the current launch refer to."""

    kernel_name: str
    filename: str
    memory: Memory
    poison: Poison
    report: Callable[[Violation], None]
    races: RaceRecorder | None = None
    listener: AccessListener | None = None
    program: int = 0
    writes: bool = True
    reported: set[tuple[str, int, str]] = field(default_factory=set)


def _line(filename: str) -> int:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == filename:
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return 0


def _owned(array: Array) -> Array:
    """An array that Triton's memory functions take: contiguous and writable."""
    return array if array.flags.c_contiguous and array.flags.writeable else array.copy()


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _combined(mask: Array | None, wrong: Array) -> Array:
    return ~wrong if mask is None else mask & ~wrong


class AccessBuilder(ArithmeticBuilder):
    """The builder with checked memory; `state` belongs to the launch that runs."""

    state: LaunchState

    def _report(self, kind: ViolationKind, region_name: str, message: str) -> None:
        line = _line(self.state.filename)
        if (kind, line, region_name) in self.state.reported:
            return
        self.state.reported.add((kind, line, region_name))
        self.state.report(Violation(kind, self.state.kernel_name, line, message))

    def _check(self, pointers: Value, mask: Array | None, verb: str) -> tuple[Region | None, Array | None]:
        """The region, if it is one, and the lanes that may touch memory (None: all); reports the others."""
        addresses = pointers.data
        item_bytes = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        region = pointers.region
        if region is None:
            return self._check_unknown(addresses, mask, item_bytes, verb)
        wrong = outside(region, addresses, item_bytes)
        if wrong is None:
            return region, mask
        live = wrong if mask is None else wrong & mask
        if live.any():
            kind: ViolationKind = "offset_overflow" if overflowed(region, addresses[live]) else "out_of_bounds"
            self._report(kind, region.name, self._describe(region, addresses[live], verb))
        return region, _combined(mask, wrong)

    def _check_unknown(self, addresses: Array, mask: Array | None, item_bytes: int, verb: str) -> tuple[Region | None, Array]:
        live = np.ones(addresses.shape, dtype=bool) if mask is None else np.array(mask)
        region, wrong = self.state.memory.locate(addresses[live], item_bytes)
        if wrong.any():
            self._report("out_of_bounds", "?", f"{verb} {int(wrong.sum())} lanes through pointers into no known tensor")
        live[live] = ~wrong
        return region, live

    def _describe(self, region: Region, addresses: Array, verb: str) -> str:
        offset = (int(addresses.reshape(-1)[0]) - region.low) // region.item_bytes
        elements = region.span_bytes // region.item_bytes
        where = f"element {offset} of {region.name}, which spans {elements} elements"
        if 0 <= offset < elements:
            where = f"element {offset} from the start of {region.name}, which is between the elements of that strided view"
        return f"{verb} {addresses.size} lanes out of bounds, first at {where}, in program {self.grid_idx}"

    # Loads and stores.

    def create_load(self, pointers: Value, cache: Any, eviction: Any, is_volatile: bool) -> Value:
        """Load every lane."""
        return self._load(pointers, None, None)

    def create_masked_load(self, pointers: Value, mask: Value, other: Value | None, cache: Any, eviction: Any, is_volatile: bool) -> Value:
        """Load where the mask holds; other lanes hold `other` or, without it, poison."""
        return self._load(pointers, _spread(mask.data, pointers.data.shape), other)

    def _load(self, pointers: Value, mask: Array | None, other: Value | None) -> Value:
        dtype = pointers.get_element_ty()
        region, lanes = self._check(pointers, mask, "reads")
        addresses = pointers.data
        if region is not None:
            self._note_read(region, addresses, lanes, max(1, dtype.primitive_bitwidth // 8))
        raw_dtype = memory_dtype(dtype)
        if lanes is None:
            rest, lanes = np.zeros(addresses.shape, dtype=raw_dtype), np.ones(addresses.shape, dtype=bool)
        elif other is None:
            rest = self.state.poison.fill(addresses.shape, dtype)
        else:
            rest = _spread(encode(other.data, dtype), addresses.shape)
        raw = raw_memory.load(_owned(addresses), _owned(lanes), _owned(rest), raw_dtype)
        return Value(decode(raw, dtype), dtype)

    def _note_read(self, region: Region, addresses: Array, lanes: Array | None, item_bytes: int) -> None:
        if self.state.listener is not None:
            self.state.listener.access(region, addresses, lanes, item_bytes, "read")
        if self.state.races is None:
            return
        conflict = self.state.races.read(region.storage, self.state.program, addresses, lanes)
        if conflict is not None:
            self._report("race", region.name, f"{conflict.kind}: {region.name}, unit {conflict.unit}, in program {self.grid_idx}")

    def create_store(self, pointers: Value, value: Value, cache: Any, eviction: Any) -> None:
        """Store every lane."""
        self._store(pointers, value, None)

    def create_masked_store(self, pointers: Value, value: Value, mask: Value, cache: Any, eviction: Any) -> None:
        """Store where the mask holds."""
        self._store(pointers, value, _spread(mask.data, pointers.data.shape))

    def _store(self, pointers: Value, value: Value, mask: Array | None) -> None:
        region, lanes = self._check(pointers, mask, "writes")
        dtype = pointers.get_element_ty()
        addresses = pointers.data
        if region is not None and self.state.listener is not None:
            self.state.listener.access(region, addresses, lanes, max(1, dtype.primitive_bitwidth // 8), "write")
        if not self.state.writes:
            return
        raw = _owned(_spread(encode(value.data, dtype), addresses.shape).astype(memory_dtype(dtype), copy=False))
        if region is not None and self.state.races is not None:
            self._note_write(self.state.races, region, addresses, lanes, raw)
        raw_memory.store(_owned(addresses), raw, np.ones(addresses.shape, dtype=bool) if lanes is None else _owned(lanes))

    def _note_write(self, races: RaceRecorder, region: Region, addresses: Array, lanes: Array | None, raw: Array) -> None:
        def changed() -> Array:
            everywhere = np.ones(addresses.shape, dtype=bool) if lanes is None else lanes
            before = raw_memory.load(_owned(addresses), _owned(everywhere), raw, raw.dtype)
            return np.asarray((before.view(f"u{raw.itemsize}") != raw.view(f"u{raw.itemsize}")) & everywhere)

        conflict = races.write(region.storage, self.state.program, addresses, lanes, changed)
        if conflict is not None:
            self._report("race", region.name, f"{conflict.kind}: {region.name}, unit {conflict.unit}, in program {self.grid_idx}")

    # Atomics.

    def create_atomic_rmw(self, operation: Any, pointers: Value, value: Value, mask: Value, semantics: Any, scope: Any) -> Value:
        """Read, modify, write; lanes in order where several hit one address. Answers the old values."""
        if operation not in _ATOMICS:
            raise NotImplementedError(f"atomic {operation} is not modelled")
        combine = _ATOMICS[operation]
        return self._atomic(
            pointers, _spread(mask.data, pointers.data.shape), value, lambda old, lanes: np.asarray(combine(old, lanes[0])), (value,)
        )

    def create_atomic_cas(self, pointers: Value, expected: Value, value: Value, semantics: Any, scope: Any) -> Value:
        """Compare and swap; answers the old values."""
        return self._atomic(pointers, None, value, lambda old, lanes: np.where(old == lanes[0], lanes[1], old), (expected, value))

    def _atomic(
        self, pointers: Value, mask: Array | None, value: Value, update: Callable[..., Array], operands: tuple[Value, ...]
    ) -> Value:
        region, lanes = self._check(pointers, mask, "atomically updates")
        dtype = pointers.get_element_ty()
        addresses = pointers.data
        if region is not None and self.state.listener is not None:
            self.state.listener.access(region, addresses, lanes, max(1, dtype.primitive_bitwidth // 8), "atomic")
        flat = np.ascontiguousarray(addresses).reshape(-1)
        live = np.arange(flat.size) if lanes is None else np.flatnonzero(lanes)
        old_values = np.zeros(flat.size, dtype=held_dtype(dtype))
        spread = [np.broadcast_to(operand.data, addresses.shape).reshape(-1) for operand in operands]
        if live.size and self.state.races is not None:
            self.state.races.synchronise(self.state.program)
        while live.size:
            _, first = np.unique(flat[live], return_index=True)
            turn = live[first]
            old_values[turn] = self._exchange(flat[turn], dtype, partial(update, lanes=[lane[turn] for lane in spread]))
            live = np.delete(live, first)
        return Value(old_values.reshape(addresses.shape), value.dtype)

    def _exchange(self, addresses: Array, dtype: tl.dtype, update: Callable[[Array], Array]) -> Array:
        raw_dtype = memory_dtype(dtype)
        everywhere = np.ones(addresses.shape, dtype=bool)
        old = decode(raw_memory.load(addresses, everywhere, np.zeros(addresses.shape, dtype=raw_dtype), raw_dtype), dtype)
        if self.state.writes:
            new = encode(round_to(np.asarray(update(old)), dtype), dtype).astype(raw_dtype, copy=False)
            raw_memory.store(addresses, _owned(new), everywhere)
        return old

    # Block pointers and descriptors.

    def create_tensor_pointer_load(
        self, pointer: BlockPointerHandle, boundary_check: Any, padding: Any, cache: Any, eviction: Any, is_volatile: bool
    ) -> Value:
        """Load a block; checked dimensions outside hold the padding or, without one, poison."""
        pointers, mask = self._materialize(pointer.base, pointer.materialize_pointers(boundary_check))
        return self._load(pointers, mask, _padding(padding, pointers))

    def create_tensor_pointer_store(
        self, pointer: BlockPointerHandle, value: Value, boundary_check: Any, cache: Any, eviction: Any
    ) -> None:
        """Store a block where the checked dimensions are inside."""
        pointers, mask = self._materialize(pointer.base, pointer.materialize_pointers(boundary_check))
        self._store(pointers, value, mask)

    def create_descriptor_load(self, descriptor: TensorDescHandle, indices: Any, cache: Any, eviction: Any) -> Value:
        """Load a tile; what is outside of the tensor holds the descriptor's padding."""
        pointers, mask = self._materialize(descriptor.base, descriptor.materialize_pointers(indices))
        padding = ir.PADDING_OPTION.PAD_ZERO if descriptor.padding in (None, "zero") else descriptor.padding
        return self._load(pointers, mask, _padding(padding, pointers))

    def create_descriptor_store(self, descriptor: TensorDescHandle, value: Value, indices: Any) -> None:
        """Store a tile where it is inside of the tensor."""
        pointers, mask = self._materialize(descriptor.base, descriptor.materialize_pointers(indices))
        self._store(pointers, value, mask)

    def create_descriptor_gather(self, descriptor: TensorDescHandle, x_offsets: Value, y_offset: Value, result_type: Any) -> Value:
        """Load rows by index."""
        rows = [self.create_descriptor_load(descriptor, [Value(x.reshape(1), tl.int32), y_offset], None, None) for x in x_offsets.data]
        return rows[0].like(np.concatenate([row.data.reshape(1, -1) for row in rows]))

    def create_descriptor_scatter(self, descriptor: TensorDescHandle, value: Value, x_offsets: Value, y_offset: Value) -> None:
        """Store rows by index."""
        for row, x in zip(value.data, x_offsets.data, strict=True):
            self.create_descriptor_store(descriptor, value.like(row.reshape(1, -1)), [Value(x.reshape(1), tl.int32), y_offset])

    @staticmethod
    def _materialize(base: Value, materialized: tuple[Any, Array]) -> tuple[Value, Array]:
        handle, mask = materialized
        data = np.ascontiguousarray(np.broadcast_to(handle.data, mask.shape))
        return Value(data, handle.dtype, base.region), mask


def _padding(option: Any, pointers: Value) -> Value | None:
    if option is None:
        return None
    dtype = pointers.get_element_ty()
    fill = np.nan if option == ir.PADDING_OPTION.PAD_NAN else 0
    return Value(np.full(pointers.data.shape, fill, dtype=held_dtype(dtype)), dtype)


def _exchange_value(old: Array, new: Array) -> Array:
    return np.broadcast_to(new, old.shape)


_ATOMICS: dict[Any, Callable[[Array, Array], Any]] = {
    ir.ATOMIC_OP.ADD: np.add,
    ir.ATOMIC_OP.FADD: np.add,
    ir.ATOMIC_OP.MIN: np.minimum,
    ir.ATOMIC_OP.MAX: np.maximum,
    ir.ATOMIC_OP.UMIN: np.minimum,
    ir.ATOMIC_OP.UMAX: np.maximum,
    ir.ATOMIC_OP.AND: np.bitwise_and,
    ir.ATOMIC_OP.OR: np.bitwise_or,
    ir.ATOMIC_OP.XOR: np.bitwise_xor,
    ir.ATOMIC_OP.XCHG: _exchange_value,
}
