"""The roofline of a task: the least time in which its bytes and its operations can be done at given ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adaexplore_evaluator.devices.cpu import constants as k
from adaexplore_evaluator.devices.cpu.datasheet import datasheet
from adaexplore_evaluator.devices.cpu.graph import parse_graph
from adaexplore_evaluator.devices.cpu.operators import PRODUCTS, kind_of, product_dtype
from adaexplore_evaluator.devices.cpu.roofline import product_rate


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a device reaches, a second: bytes from and to its memory, operations of products in a class, and of all else in float32."""

    bytes_per_second: float
    product_flops_per_second: float
    other_flops_per_second: float


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes from and to device memory, operations in products, and all other operations."""

    bytes: float
    product_flops: float
    other_flops: float

    def least_s(self, ceilings: Ceilings) -> float:
        """Seconds that it takes at least: its parts are done beside each other."""
        return max(
            self.bytes / ceilings.bytes_per_second,
            self.product_flops / ceilings.product_flops_per_second,
            self.other_flops / ceilings.other_flops_per_second,
        )


def least_work(graph: Mapping[str, Any]) -> Work:
    """What the operations of a graph need at least.

    Every input, parameter and buffer that is used is read once, every output is written once, and what lies between never leaves the chip.
    An algebraically equal computation with fewer operations may take less.

    Raises:
        MalformedGraphError: The graph is none.

    """
    parsed = parse_graph(graph)
    used = {name for call in parsed.calls for name in call.inputs}
    moved = sum(value.bytes for name, value in parsed.values.items() if name in used and not value.computed)
    moved += sum(parsed.values[name].bytes for name in set(parsed.outputs) if parsed.values[name].computed)
    products = sum(call.flops for call in parsed.calls if kind_of(call.operator) in PRODUCTS)
    return Work(moved, products, sum(call.flops for call in parsed.calls) - products)


def roofline_us(graph: Mapping[str, Any], ceilings: Ceilings) -> float:
    """Microseconds that the least work of a graph takes at least, 0 for a graph without any; raises as `least_work` does."""
    return 1e6 * least_work(graph).least_s(ceilings)


def datasheet_ceilings(target: str, precision: str) -> Ceilings:
    """What a target reaches without a device to ask: its datasheet's peaks by the shares of the latency model; UnknownTargetError."""
    sheet = datasheet(target)
    unit, peak = product_rate(product_dtype(precision), sheet)
    share = k.FP32_DOT_SHARE_LIBRARY if unit == "fp32" else k.TENSOR_SHARE_LIBRARY
    return Ceilings(sheet.dram_bytes_per_second * k.DRAM_SHARE, peak * share, sheet.fp32_flops_per_second * k.FP32_SHARE)
