"""Estimated latency of one call: the launches in order, each its launch cost plus its slowest resource.

Baselines and candidates go through the same functions. Every figure is an estimate; docs/estimate.md says what it cannot know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adaexplore_evaluator.devices.cpu import constants as k
from adaexplore_evaluator.devices.cpu.datasheet import Datasheet, datasheet
from adaexplore_evaluator.devices.cpu.graph import Call, Graph, kernels_of, parse_graph
from adaexplore_evaluator.devices.cpu.launches import Launch, OperatorLaunch, TritonLaunch, parse_launch
from adaexplore_evaluator.devices.cpu.occupancy import DoesNotFitError, occupancy
from adaexplore_evaluator.devices.cpu.operators import PRODUCTS, DeviceKernel, Kind, eager_kernels, is_view, kind_of, product_dtype
from adaexplore_evaluator.devices.cpu.roofline import Times, library_times, triton_times

# How far the bytes of a candidate's torch call may be from those of a call of the task to count as the same call.
_SAME_CALL_TOLERANCE = 0.02

RESOURCES: Mapping[str, str] = {
    "dram": "device memory bandwidth",
    "l2": "L2 bandwidth",
    "fp32": "fp32 arithmetic",
    "tensor_core": "tensor cores",
    "special_functions": "special functions",
    "atomics": "atomic updates",
    "program_starts": "the rate at which programs start",
    "latency": "latency that too few warps hide",
    "launch": "launch cost",
}


@dataclass(frozen=True, slots=True)
class LaunchEstimate:
    """What the model makes of one launch; latencies in microseconds for one occurrence, occupancy 0 to 1.

    `product_flops` are the part of `flops` in matrix products. Compiler figures and occupancy are None for an operator, `latency_us` is
    None where the model lacks figures; `problem` says which.
    """

    name: str
    grid: tuple[int, ...]
    count: int
    device_kernels: int
    dram_bytes: float
    flops: float
    latency_us: float | None
    bound_by: str
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    warps: int | None = None
    occupancy: float | None = None
    problem: str = ""
    product_flops: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated latency of one call in microseconds (None if a launch has none), its launches and one sentence about it."""

    target: str
    median_us: float | None
    device_kernels: int
    launches: tuple[LaunchEstimate, ...]
    explanation: str


@dataclass(frozen=True, slots=True)
class _Trail:
    """What the launch before left in the L2."""

    written_bytes: float = 0.0
    footprint_bytes: float = 0.0

    def cached(self, sheet: Datasheet) -> float:
        return self.written_bytes if self.footprint_bytes <= sheet.l2_bytes * k.L2_RESIDENT_SHARE else 0.0


def estimate_candidate(
    launches: Sequence[Mapping[str, Any]], *, target: str, precision: str, graph: Mapping[str, Any] | None = None
) -> Estimate:
    """Estimate of a candidate's call from the runner's LAUNCH records at full shape.

    `graph` is the task's operator graph: torch calls that the candidate shares with the task then cost what they cost there. Raises
    UnknownTargetError, MalformedLaunchError and MalformedGraphError.
    """
    parsed = None if graph is None else parse_graph(graph)
    return estimate_launches([parse_launch(record) for record in launches], datasheet(target), precision, parsed)


def estimate_launches(launches: Sequence[Launch], sheet: Datasheet, precision: str, graph: Graph | None = None) -> Estimate:
    """Estimate of launches in order; operators are split into the kernels that eager PyTorch launches."""
    dtype = product_dtype(precision)
    trail, reports = _Trail(), []
    for launch in launches:
        if isinstance(launch, TritonLaunch):
            report, trail = _estimate_triton(launch, sheet, dtype, trail)
        else:
            report, trail = _estimate_operator(launch, sheet, dtype, trail, graph)
        reports.append(report)
    return _total(tuple(reports), sheet)


def estimate_kernels(kernels: Iterable[DeviceKernel], sheet: Datasheet, precision: str) -> Estimate:
    """Estimate of library kernels in order, one launch each."""
    dtype = product_dtype(precision)
    trail, reports = _Trail(), []
    for kernel in kernels:
        times, trail = _library_step(kernel, sheet, dtype, trail)
        reports.append(_kernel_report(kernel, times, sheet))
    return _total(tuple(reports), sheet)


def _estimate_triton(launch: TritonLaunch, sheet: Datasheet, precision_dtype: str, trail: _Trail) -> tuple[LaunchEstimate, _Trail]:
    if launch.traffic is None or launch.resources is None:
        missing = "traffic" if launch.traffic is None else "compiled resources"
        return _unknown(launch, f"the {missing} of kernel {launch.name} could not be determined"), _Trail()
    traffic, resources = launch.traffic, launch.resources
    dtype = product_dtype(traffic.tensor_core_dtype) if traffic.tensor_core_dtype else precision_dtype
    try:
        resident = occupancy(resources, sheet.multiprocessor)
    except DoesNotFitError as error:
        return _unknown(launch, f"kernel {launch.name} does not fit: {error}"), _Trail()
    times = triton_times(traffic, resources, resident, sheet, dtype, trail.cached(sheet))
    moved = traffic.dram_read_bytes + traffic.dram_write_bytes
    report = LaunchEstimate(
        name=launch.name,
        grid=launch.grid,
        count=launch.count,
        device_kernels=1,
        dram_bytes=moved,
        flops=traffic.flops_fp32 + traffic.flops_tensor_core,
        latency_us=sheet.launch_us + 1e6 * times.total,
        bound_by=_bound_by(times, sheet),
        registers=resources.registers,
        spill_bytes=resources.spill_bytes,
        shared_bytes=resources.shared_bytes,
        warps=resources.warps,
        occupancy=resident.share,
        product_flops=traffic.flops_fp32_dot + traffic.flops_tensor_core,
    )
    return report, _Trail(traffic.dram_write_bytes, moved)


