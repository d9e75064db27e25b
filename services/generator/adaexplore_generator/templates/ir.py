"""The intermediate form between ATen calls and kernels: tensors, element-wise maps, reductions, products and host calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from adaexplore_generator.graph import Argument, ValueKind

Dim = tuple[int, int]
"""One extent at the full and at the judged shape; equal dims are equal at both, so code that derives one from the other holds at both."""

Shape = tuple[Dim, ...]

ONE: Dim = (1, 1)

FLOATS = frozenset({"float32", "float16", "bfloat16"})


class UnsupportedError(Exception):
    """The graph asks for something that no template writes."""


@dataclass(frozen=True)
class Value:
    """One tensor; `state_name` is set for inputs, parameters and buffers, whose `kind` is not RESULT."""

    name: str
    shape: Shape
    dtype: str
    kind: ValueKind = ValueKind.RESULT
    state_name: str = ""


@dataclass(frozen=True)
class Extent:
    """Number of elements along some dims of a value, known at run time only."""

    value: str
    dims: tuple[int, ...]


Operand = str | float | Extent
"""Operand of a map: the name of a value, a constant, or an extent."""


@dataclass(frozen=True)
class Map:
    """Element-wise function with broadcasting."""

    out: str
    function: str
    args: tuple[Operand, ...]


@dataclass(frozen=True)
class Reduce:
    """Reduction over adjacent dims, which stay as extents of one; `softmax`, `logsumexp` and `moments` have two results."""

    outs: tuple[str, ...]
    kind: str
    arg: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Relabel:
    """The same elements with extents of one added or removed: dim i of the result is dim `axes[i]` of `arg`, or new."""

    out: str
    arg: str
    axes: tuple[int | None, ...]


@dataclass(frozen=True)
class Iota:
    """Index along dim `dim` in the shape of `like`."""

    out: str
    like: str
    dim: int


@dataclass(frozen=True)
class Product:
    """Matrix product of `left` (…, M, K) and `right`: (K, N), (N, K) if `right_transposed`, or (…, K, N) with the same leading dims."""

    out: str
    left: str
    right: str
    right_transposed: bool
    batched: bool


@dataclass(frozen=True)
class HostCall:
    """A call that stays in torch; integers that depend on the shape are pairs of what they are at the full and the judged shape."""

    outs: tuple[str, ...]
    operator: str
    args: tuple[Argument, ...]
    kwargs: Mapping[str, Argument]
    judged_args: tuple[Argument, ...]
    judged_kwargs: Mapping[str, Argument]
    effect: bool = False


Step = Map | Reduce | Relabel | Iota | Product | HostCall


@dataclass(frozen=True)
class Program:
    """A lowered graph: values by name, steps in order, names returned; `origins` says which call of the graph a result is a part of.

    `product_depths` are the lengths, at full shape, of the dimensions that the graph's matrix products sum over, in the graph's order,
    whether a kernel or the library computes them.
    """

    values: Mapping[str, Value]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    origins: Mapping[str, int]
    product_depths: tuple[int, ...] = ()


def results_of(step: Step) -> tuple[str, ...]:
    """Names of the values that a step makes."""
    return step.outs if isinstance(step, Reduce | HostCall) else (step.out,)


def tensors_in(argument: object) -> list[str]:
    """Names of the values that a host argument mentions, nested lists included."""
    name = getattr(argument, "name", None)
    if name is not None and type(argument).__name__ == "ValueRef":
        return [str(name)]
    if isinstance(argument, tuple):
        return [found for item in argument for found in tensors_in(item)]
    return []


def operands_of(step: Step) -> tuple[str, ...]:
    """Names of the values that a step reads, extents included."""
    if isinstance(step, Map):
        return tuple(arg.value if isinstance(arg, Extent) else arg for arg in step.args if isinstance(arg, str | Extent))
    if isinstance(step, Reduce | Relabel):
        return (step.arg,)
    if isinstance(step, Iota):
        return (step.like,)
    if isinstance(step, Product):
        return (step.left, step.right)
    found = [name for argument in (*step.args, *step.kwargs.values()) for name in tensors_in(argument)]
    return tuple(found)


def broadcast(shapes: list[Shape]) -> Shape:
    """Common shape of an element-wise function's operands."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(ONE,) * (rank - len(shape)) + shape for shape in shapes]
    out: list[Dim] = []
    for dims in zip(*padded, strict=True):
        wide = {dim for dim in dims if dim != ONE}
        if len(wide) > 1:
            raise UnsupportedError(f"extents {sorted(wide)} do not broadcast at both shapes")
        out.append(wide.pop() if wide else ONE)
    return tuple(out)


def count(shape: Shape) -> int:
    """Number of elements at the full shape."""
    total = 1
    for full, _ in shape:
        total *= full
    return total
