"""How much a launch moves and computes, from a few of its programs.

What is counted. Every block access asks the L2 cache for the distinct 32-byte sectors that its lanes touch, so an uncoalesced access asks
for more than its elements. Within one program a sector is *new* the first time.

What reaches device memory, per allocation and direction, with R = bytes requested, F = the sum over programs of bytes new to each
program, and C = min(F, bytes the arguments span), the bytes that must move at least once:

* F − C is read by several programs. If C fits into L2 it moves once. Otherwise the programs that run at once (W of them, a square of
  tiles, as matrix products have it) share √W-fold: max(C, F ÷ √W).
* R − F is re-read by the program that had it. If what the running programs hold (W × F ÷ programs) fits into half of the L2 it is free,
  otherwise it moves again: what streams through takes the other half.

Extrapolation. Where one of the programs below does nothing though others work, runs of neighbours are interpreted instead, each program
for its share. Otherwise, programs first, …, next to last in every axis, and last are interpreted. The last one (a partial block, as a
rule) stands for itself, the others for the rest by the trapezoid rule, exact for work that is constant or grows linearly. Loops of more
than a dozen iterations run their first, a few middle and last ones; the middle ones stand for what was left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .counting import OperationCounter
from .memory import Region
from .model import Traffic
from .numerics import Array
from .targets import Target

# A few scalars, as a program reads before it finds out that nothing is left for it.
_IDLE_BYTES = 512
_SECTOR_BITS = 5
_SECTOR_BYTES = 1 << _SECTOR_BITS
_HEAD, _MIDDLE, _TAIL = 6, 2, 2
_RUNS, _RUN_LENGTH, _PHASE = 8, 32, 37
# Part of the L2 that what the running programs hold may fill: the rest is taken by what streams through.
_HELD_SHARE = 0.5
Grid = tuple[int, int, int]


class BudgetExceeded(BaseException):
    """A sampled program took too long; not an Exception, so that no kernel code catches it."""


@dataclass(frozen=True)
class SampledProgram:
    """A program to interpret and how many programs it stands for."""

    index: Grid
    weight: float


def sample_programs(grid: Grid, limit: int) -> list[SampledProgram]:
    """At most `limit` programs of a grid, with weights that sum up to the grid's size."""
    total = math.prod(grid)
    if total <= limit:
        return [SampledProgram(unravel(number, grid), 1.0) for number in range(total)]
    if limit <= 1:
        return [SampledProgram((grid[0] // 2, grid[1] // 2, grid[2] // 2), float(total))]
    inner = limit - 1
    steps = [0.5] if inner == 1 else [number / (inner - 1) for number in range(inner)]
    shares = [1.0] if inner == 1 else [(0.5 if step in (0.0, 1.0) else 1.0) / (inner - 1) for step in steps]
    corner = [max(size - 2, 0) for size in grid]
    chosen = [
        SampledProgram((round(corner[0] * step), round(corner[1] * step), round(corner[2] * step)), share * (total - 1))
        for step, share in zip(steps, shares, strict=True)
    ]
    return [*chosen, SampledProgram((grid[0] - 1, grid[1] - 1, grid[2] - 1), 1.0)]


def clustered_programs(grid: Grid) -> list[SampledProgram]:
    """Runs of neighbouring programs from all over a grid, for kernels of which some programs do nothing.

    Where idle programs recur with a short period, as the last parts of split rows do, a run holds their true share; evenly spaced single
    programs may all fall on the same phase of it. Runs begin at different phases of longer periods.
    """
    total = math.prod(grid)
    if total <= _RUNS * _RUN_LENGTH:
        return [SampledProgram(unravel(number, grid), 1.0) for number in range(total)]
    starts = [(run * total // _RUNS + run * _PHASE) % (total - _RUN_LENGTH) for run in range(_RUNS)]
    weight = total / (_RUNS * _RUN_LENGTH)
    return [SampledProgram(unravel(start + number, grid), weight) for start in starts for number in range(_RUN_LENGTH)]


def unravel(number: int, grid: Grid) -> Grid:
    """Coordinates of a program; the first axis runs fastest."""
    return number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])


def sample_iterations(length: int) -> Iterator[tuple[int, float]]:
    """Iterations of a loop to run, with how many iterations each stands for."""
    left_out = length - _HEAD - _TAIL
    if left_out <= _MIDDLE:
        yield from ((number, 1.0) for number in range(length))
        return
    yield from ((number, 1.0) for number in range(_HEAD))
    for step in range(_MIDDLE):
        yield _HEAD + (2 * step + 1) * left_out // (2 * _MIDDLE), left_out / _MIDDLE
    yield from ((number, 1.0) for number in range(length - _TAIL, length))


@dataclass
class _Direction:
    requested: float = 0.0
    new: float = 0.0

    def add(self, other: _Direction, weight: float) -> None:
        self.requested += weight * other.requested
        self.new += weight * other.new


@dataclass
class _Allocation:
    low: int
    high: int
    read: _Direction = field(default_factory=_Direction)
    write: _Direction = field(default_factory=_Direction)


def _distinct_sectors(addresses: Array, item_bytes: int) -> Array:
    sectors = addresses.reshape(-1) >> np.uint64(_SECTOR_BITS)
    if sectors.size > 1:
        ascending = sectors[1:] >= sectors[:-1]
        if not ascending.all():
            return np.unique(sectors)
        return sectors[np.concatenate(([True], sectors[1:] != sectors[:-1]))]
    return sectors


class ProgramTally:
    """Listens to the accesses of one sampled program; `check_budget` is called at each and may end it."""

    def __init__(self, counter: OperationCounter, check_budget: Callable[[], None]) -> None:
        self.counter = counter
        self._check_budget = check_budget
        self.allocations: dict[int, _Allocation] = {}
        self._seen: dict[tuple[int, str], Array] = {}

    @property
    def idle(self) -> bool:
        """True if the program asked for nothing, or for so little that its work lies elsewhere."""
        return sum(item.read.requested + item.write.requested for item in self.allocations.values()) <= _IDLE_BYTES

    def access(self, region: Region, addresses: Array, mask: Array | None, item_bytes: int, kind: str) -> None:
        """Count one block access."""
        self._check_budget()
        touched = addresses if mask is None else addresses[mask]
        if touched.size == 0:
            return
        sectors = _distinct_sectors(touched, item_bytes)
        allocation = self.allocations.setdefault(region.storage.base, _Allocation(region.low, region.high))
        allocation.low, allocation.high = min(allocation.low, region.low), max(allocation.high, region.high)
        weight = self.counter.weight
        if kind == "atomic":
            self.counter.atomics += weight * touched.size
        for direction in ("read", "write") if kind == "atomic" else (kind,):
            tally = allocation.read if direction == "read" else allocation.write
            tally.requested += weight * sectors.size * _SECTOR_BYTES
            tally.new += weight * self._count_new(region, sectors, direction) * _SECTOR_BYTES

    def _count_new(self, region: Region, sectors: Array, direction: str) -> int:
        key = (region.storage.base, direction)
        first = region.storage.base >> _SECTOR_BITS
        seen = self._seen.get(key)
        if seen is None:
            # Lazily mapped: only what the program touches costs memory.
            seen = self._seen[key] = np.zeros((region.storage.size_bytes >> _SECTOR_BITS) + 2, dtype=bool)
        index = (sectors - np.uint64(first)).astype(np.int64)
        new = int(index.size - np.count_nonzero(seen[index]))
        seen[index] = True
        return new


class LaunchTally:
    """Sums sampled programs up to a launch."""

    def __init__(self) -> None:
        self._allocations: dict[int, _Allocation] = {}
        self._operations = OperationCounter()
        self._sampled = 0

    def add(self, program: ProgramTally, weight: float) -> None:
        """Count one program `weight` times."""
        self._sampled += 1
        for base, allocation in program.allocations.items():
            total = self._allocations.setdefault(base, _Allocation(allocation.low, allocation.high))
            total.low, total.high = min(total.low, allocation.low), max(total.high, allocation.high)
            total.read.add(allocation.read, weight)
            total.write.add(allocation.write, weight)
        counter, sums = program.counter, self._operations
        sums.flops_fp32 += weight * counter.flops_fp32
        sums.flops_fp32_dot += weight * counter.flops_fp32_dot
        sums.special_functions += weight * counter.special_functions
        sums.atomics += weight * counter.atomics
        sums.loop_iterations += weight * counter.loop_iterations
        for dtype, flops in counter.tensor_flops.items():
            sums.tensor_flops[dtype] += weight * flops

    def traffic(self, programs: int, resident_programs: int, l2_capacity_bytes: int) -> Traffic:
        """The launch's traffic on a GPU that runs `resident_programs` at once over an L2 of `l2_capacity_bytes`."""
        resident = max(1, min(resident_programs, programs))

        def moved(allocation: _Allocation, direction: _Direction) -> float:
            return _device_bytes(direction, allocation.high - allocation.low, programs, resident, l2_capacity_bytes)

        sums, allocations = self._operations, self._allocations.values()
        dtype = max(sums.tensor_flops, key=lambda name: sums.tensor_flops[name], default="")
        return Traffic(
            dram_read_bytes=round(sum(moved(a, a.read) for a in allocations)),
            dram_write_bytes=round(sum(moved(a, a.write) for a in allocations)),
            l2_bytes=round(sum(a.read.requested + a.write.requested for a in allocations)),
            flops_fp32=round(sums.flops_fp32),
            flops_fp32_dot=round(sums.flops_fp32_dot),
            flops_tensor_core=round(sum(sums.tensor_flops.values())),
            tensor_core_dtype=dtype,
            special_functions=round(sums.special_functions),
            atomics=round(sums.atomics),
            loop_iterations=round(sums.loop_iterations),
            sampled_programs=self._sampled,
            programs=programs,
        )


def _device_bytes(direction: _Direction, span_bytes: int, programs: int, resident: int, l2_capacity_bytes: int) -> float:
    compulsory = min(direction.new, float(span_bytes))
    shared = compulsory if compulsory <= l2_capacity_bytes else max(compulsory, direction.new / math.sqrt(resident))
    held = resident * direction.new / max(programs, 1)
    again = direction.requested - direction.new if held > l2_capacity_bytes * _HELD_SHARE else 0.0
    return shared + again


def unknown_traffic(programs: int) -> Traffic:
    """The traffic of a launch that could not be sampled."""
    return Traffic(0, 0, 0, 0, 0, 0, "", 0, 0, 0, 0, programs)


def rough_seconds(traffic: Traffic, target: Target, resident_programs: int) -> float:
    """A coarse roofline with a microsecond per wave of programs, only good for ranking an autotuner's configurations."""
    memory = (traffic.dram_read_bytes + traffic.dram_write_bytes) / target.dram_bytes_per_s
    cache = traffic.l2_bytes / (4 * target.dram_bytes_per_s)
    compute = (traffic.flops_fp32 + 4 * traffic.special_functions) / target.flops_fp32_per_s
    tensor = traffic.flops_tensor_core / target.flops_tensor_per_s
    busy = min(1.0, traffic.programs / target.multiprocessors)
    return max(memory, cache, compute + tensor) / busy + math.ceil(traffic.programs / resident_programs) * 1e-6
