"""The memory that a launch may touch: bounds of every pointer argument, and who touched what.

A pointer carries the *region* of the argument it derives from. An access is in bounds when it falls on an element of that tensor: inside
the span of its shape and strides and, where the view has gaps, on an element that an index reaches. Neighbouring memory that happens to
be mapped does not count, which is what an access of a GPU would silently read or overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .numerics import Array

_MANY = np.int32(-1)
_PENDING_LIMIT = 1 << 22
_INT32_VALUES = 1 << 32
Allocations = Callable[[], Iterable[tuple[int, int, str]]]


@dataclass
class Storage:
    """One allocation and the shadow that records which program touched which unit of it in the current launch.

    Shadows hold program number + 1 per unit (0: nobody, −1: several); they are allocated on first use and lazily mapped.
    """

    base: int
    size_bytes: int
    unit_bytes: int
    written: bool = False
    writers: Array | None = None
    readers: Array | None = None
    pending_reads: list[tuple[int, Array, Array | None]] = field(default_factory=list)
    pending_elements: int = 0

    @property
    def units(self) -> int:
        """Units that the storage has."""
        return -(-self.size_bytes // self.unit_bytes)


@dataclass(frozen=True)
class Region:
    """What one pointer argument may touch; addresses in bytes, `dims` are (size, stride in bytes) where the view has gaps."""

    name: str
    low: int
    high: int
    item_bytes: int
    dims: tuple[tuple[int, int], ...]
    storage: Storage

    @property
    def span_bytes(self) -> int:
        """Bytes from the first to the last element."""
        return self.high - self.low


def _gaps(shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int) -> tuple[tuple[int, int], ...]:
    """Dimensions, widest stride first, if some element between first and last is not part of the view; else nothing.

    Views whose dimensions overlap (sliding windows) count as without gaps.
    """
    dims = sorted(((n, s * item_bytes) for n, s in zip(shape, strides, strict=True) if n > 1 and s != 0), key=lambda dim: -dim[1])
    reached, gap = item_bytes, False
    for size, stride in reversed(dims):
        if stride < reached:
            return ()
        gap = gap or stride > reached
        reached += stride * (size - 1)
    return tuple(dims) if gap else ()


class Memory:
    """Regions of one launch, found by argument or, for pointers of unknown origin, by address."""

    def __init__(self, allocations: Allocations | None) -> None:
        self._allocations = allocations
        self._storages: dict[int, Storage] = {}

    def add_tensor(self, name: str, tensor: Any) -> Region:
        """The region of a tensor argument; a tensor without elements has none that may be touched."""
        item_bytes = int(tensor.element_size())
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        low = int(tensor.data_ptr())
        elements = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
        untyped = tensor.untyped_storage()
        storage = self._storage(int(untyped.data_ptr()), int(untyped.nbytes()), item_bytes)
        return Region(name, low, low + elements * item_bytes, item_bytes, _gaps(shape, strides, item_bytes), storage)

    def add_pointer(self, name: str, address: int, item_bytes: int) -> Region:
        """The region of an argument that only has an address; its bounds are its allocation's."""
        found = self._find_allocation(address, item_bytes)
        if found is None:
            storage = self._storage(address, 0, item_bytes)
            found = Region(name, address, address, item_bytes, (), storage)
        return found

    def locate(self, addresses: Array, item_bytes: int) -> tuple[Region | None, Array]:
        """Where pointers that were computed from integers point: the one allocation they are all in (else None), and which are in none."""
        known = {storage.base: (storage.base + storage.size_bytes, "?") for storage in self._storages.values()}
        known.update({base: (base + size, name) for base, size, name in (self._allocations() if self._allocations else ())})
        lows = np.array(sorted(known), dtype=np.uint64)
        highs = np.array([known[int(low)][0] for low in lows], dtype=np.uint64)
        index = np.searchsorted(lows, addresses, side="right") - 1
        if lows.size == 0:
            return None, np.ones(addresses.shape, dtype=bool)
        wrong = (index < 0) | (addresses + np.uint64(item_bytes) > highs[index])
        owners = np.unique(index[~wrong])
        if owners.size != 1:
            return None, wrong
        low, high = int(lows[owners[0]]), int(highs[owners[0]])
        return Region(known[low][1], low, high, item_bytes, (), self._storage(low, high - low, item_bytes)), wrong

    def _find_allocation(self, address: int, item_bytes: int) -> Region | None:
        for base, size, name in self._allocations() if self._allocations else ():
            if base <= address < base + size:
                return Region(name, base, base + size, item_bytes, (), self._storage(base, size, item_bytes))
        return None

    def _storage(self, base: int, size_bytes: int, unit_bytes: int) -> Storage:
        storage = self._storages.get(base)
        if storage is None:
            storage = self._storages[base] = Storage(base, size_bytes, unit_bytes)
        storage.unit_bytes = min(storage.unit_bytes, unit_bytes)
        return storage


def outside(region: Region, addresses: Array, item_bytes: int) -> Array | None:
    """Which accesses do not fall on an element of the region, or None if all do."""
    if addresses.size == 0:
        return None
    first, last = int(addresses.min()), int(addresses.max())
    inside_span = region.low <= first and last + item_bytes <= region.high
    if inside_span and not region.dims:
        return None
    wrong = (addresses < np.uint64(region.low)) | (addresses > np.uint64(max(region.high - item_bytes, 0)))
    if region.high - region.low < item_bytes:
        return np.ones(addresses.shape, dtype=bool)
    if region.dims:
        wrong = wrong | _in_gap(region, addresses)
    return wrong if wrong.any() else None


