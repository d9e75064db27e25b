"""Seconds that one kernel keeps each resource of a target busy; the slowest of them bounds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from adaexplore_evaluator.devices.cpu import constants as k
from adaexplore_evaluator.devices.cpu.datasheet import Datasheet
from adaexplore_evaluator.devices.cpu.launches import Resources, Traffic
from adaexplore_evaluator.devices.cpu.occupancy import Occupancy
from adaexplore_evaluator.devices.cpu.operators import DeviceKernel, Kind

_LIBRARY_SHARES: Mapping[Kind, float] = {Kind.CONVOLUTION: k.CONVOLUTION_SHARE, Kind.ATTENTION: k.ATTENTION_SHARE, Kind.PRODUCT: 1.0}


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds by resource: `dram`, `l2`, `fp32`, `tensor_core`, `special_functions`, `atomics`, `program_starts`.

    `waiting` are the seconds that a kernel takes beyond its busiest resource, since too little runs at a time to hide latencies.
    """

    seconds: Mapping[str, float]
    waiting: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the busiest resource, beside which the others work, and of what nothing hides."""
        return max(self.seconds.values(), default=0.0) + self.waiting

    @property
    def bound_by(self) -> str:
        """Name of the busiest resource, or `latency` where the kernel waits for longer than that works."""
        busiest = max(self.seconds, key=lambda name: self.seconds[name], default="launch")
        return "latency" if self.waiting > self.seconds.get(busiest, 0.0) else busiest


@dataclass(frozen=True, slots=True)
class ProgramWork:
    """Work of one Triton program: bytes, seconds on a multiprocessor of its own by unit, and what it takes with nothing beside it.

    `arithmetic_alone` are the seconds of its arithmetic with the warps it has, `waits` those of its round trips to memory. It does not
    wait for `written_bytes`; `hidden` is the part of the rest that a software pipeline overlaps with its products, 0 to 1.
    """

    dram_bytes: float
    l2_bytes: float
    unit_seconds: Mapping[str, float]
    arithmetic_alone: float
    product_seconds: float
    waits: float
    written_bytes: float
    hidden: float


def product_rate(dtype: str, sheet: Datasheet) -> tuple[str, float]:
    """Unit (`fp32` or `tensor_core`) and peak operations a second of a product whose operands are of this type."""
    name = dtype
    while name != "fp32" and name not in sheet.tensor_flops_per_second:
        name = k.WIDER_DTYPE.get(name, "fp32")
    if name == "fp32":
        return "fp32", sheet.fp32_flops_per_second
    return "tensor_core", sheet.tensor_flops_per_second[name]


def triton_times(
    traffic: Traffic, resources: Resources, resident: Occupancy, sheet: Datasheet, dtype: str, cached_bytes: float = 0.0
) -> Times:
    """Times of a whole Triton launch: full waves of resident programs, then the tail with what is left.

    `cached_bytes` of its reads are in the L2 already. `dtype` is the type of its products.
    """
    blocks = traffic.programs * resources.ctas
    if blocks == 0:
        return Times({})
    work = program_work(traffic, resources, resident, sheet, dtype, cached_bytes)
    slots = sheet.multiprocessors * resident.programs
    waves, tail = divmod(blocks, slots)
    parts = [(waves, _wave(work, slots, sheet))] if waves else []
    parts += [(1, _wave(work, tail, sheet))] if tail else []
    names = {name: None for _, part in parts for name in part.seconds}
    seconds = {name: sum(count * part.seconds[name] for count, part in parts) for name in names}
    total = sum(count * part.total for count, part in parts)
    return Times(seconds, total - max(seconds.values()))


def program_work(
    traffic: Traffic, resources: Resources, resident: Occupancy, sheet: Datasheet, dtype: str, cached_bytes: float
) -> ProgramWork:
    """The launch's work divided by its programs; spills are L2 traffic, and reach device memory if the L2 cannot hold them."""
    blocks = traffic.programs * resources.ctas
    threads = resources.warps * sheet.multiprocessor.lanes_per_warp
    moved = traffic.dram_read_bytes + traffic.dram_write_bytes
    requested = max(traffic.l2_bytes, moved)
    dram = moved - min(cached_bytes, traffic.dram_read_bytes)
    iterations = traffic.loop_iterations / traffic.programs
    spilled = k.SPILL_ACCESSES * resources.spill_bytes * threads * (1.0 + max(1.0, iterations))
    held = resources.spill_bytes * threads * min(blocks, resident.programs * sheet.multiprocessors)
    dram += blocks * spilled if held > sheet.l2_bytes * k.L2_RESIDENT_SHARE else 0.0
    product, units = _unit_seconds(traffic, resources, sheet, dtype)
    stages = _stages(traffic, resources, dtype) if product else 1.0
    idle = max(1.0, sheet.multiprocessor.partitions / resources.warps)
    lone = max(1.0, k.SERIAL_WARPS * (k.EPILOGUE_SERIAL if product else 1.0) / resources.warps)
    return ProgramWork(
        dram_bytes=dram / blocks,
        l2_bytes=requested / blocks + spilled,
        unit_seconds=units,
        arithmetic_alone=product * idle + lone * (sum(units.values()) - product),
        product_seconds=product * idle,
        waits=_trip_seconds(traffic, resources, sheet, dram) / max(1.0, stages - 1.0),
        written_bytes=traffic.dram_write_bytes / blocks,
        hidden=1.0 if stages >= 2.0 else 0.0,
    )


