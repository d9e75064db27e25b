"""How much of what a launch may write it writes, from random programs: a grid that is too small for its outputs shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .memory import Region
from .numerics import Array
from .traffic import Grid, unravel

_SECTOR_BITS = 5


@dataclass(frozen=True)
class Stored:
    """Bytes that one launch stores through one argument, with the standard error of that estimate; `base` is the allocation's address."""

    argument: str
    base: int
    allocation_bytes: int
    stored_bytes: float
    error_bytes: float


@dataclass(frozen=True)
class Coverage:
    """Part of the least covered allocation that a kernel writes to through one argument, all launches together, with its standard error.

    Above 1 where elements are written repeatedly. A kernel that took too long to sample has one entry that is not `known`.
    """

    kernel_name: str
    line: int
    argument: str
    coverage: float
    error: float
    known: bool = True


def random_programs(grid: Grid, limit: int, random: np.random.Generator) -> Iterator[Grid]:
    """At most `limit` programs of a grid, one at random out of each of equally many parts."""
    total = math.prod(grid)
    parts = min(limit, total)
    for part in range(parts):
        yield unravel(int(random.integers(part * total // parts, (part + 1) * total // parts)), grid)


class StoreTally:
    """Listens to the stores of random programs; `weight` tells for how many loop iterations the current one stands."""

    def __init__(self, weight: Callable[[], float], check_budget: Callable[[], None]) -> None:
        self._weight = weight
        self._check_budget = check_budget
        self._programs: list[dict[tuple[int, str], list[float]]] = []
        self._sizes: dict[int, int] = {}
        self._seen: dict[int, set[int]] = {}

    def begin(self) -> None:
        """The next program starts."""
        self._programs.append({})
        self._seen = {}

    def access(self, region: Region, addresses: Array, mask: Array | None, item_bytes: int, kind: str) -> None:
        """Count one block access if it stores."""
        self._check_budget()
        touched = addresses.reshape(-1) if mask is None else addresses[mask]
        if kind == "read" or touched.size == 0:
            return
        storage = region.storage
        self._sizes[storage.base] = storage.size_bytes
        seen = self._seen.setdefault(storage.base, set())
        before = len(seen)
        seen.update(np.unique(touched >> np.uint64(_SECTOR_BITS)).tolist())
        figures = self._programs[-1].setdefault((storage.base, region.name), [0.0, 0.0])
        figures[0] += self._weight() * touched.size * item_bytes
        figures[1] += self._weight() * ((len(seen) - before) << _SECTOR_BITS)

    def stored(self, programs: int) -> list[Stored]:
        """What a launch of so many programs stores; what one program writes twice counts once."""
        keys = dict.fromkeys(key for program in self._programs for key in program)
        return [self._estimate(base, argument, programs) for base, argument in keys]

    def _estimate(self, base: int, argument: str, programs: int) -> Stored:
        sampled = len(self._programs)
        each = np.array([min(program.get((base, argument), [0.0, 0.0])) for program in self._programs])
        spread = float(each.std(ddof=1)) if 1 < sampled < programs else 0.0
        return Stored(argument, base, self._sizes[base], float(each.mean()) * programs, spread * programs / math.sqrt(sampled))


@dataclass
class _Allocation:
    size_bytes: int
    stored_bytes: float = 0.0
    variance: float = 0.0
    writers: set[tuple[str, int, str]] = field(default_factory=set)


class CoverageBook:
    """Adds up what the launches of one call store, by allocation."""

    def __init__(self) -> None:
        self._live: dict[int, _Allocation] = {}
        self._released: list[_Allocation] = []
        self._unknown: set[tuple[str, int]] = set()

    def add(self, kernel_name: str, line: int, stored: list[Stored] | None) -> None:
        """Count one launch; None for one that took too long to sample."""
        if stored is None:
            self._unknown.add((kernel_name, line))
        for item in stored or ():
            allocation = self._live.setdefault(item.base, _Allocation(item.allocation_bytes))
            allocation.stored_bytes += item.stored_bytes
            allocation.variance += item.error_bytes**2
            allocation.writers.add((kernel_name, line, item.argument))

    def allocated(self, base: int) -> None:
        """Memory at this address is new: what was written there before belongs to an allocation that is gone."""
        released = self._live.pop(base, None)
        if released is not None:
            self._released.append(released)

    def clear(self) -> None:
        """Forget everything."""
        self._live.clear()
        self._released.clear()
        self._unknown.clear()

    def coverages(self) -> list[Coverage]:
        """One entry for each argument that a kernel writes through."""
        found: dict[tuple[str, int, str], Coverage] = {}
        for allocation in [*self._released, *self._live.values()]:
            size = max(1, allocation.size_bytes)
            share, error = allocation.stored_bytes / size, math.sqrt(allocation.variance) / size
            for writer in allocation.writers:
                if writer not in found or share < found[writer].coverage:
                    found[writer] = Coverage(*writer, share, error)
        known = [item for item in found.values() if (item.kernel_name, item.line) not in self._unknown]
        return [*known, *(Coverage(name, line, "", 0.0, 0.0, known=False) for name, line in sorted(self._unknown))]