def overflowed(region: Region, addresses: Array) -> bool:
    """True if some of these accesses out of bounds would be in bounds had their element offset not been cut to 32 bits."""
    elements = region.span_bytes // region.item_bytes
    if elements <= _INT32_VALUES // 2:
        return False
    offsets = (addresses.astype(np.int64) - np.int64(region.low)) // region.item_bytes
    return bool(((offsets < 0) & (offsets + _INT32_VALUES < elements)).any())


def _in_gap(region: Region, addresses: Array) -> Array:
    rest = addresses.astype(np.int64) - np.int64(region.low)
    for size, stride in region.dims:
        rest = rest - np.clip(rest // stride, 0, size - 1) * stride
    return np.asarray((rest < 0) | (rest >= region.item_bytes))


def _index(storage: Storage, addresses: Array, mask: Array | None) -> Array | slice:
    """Units that an access touches; a slice where they are consecutive."""
    flat = addresses.reshape(-1) if mask is None else addresses[mask]
    units = (flat.astype(np.int64) - storage.base) // storage.unit_bytes
    if units.size and units[-1] - units[0] == units.size - 1 and (units.size < 3 or bool((np.diff(units) == 1).all())):
        return slice(int(units[0]), int(units[-1]) + 1)
    return units


@dataclass(frozen=True)
class Conflict:
    """Two programs touched the same element and at least one wrote it; numbers count programs from 0."""

    kind: str
    other_program: int
    unit: int


class RaceRecorder:
    """Detects elements that several programs of a launch touch without an order between them.

    Reads of storages that nobody wrote yet are kept aside, since most storages are never written. With atomics in the kernel there may be
    an order (a lock, a counter), so then only writes of different values are conflicts; where programs can wait for each other, not those
    of two programs that both ran an atomic before they wrote.
    """

    def __init__(self, *, uses_atomics: bool, may_wait: bool = False) -> None:
        self._uses_atomics = uses_atomics
        self._may_wait = may_wait
        self._synchronised: set[int] = set()

    def synchronise(self, program: int) -> None:
        """Note that a program ran an atomic."""
        self._synchronised.add(program)

    def read(self, storage: Storage, program: int, addresses: Array, mask: Array | None) -> Conflict | None:
        """Record a read by `program`; a conflict if another program wrote there."""
        if self._uses_atomics:
            return None
        if not storage.written:
            storage.pending_reads.append((program, addresses, mask))
            storage.pending_elements += addresses.size
            if storage.pending_elements > _PENDING_LIMIT:
                self._flush(storage)
            return None
        index = _index(storage, addresses, mask)
        conflict = self._other(storage.writers, index, program, "read of what another program writes")
        self._mark_read(storage, program, index)
        return conflict

    def write(self, storage: Storage, program: int, addresses: Array, mask: Array | None, changed: Callable[[], Array]) -> Conflict | None:
        """Record a write by `program`; a conflict if another one wrote or read an element that this write changes.

        `changed` tells which lanes change memory; it is only asked where programs meet.
        """
        if not storage.written:
            storage.written = True
            storage.writers = np.zeros(storage.units, dtype=np.int32)
            self._flush(storage)
        index = _index(storage, addresses, mask)
        conflict = self._meeting(storage, index, program)
        if conflict is not None:
            lanes = changed()
            conflict = self._meeting(storage, _index(storage, addresses, lanes), program) if lanes.any() else None
        if storage.writers is not None:
            storage.writers[index] = program + 1
        return None if conflict is not None and self._ordered(program, conflict.other_program) else conflict

    def _ordered(self, program: int, other: int) -> bool:
        return self._may_wait and program in self._synchronised and other in self._synchronised

    def _meeting(self, storage: Storage, index: Array | slice, program: int) -> Conflict | None:
        conflict = self._other(storage.writers, index, program, "write of what another program writes")
        if conflict is None and not self._uses_atomics:
            conflict = self._other(storage.readers, index, program, "write of what another program reads")
        return conflict

    def _flush(self, storage: Storage) -> None:
        for program, addresses, mask in storage.pending_reads:
            self._mark_read(storage, program, _index(storage, addresses, mask))
        storage.pending_reads.clear()
        storage.pending_elements = 0

    def _mark_read(self, storage: Storage, program: int, index: Array | slice) -> None:
        if storage.readers is None:
            storage.readers = np.zeros(storage.units, dtype=np.int32)
        seen = storage.readers[index]
        storage.readers[index] = np.where((seen == 0) | (seen == program + 1), np.int32(program + 1), _MANY)

    @staticmethod
    def _other(shadow: Array | None, index: Array | slice, program: int, kind: str) -> Conflict | None:
        if shadow is None:
            return None
        marks = shadow[index]
        others = (marks != 0) & (marks != program + 1)
        if not others.any():
            return None
        position = int(np.argmax(others))
        unit = position + index.start if isinstance(index, slice) else int(index[position])
        return Conflict(kind, int(marks[position]) - 1, unit)