def _unknown(launch: TritonLaunch, problem: str) -> LaunchEstimate:
    resources, traffic = launch.resources, launch.traffic
    return LaunchEstimate(
        name=launch.name,
        grid=launch.grid,
        count=launch.count,
        device_kernels=1,
        dram_bytes=traffic.dram_read_bytes + traffic.dram_write_bytes if traffic else 0.0,
        flops=traffic.flops_fp32 + traffic.flops_tensor_core if traffic else 0.0,
        latency_us=None,
        bound_by="",
        registers=resources.registers if resources else None,
        spill_bytes=resources.spill_bytes if resources else None,
        shared_bytes=resources.shared_bytes if resources else None,
        warps=resources.warps if resources else None,
        problem=problem,
        product_flops=traffic.flops_fp32_dot + traffic.flops_tensor_core if traffic else 0.0,
    )


def _estimate_operator(
    launch: OperatorLaunch, sheet: Datasheet, dtype: str, trail: _Trail, graph: Graph | None
) -> tuple[LaunchEstimate, _Trail]:
    kernels = () if launch.view else _kernels_of_launch(launch, dtype, graph)
    latency_us, reports = 0.0, []
    for kernel in kernels:
        times, trail = _library_step(kernel, sheet, dtype, trail)
        reports.append(_kernel_report(kernel, times, sheet))
        latency_us += sheet.launch_us + 1e6 * times.total
    longest = max(reports, key=lambda report: report.latency_us or 0.0, default=None)
    report = LaunchEstimate(
        name=launch.name,
        grid=(),
        count=launch.count,
        device_kernels=len(kernels),
        dram_bytes=sum(report.dram_bytes for report in reports),
        flops=launch.flops,
        latency_us=latency_us,
        bound_by=longest.bound_by if longest else "launch",
        product_flops=launch.flops if kind_of(launch.name) in PRODUCTS else 0.0,
    )
    return report, trail


def _kernels_of_launch(launch: OperatorLaunch, dtype: str, graph: Graph | None) -> tuple[DeviceKernel, ...]:
    if is_view(launch.name, launch.bytes_written):
        return ()
    kind = kind_of(launch.name)
    calls = [
        call for call in (graph.calls if graph else ()) if kind_of(call.operator) is kind and _close(call.bytes_read, launch.bytes_read)
    ]
    row_bytes = 0.0
    for call in calls:
        kernels = kernels_of(call, graph.values if graph else {})
        if kernels and _close(call.bytes_written, launch.bytes_written):
            return (replace(kernels[0], flops=launch.flops), *kernels[1:])
        row_bytes = max([row_bytes, *(kernel.row_bytes for kernel in kernels)])
    element_bytes = k.OPERAND_BYTES.get(dtype, 4)
    row_bytes = row_bytes if kind is Kind.REDUCTION else 0.0
    return eager_kernels(
        launch.name, launch.bytes_read, launch.bytes_written, launch.flops, row_bytes=row_bytes, element_bytes=element_bytes
    )


def _close(left: float, right: float) -> bool:
    return abs(left - right) <= _SAME_CALL_TOLERANCE * max(left, right)


def _library_step(kernel: DeviceKernel, sheet: Datasheet, dtype: str, trail: _Trail) -> tuple[Times, _Trail]:
    times = library_times(kernel, sheet, dtype, trail.cached(sheet))
    return times, _Trail(kernel.bytes_written, kernel.bytes_read + kernel.bytes_written)


def _kernel_report(kernel: DeviceKernel, times: Times, sheet: Datasheet) -> LaunchEstimate:
    return LaunchEstimate(
        name=kernel.name,
        grid=(),
        count=1,
        device_kernels=1,
        dram_bytes=kernel.bytes_read + kernel.bytes_written,
        flops=kernel.flops,
        latency_us=sheet.launch_us + 1e6 * times.total,
        bound_by=_bound_by(times, sheet),
        product_flops=kernel.flops if kernel.kind in PRODUCTS else 0.0,
    )


def _bound_by(times: Times, sheet: Datasheet) -> str:
    return "launch" if sheet.launch_us >= 1e6 * times.total else times.bound_by


def _total(reports: tuple[LaunchEstimate, ...], sheet: Datasheet) -> Estimate:
    kernels = sum(report.count * report.device_kernels for report in reports)
    problems = [report.problem for report in reports if report.latency_us is None]
    total = None if problems else sum(report.count * (report.latency_us or 0.0) for report in reports)
    sentence = f"No estimate: {problems[0]}." if problems else _explain(reports, total or 0.0, kernels, sheet)
    return Estimate(target=sheet.target, median_us=total, device_kernels=kernels, launches=reports, explanation=sentence)


def _explain(reports: Sequence[LaunchEstimate], total_us: float, kernels: int, sheet: Datasheet) -> str:
    if kernels == 0:
        return f"Estimated for {sheet.device_name}: nothing is launched."
    slowest = max(reports, key=lambda report: report.count * (report.latency_us or 0.0))
    share = slowest.count * (slowest.latency_us or 0.0) / total_us
    words = RESOURCES.get(slowest.bound_by, slowest.bound_by)
    launches = "1 launch" if kernels == 1 else f"{kernels} launches"
    return (
        f"Estimated for {sheet.device_name}, not measured: {total_us:.1f} µs in {launches}; "
        f"{slowest.name} takes {share:.0%} and is bound by {words}."
    )


def calls_as_kernels(calls: Iterable[Call], graph: Graph) -> tuple[DeviceKernel, ...]:
    """Device kernels of calls in eager mode, in order."""
    return tuple(kernel for call in calls for kernel in kernels_of(call, graph.values))
