"""The roofline of a task: the least time in which its bytes and its operations can be done at given ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adaexplore_evaluator.devices.cpu.graph import parse_graph
from adaexplore_evaluator.devices.cpu.operators import Kind, kind_of

_PRODUCTS = frozenset({Kind.PRODUCT, Kind.CONVOLUTION, Kind.ATTENTION})


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a device reaches, a second: bytes from and to its memory, operations of products in a class, and of all else in float32."""

    bytes_per_second: float
    product_flops_per_second: float
    other_flops_per_second: float


def roofline_us(graph: Mapping[str, Any], ceilings: Ceilings) -> float:
    """Microseconds that one call takes at least by the operations of its graph; 0 for a graph without any.

    Every input, parameter and buffer that is used is read once, every output is written once, and what lies between never leaves the chip.
    An algebraically equal computation with fewer operations may take less.

    Raises:
        MalformedGraphError: The graph is none.

    """
    parsed = parse_graph(graph)
    used = {name for call in parsed.calls for name in call.inputs}
    moved = sum(value.bytes for name, value in parsed.values.items() if name in used and not value.computed)
    moved += sum(parsed.values[name].bytes for name in set(parsed.outputs) if parsed.values[name].computed)
    products = sum(call.flops for call in parsed.calls if kind_of(call.operator) in _PRODUCTS)
    others = sum(call.flops for call in parsed.calls) - products
    return 1e6 * max(
        moved / ceilings.bytes_per_second, products / ceilings.product_flops_per_second, others / ceilings.other_flops_per_second
    )
