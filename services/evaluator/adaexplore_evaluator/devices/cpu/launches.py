"""What the estimate is told about the launches of one call: Triton kernels with counted traffic, and library operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class MalformedLaunchError(ValueError):
    """A launch record lacks a field, has a negative count or is of an unknown kind."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the compiler reports for one Triton kernel: registers and spilled bytes a thread, shared bytes and warps a program.

    `stages` is how many iterations of a loop with products are under way at a time.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int
    warps: int
    ctas: int = 1
    stages: int = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Work of one whole Triton launch at full shape, summed over its programs.

    `dram_*_bytes` reach device memory, re-reads that the L2 cannot keep included; `l2_bytes` are all bytes that loads and stores ask
    for. Multiplications and additions count as one operation each. `flops_fp32` includes products without tensor cores (`ieee`), whose
    part is `flops_fp32_dot`. `tensor_core_dtype` names the operand type of `flops_tensor_core`: `tf32`, `bf16`, `fp16`, `fp8` or `int8`.
    `loop_iterations` are those of all loops.
    """

    programs: int
    dram_read_bytes: float = 0.0
    dram_write_bytes: float = 0.0
    l2_bytes: float = 0.0
    flops_fp32: float = 0.0
    flops_fp32_dot: float = 0.0
    flops_tensor_core: float = 0.0
    tensor_core_dtype: str = ""
    special_functions: float = 0.0
    atomics: float = 0.0
    loop_iterations: float = 0.0


@dataclass(frozen=True, slots=True)
class TritonLaunch:
    """One launch of a Triton kernel; `traffic` is None when its programs could not be counted."""

    name: str
    grid: tuple[int, ...]
    resources: Resources | None
    traffic: Traffic | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class OperatorLaunch:
    """One call of a library operator with the bytes of its operands and results and its operations."""

    name: str
    bytes_read: float
    bytes_written: float
    flops: float
    view: bool = False
    count: int = 1


Launch = TritonLaunch | OperatorLaunch


def parse_launch(record: Mapping[str, Any]) -> Launch:
    """A launch from the runner's LAUNCH record; raises MalformedLaunchError."""
    try:
        kind = record["kind"]
        if kind == "triton":
            return _parse_triton(record)
        if kind == "operator":
            return _parse_operator(record)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, MalformedLaunchError):
            raise
        raise MalformedLaunchError(f"launch record of {record.get('name', '?')!r} is malformed: {error!r}") from error
    raise MalformedLaunchError(f"unknown kind of launch {kind!r}; known: triton, operator")


def _number(record: Mapping[str, Any], key: str, default: float = 0.0) -> float:
    value = float(record.get(key) or default)
    if not math.isfinite(value) or value < 0:
        raise MalformedLaunchError(f"{key} must be a finite number of at least 0, not {value}")
    return value


def _count(record: Mapping[str, Any], key: str, default: int, at_least: int) -> int:
    value = record.get(key)
    number = default if value is None else int(value)
    if number < at_least:
        raise MalformedLaunchError(f"{key} must be at least {at_least}, not {number}")
    return number


def _parse_operator(record: Mapping[str, Any]) -> OperatorLaunch:
    return OperatorLaunch(
        name=str(record["name"]),
        bytes_read=_number(record, "bytes_read"),
        bytes_written=_number(record, "bytes_written"),
        flops=_number(record, "flops"),
        view=bool(record.get("view", False)),
        count=_count(record, "count", 1, 1),
    )


def _parse_triton(record: Mapping[str, Any]) -> TritonLaunch:
    grid = tuple(int(extent) for extent in record.get("grid") or (1,))
    resources, traffic = record.get("resources"), record.get("traffic")
    return TritonLaunch(
        name=str(record["name"]),
        grid=grid,
        resources=None if resources is None else _parse_resources(resources, record),
        traffic=None if traffic is None else _parse_traffic(traffic, grid),
        count=_count(record, "count", 1, 1),
    )


def _parse_resources(resources: Mapping[str, Any], record: Mapping[str, Any]) -> Resources:
    warps = resources.get("num_warps")
    return Resources(
        registers=_count(resources, "registers", 0, 0),
        spill_bytes=_count(resources, "spill_bytes", 0, 0),
        shared_bytes=_count(resources, "shared_bytes", 0, 0),
        warps=_count({"num_warps": record.get("num_warps") if warps is None else warps}, "num_warps", 4, 1),
        ctas=_count(resources, "num_ctas", 1, 1),
        stages=max(1, _count(record, "num_stages", 1, 0)),
    )


def _parse_traffic(traffic: Mapping[str, Any], grid: tuple[int, ...]) -> Traffic | None:
    programs = _count(traffic, "programs", math.prod(grid), 0)
    sampled = traffic.get("sampled_programs")
    if programs > 0 and sampled is not None and int(sampled) == 0:
        return None
    return Traffic(
        programs=programs,
        dram_read_bytes=_number(traffic, "dram_read_bytes"),
        dram_write_bytes=_number(traffic, "dram_write_bytes"),
        l2_bytes=_number(traffic, "l2_bytes"),
        flops_fp32=_number(traffic, "flops_fp32"),
        flops_fp32_dot=min(_number(traffic, "flops_fp32_dot"), _number(traffic, "flops_fp32")),
        flops_tensor_core=_number(traffic, "flops_tensor_core"),
        tensor_core_dtype=str(traffic.get("tensor_core_dtype") or ""),
        special_functions=_number(traffic, "special_functions"),
        atomics=_number(traffic, "atomics"),
        loop_iterations=_number(traffic, "loop_iterations"),
    )
