"""Operator calls as the loops that torch.compile would see: pointwise loops, row reductions, and calls it leaves to libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adaexplore_evaluator.devices.cpu import operator_names as names
from adaexplore_evaluator.devices.cpu.graph import (
    Call,
    Graph,
    Value,
    has_bias,
    kernels_of,
    launches_nothing,
    reduces_inner_axes,
    row_elements,
)
from adaexplore_evaluator.devices.cpu.operators import DeviceKernel, Kind, base_name, kind_of, special_functions_per_element


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop nest: over `elements`, or a reduction of `rows` rows of `row_elements` each; `library` is set where it is a library call.

    `realizes_inputs` marks loops that read each input element several times, so that what makes them is stored first.
    """

    inputs: tuple[str, ...]
    results: tuple[str, ...]
    elements: int
    rows: int = 0
    row_elements: int = 0
    inner: bool = True
    flops: float = 0.0
    special_functions: float = 0.0
    realizes_inputs: bool = False
    library: DeviceKernel | None = None

    @property
    def reduces(self) -> bool:
        """True for a reduction over rows."""
        return self.rows > 0


@dataclass(slots=True)
class Lowering:
    """The loops of a graph in order, the values they name (temporaries included) and the value behind each view."""

    values: dict[str, Value]
    loops: list[Loop] = field(default_factory=list)
    roots: dict[str, str] = field(default_factory=dict)

    def root(self, name: str) -> str:
        """Name of the stored value that a view looks at."""
        while name in self.roots:
            name = self.roots[name]
        return name


def lower(graph: Graph) -> Lowering:
    """The graph's loops, without those whose results nobody uses."""
    lowering = Lowering(values=dict(graph.values))
    for call in graph.calls:
        if launches_nothing(call):
            _alias(call, lowering)
        else:
            lowering.loops.extend(_loops_of(call, lowering.values))
    lowering.loops = _used(lowering, graph.outputs)
    return lowering


def _alias(call: Call, lowering: Lowering) -> None:
    if not call.inputs:
        return
    pairwise = len(call.inputs) == len(call.results)
    for index, result in enumerate(call.results):
        source = call.inputs[index] if pairwise else call.inputs[0]
        if result != source:
            lowering.roots[result] = source


def _used(lowering: Lowering, outputs: tuple[str, ...]) -> list[Loop]:
    wanted = {lowering.root(name) for name in outputs}
    kept = []
    for loop in reversed(lowering.loops):
        if wanted.intersection(loop.results):
            kept.append(loop)
            wanted.update(lowering.root(name) for name in loop.inputs)
    return kept[::-1]


def _loops_of(call: Call, values: dict[str, Value]) -> list[Loop]:
    kind, name = kind_of(call.operator), base_name(call.operator)
    if kind is Kind.CONVOLUTION:
        return _convolution(call, values)
    if kind in (Kind.PRODUCT, Kind.ATTENTION, Kind.OTHER) or name in names.SCANS:
        return [_library(call, values, kernels_of(call, values)[0])]
    if kind is Kind.REDUCTION:
        return _reduction(call, name, values)
    return [_pointwise(call, values, realizes_inputs=kind is Kind.WINDOW)]


def _pointwise(call: Call, values: Mapping[str, Value], *, realizes_inputs: bool = False) -> Loop:
    elements = max((values[name].elements for name in call.results), default=1)
    special = special_functions_per_element(call.operator) * elements
    return Loop(call.inputs, call.results, elements, flops=call.flops, special_functions=special, realizes_inputs=realizes_inputs)


def _library(call: Call, values: Mapping[str, Value], kernel: DeviceKernel) -> Loop:
    elements = max((values[name].elements for name in call.results), default=1)
    return Loop(call.inputs, call.results, elements, library=kernel)


def _convolution(call: Call, values: dict[str, Value]) -> list[Loop]:
    kernel = kernels_of(call, values)[0]
    if not has_bias(call):
        return [_library(call, values, kernel)]
    result = call.results[0]
    raw = _temporary(values, result, "product", values[result].shape, values[result].element_bytes)
    elements = values[result].elements
    return [
        Loop(call.inputs[:2], (raw,), elements, library=kernel),
        Loop((raw, *call.inputs[2:3]), call.results, elements),
    ]


def _reduction(call: Call, name: str, values: dict[str, Value]) -> list[Loop]:
    if name in names.NORMS and all(kernel.kind is Kind.POINTWISE for kernel in kernels_of(call, values)):
        return [_pointwise(call, values)]
    if name in names.LOSSES:
        return _loss(call, values)
    source = values[call.inputs[0]]
    row = row_elements(call, values)
    rows = max(source.elements // row, 1)
    inner = reduces_inner_axes(call, values)
    special = special_functions_per_element(call.operator) * source.elements

    def reduce(inputs: tuple[str, ...], results: tuple[str, ...], flops: float = 0.0, special_functions: float = 0.0) -> Loop:
        return Loop(inputs, results, source.elements, rows, row, inner, flops, special_functions)

    if name in names.NORMS or "softmax" in name:
        statistic = _temporary(values, call.results[0], "statistic", (rows,))
        return [
            reduce(call.inputs[:1], (statistic,), call.flops, special),
            Loop((*call.inputs, statistic), call.results, source.elements),
        ]
    if name == "logsumexp":
        maximum = _temporary(values, call.results[0], "maximum", (rows,))
        return [reduce(call.inputs, (maximum,)), reduce((*call.inputs, maximum), call.results, call.flops, special)]
    if name == "cross_entropy_loss":
        losses = _temporary(values, call.results[0], "losses", (rows,))
        return [
            reduce(call.inputs, (losses,), call.flops, special),
            Loop((losses,), call.results, rows, rows=1, row_elements=rows),
        ]
    return [reduce(call.inputs, call.results, call.flops, special)]


def _loss(call: Call, values: dict[str, Value]) -> list[Loop]:
    source, result = values[call.inputs[0]], values[call.results[0]]
    terms = _temporary(values, call.results[0], "terms", source.shape, source.element_bytes)
    special = special_functions_per_element(call.operator) * source.elements
    pointwise = Loop(call.inputs, (terms,), source.elements, flops=call.flops, special_functions=special)
    if result.elements == source.elements:
        return [Loop(call.inputs, call.results, source.elements, flops=call.flops, special_functions=special)]
    row = max(source.elements // max(result.elements, 1), 1)
    return [pointwise, Loop((terms,), call.results, source.elements, rows=max(result.elements, 1), row_elements=row)]


def _temporary(values: dict[str, Value], result: str, what: str, shape: tuple[int, ...], element_bytes: int = 4) -> str:
    name = f"{result}#{what}"
    values[name] = Value(name=name, shape=shape, element_bytes=element_bytes, computed=True)
    return name