def _stages(traffic: Traffic, resources: Resources, dtype: str) -> float:
    """Iterations of a product's loop that are under way at a time: as many as the compiler was asked for and as the loop has."""
    iterations = traffic.loop_iterations / traffic.programs
    _, tiles = _results(traffic, resources, dtype)
    # The loop over tiles is no pipeline, and takes one iteration a tile itself.
    return min(float(resources.stages), iterations if tiles == 1.0 else iterations / tiles - 1.0)


def _trip_seconds(traffic: Traffic, resources: Resources, sheet: Datasheet, dram_bytes: float) -> float:
    """Seconds of one program's trips to memory one after the other: one an iteration, and more if its loads do not fit into registers."""
    blocks = traffic.programs * resources.ctas
    threads = resources.warps * sheet.multiprocessor.lanes_per_warp
    product = traffic.flops_fp32_dot + traffic.flops_tensor_core
    in_flight = threads * max(resources.registers, 16) * 4 * k.REGISTERS_IN_FLIGHT_SHARE + resources.shared_bytes
    asked = max(traffic.l2_bytes, dram_bytes) / blocks / (threads * k.ACCESS_BYTES)
    fetched = max(dram_bytes - traffic.dram_write_bytes, 0.0) / blocks
    trips = max(min(1.0 + traffic.loop_iterations / traffic.programs, max(1.0, asked)), fetched / in_flight)
    far = min(trips, max(1.0, fetched / (threads * k.VECTOR_BYTES)))
    # A reduction over the warps meets in shared memory in every iteration, which takes about as long as a trip to the L2.
    met = traffic.loop_iterations / traffic.programs if resources.shared_bytes and not product else 0.0
    return sheet.dram_latency_s * (k.L2_LATENCY_SHARE * (trips + met) + (1.0 - k.L2_LATENCY_SHARE) * far)


def library_times(kernel: DeviceKernel, sheet: Datasheet, dtype: str, cached_bytes: float = 0.0) -> Times:
    """Times of a kernel of a library or of torch.compile; `dtype` is the type of its products and the class's element."""
    rereads = _reread_level(kernel, sheet)
    requested = kernel.bytes_read + kernel.bytes_written
    dram = requested - min(cached_bytes, kernel.bytes_read) + (kernel.reread_bytes if rereads == "dram" else 0.0)
    l2 = requested + (kernel.reread_bytes if rereads in ("l2", "dram") else 0.0)
    busy = min(kernel.blocks or sheet.multiprocessors, sheet.multiprocessors)
    in_flight = min(dram, k.LIBRARY_BYTES_IN_FLIGHT * busy, k.LIBRARY_BLOCK_BYTES_IN_FLIGHT * (kernel.blocks or math.inf))
    latency = dram * sheet.dram_latency_s / in_flight if dram else 0.0
    seconds = {
        "dram": math.hypot(dram / (sheet.dram_bytes_per_second * k.DRAM_SHARE * kernel.memory_share), latency),
        "l2": l2 / min(sheet.l2_bytes_per_second * k.L2_SHARE, busy * k.L2_BYTES_PER_CLOCK * sheet.clock_hz),
        "special_functions": kernel.special_functions / (sheet.special_functions_per_second * k.SPECIAL_SHARE),
    }
    unit, rate = _library_rate(kernel, sheet, dtype)
    exposed = 1.0 / max(1.0, _inner(kernel, dtype) / k.LIBRARY_STEP) if kernel.kind is Kind.PRODUCT else 0.0
    shorter = min(max(seconds["dram"], seconds["l2"]), max(kernel.flops / rate, seconds["special_functions"]))
    return Times({**seconds, unit: kernel.flops / rate}, exposed * shorter)


def _library_rate(kernel: DeviceKernel, sheet: Datasheet, dtype: str) -> tuple[str, float]:
    if kernel.kind not in _LIBRARY_SHARES:
        return "fp32", sheet.fp32_flops_per_second * k.FP32_SHARE
    unit, peak = product_rate(dtype, sheet)
    share = k.FP32_DOT_SHARE_LIBRARY if unit == "fp32" else k.TENSOR_SHARE_LIBRARY
    tiles = _elements(kernel, dtype) / k.LIBRARY_TILE**2 * max(1.0, _inner(kernel, dtype) / k.LIBRARY_SPLIT)
    fill = min(1.0, max(tiles, 1.0) / sheet.multiprocessors)
    return unit, peak * share * _LIBRARY_SHARES[kernel.kind] * fill


def _elements(kernel: DeviceKernel, dtype: str) -> float:
    return max(kernel.bytes_written / k.OPERAND_BYTES.get(dtype, 4), 1.0)


def _inner(kernel: DeviceKernel, dtype: str) -> float:
    """Inner dimension of a library's product."""
    return kernel.flops / (2.0 * _elements(kernel, dtype))


def _reread_level(kernel: DeviceKernel, sheet: Datasheet) -> str:
    rows = k.ROWS_IN_FLIGHT * kernel.row_bytes
    if rows <= sheet.multiprocessor.shared_bytes * k.L1_RESIDENT_SHARE:
        return "l1"
    return "l2" if rows * sheet.multiprocessors <= sheet.l2_bytes * k.L2_RESIDENT_SHARE else "dram"


def _unit_seconds(traffic: Traffic, resources: Resources, sheet: Datasheet, dtype: str) -> tuple[float, dict[str, float]]:
    """Seconds of one program's products, and of all its arithmetic by unit, on a multiprocessor with enough warps."""
    blocks = traffic.programs * resources.ctas
    per_program = sheet.multiprocessors / blocks
    unit, peak = product_rate(dtype, sheet)
    ordinary = sheet.fp32_flops_per_second
    results, _ = _results(traffic, resources, dtype)
    dot_share = _ordinary_product_share(results / (resources.warps * sheet.multiprocessor.lanes_per_warp))
    few_warps = k.FEW_WARPS_SHARE if resources.warps < sheet.warps_for_full_tensor_rate else 1.0
    share = dot_share if unit == "fp32" else k.TENSOR_SHARE_TRITON * few_warps
    products = {"fp32": traffic.flops_fp32_dot / (ordinary * dot_share)}
    products[unit] = products.get(unit, 0.0) + traffic.flops_tensor_core / (peak * share)
    seconds = {
        "fp32": (traffic.flops_fp32 - traffic.flops_fp32_dot) / (ordinary * k.FP32_SHARE),
        "special_functions": traffic.special_functions / (sheet.special_functions_per_second * k.SPECIAL_SHARE),
        "atomics": traffic.atomics / (k.ATOMICS_PER_CLOCK * sheet.clock_hz * sheet.multiprocessors),
    }
    for name, value in products.items():
        seconds[name] = seconds.get(name, 0.0) + value
    return sum(products.values()) * per_program, {name: value * per_program for name, value in seconds.items()}


def _results(traffic: Traffic, resources: Resources, dtype: str) -> tuple[float, float]:
    """Results of a product that a program keeps at a time, and how many such tiles it computes in turn."""
    element_bytes = k.OPERAND_BYTES.get(dtype, 4)
    written = max(traffic.dram_write_bytes / element_bytes, traffic.atomics, 1.0) / (traffic.programs * resources.ctas)
    beside = traffic.dram_write_bytes + min(traffic.dram_read_bytes, traffic.dram_write_bytes)
    operands = (traffic.l2_bytes - beside) / element_bytes
    # Operations ÷ operands are the harmonic mean of a tile's edges.
    edge = (traffic.flops_fp32_dot + traffic.flops_tensor_core) / max(operands, 1.0)
    tile = max(1.0, edge**2)
    return (math.sqrt(written * tile), 1.0) if tile < written <= k.OBLONG_TILE * tile else (min(written, tile), max(1.0, written / tile))


def _ordinary_product_share(results_per_thread: float) -> float:
    """Share of the fp32 peak that a Triton product without tensor cores reaches."""
    return k.FP32_DOT_SHARE_TRITON * results_per_thread / (results_per_thread + k.FP32_DOT_HALF_RESULTS)


def _wave(work: ProgramWork, programs: int, sheet: Datasheet) -> Times:
    """Times of programs that are resident at the same time, as many on each multiprocessor as on the fullest."""
    busy = min(programs, sheet.multiprocessors)
    depth = -(-programs // sheet.multiprocessors)
    ports = busy * k.L2_BYTES_PER_CLOCK * sheet.clock_hz
    dram_rate = sheet.dram_bytes_per_second * k.DRAM_SHARE / busy
    l2_rate = min(sheet.l2_bytes_per_second * k.L2_SHARE, ports) / busy
    demand = {
        "dram": work.dram_bytes / dram_rate,
        "l2": work.l2_bytes / l2_rate,
        "program_starts": busy / (k.PROGRAM_STARTS_PER_CLOCK * sheet.clock_hz),
        **work.unit_seconds,
    }
    longest = max(demand.values())
    memory = work.waits + max((work.dram_bytes - work.written_bytes) / dram_rate, (work.l2_bytes - work.written_bytes) / l2_rate)
    alone = work.arithmetic_alone + memory - work.hidden * min(memory, work.product_seconds)
    total = _queued(depth, longest, max(0.0, alone - longest))
    return Times({name: depth * value for name, value in demand.items()}, max(0.0, total - depth * longest))


def _queued(programs: int, service: float, elsewhere: float) -> float:
    """Seconds that programs on one multiprocessor take together if each needs one shared resource for `service` and other things meanwhile.

    Mean value analysis of a closed queue: one program takes the sum, many take `service` each, and few are in between.
    """
    waiting = cycle = 0.0
    for count in range(1, programs + 1):
        response = service * (1.0 + waiting)
        cycle = response + elsewhere
        waiting = count * response / cycle if cycle else 0.0
    return cycle
