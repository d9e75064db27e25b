"""Builds a program of the intermediate form, step by step, while a graph is lowered."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adaexplore_generator.graph import Argument, DTypeRef, OperatorCall, ValueKind, ValueRef
from adaexplore_generator.templates.ir import (
    FLOATS,
    ONE,
    Extent,
    HostCall,
    Iota,
    Map,
    Operand,
    Product,
    Reduce,
    Relabel,
    Shape,
    Step,
    UnsupportedError,
    Value,
    broadcast,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# Names that generated code uses for itself; no value may be called so.
RESERVED = frozenset(
    [
        "self",
        "torch",
        "nn",
        "tl",
        "triton",
        "libdevice",
        "math",
        "float",
        "min",
        "max",
        "range",
        "pid",
        "tile",
        "tiles",
        "rows",
        "cols",
        "row",
        "col",
        "lanes",
        "offsets",
        "mask",
        "row_mask",
        "col_mask",
        "lane_mask",
        "start",
        "stop",
        "first",
        "last",
        "chunk",
        "step",
        "split",
        "acc",
        "out",
        "outer",
        "inner",
        "index",
        "part",
        "parts",
        "k",
        "left",
        "right",
        "left_rows",
        "right_cols",
        "group",
        "group_rows",
        "local",
        "batch",
        "batches",
        "tile_m",
        "tile_n",
        "tiles_m",
        "tiles_n",
        "numel",
        "n_outer",
        "n_reduce",
        "n_inner",
        "n_rows",
        "n_cols",
        "n_tiles",
        "m_size",
        "n_size",
        "k_size",
        "entry",
        "above",
        "shift",
        "share",
        "squares",
        "distance",
        "block_count",
        "block_mean",
        "block_squares",
        "total_count",
        "BLOCK",
        "ROWS",
        "SPLITS",
        "PROGRAMS",
        "GROUP_M",
        "SPLIT_K",
        "BLOCK_M",
        "BLOCK_N",
        "BLOCK_K",
    ]
)

BOOLEAN_FUNCTIONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or", "logical_not", "isnan"})


@dataclass(frozen=True)
class Mark:
    """State of a builder: how many steps it holds, its values, and the names that are taken."""

    steps: int
    values: frozenset[str]
    names: frozenset[str]


class Builder:
    """Collects values and steps; every method appends what it says and returns the name of its result."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.steps: list[Step] = []
        self._taken: set[str] = set(RESERVED)

    def fresh(self, hint: str) -> str:
        """A Python identifier that nothing else is called, close to the hint."""
        base = re.sub(r"\W", "_", hint).strip("_") or "value"
        base = f"v{base}" if base[0].isdigit() else base
        name, number = base, 1
        while name in self._taken or keyword.iskeyword(name):
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name

    def mark(self) -> Mark:
        """Where the builder stands, to come back to."""
        return Mark(len(self.steps), frozenset(self.values), frozenset(self._taken))

    def rewind(self, mark: Mark) -> None:
        """Forgets everything that was added since a mark."""
        del self.steps[mark.steps :]
        self.values = {name: value for name, value in self.values.items() if name in mark.values}
        self._taken = set(mark.names)

    def add_value(self, value: Value) -> str:
        """Makes a value known."""
        self.values[value.name] = value
        return value.name

    def shape(self, name: str) -> Shape:
        """Shape of a value."""
        return self.values[name].shape

    def is_float(self, name: str) -> bool:
        """Whether a value holds floating point numbers that kernels compute in float32."""
        return self.values[name].dtype in FLOATS

    def map(self, function: str, *args: Operand, hint: str = "", shape: Shape | None = None) -> str:
        """Element-wise function of values and constants, in float32 or, for tests, in bool."""
        if shape is None:
            shape = broadcast([self.shape(arg) for arg in args if isinstance(arg, str)])
        dtype = "bool" if function in BOOLEAN_FUNCTIONS else "float32"
        out = self.add_value(Value(self.fresh(hint or function), shape, dtype))
        self.steps.append(Map(out, function, args))
        return out

    def reduce(self, kind: str, arg: str, dims: Sequence[int], hints: Sequence[str] = ()) -> tuple[str, ...]:
        """Reduction that keeps its dims as extents of one."""
        shape = self.shape(arg)
        kept = tuple(ONE if dim in dims else extent for dim, extent in enumerate(shape))
        names = hints or {"softmax": ("row_max", "exp_sum"), "logsumexp": ("row_max", "exp_sum"), "moments": ("mean", "variance")}.get(
            kind, (f"row_{kind}",)
        )
        check_adjacent(shape, dims)
        outs = tuple(self.add_value(Value(self.fresh(name), kept, "float32")) for name in names)
        self.steps.append(Reduce(outs, kind, arg, tuple(sorted(dims))))
        return outs

    def relabel(self, arg: str, axes: Sequence[int | None], hint: str = "view") -> str:
        """The same elements with extents of one added or removed."""
        shape = self.shape(arg)
        if all(axis == number for number, axis in enumerate(axes)) and len(axes) == len(shape):
            return arg
        dims = tuple(ONE if axis is None else shape[axis] for axis in axes)
        out = self.add_value(replace(self.values[arg], name=self.fresh(hint), shape=dims, kind=ValueKind.RESULT, state_name=""))
        self.steps.append(Relabel(out, arg, tuple(axes)))
        return out

    def drop(self, arg: str, dims: Sequence[int]) -> str:
        """The same elements without some extents of one."""
        return self.relabel(arg, [axis for axis in range(len(self.shape(arg))) if axis not in dims])

    def align(self, arg: str, rank: int, first: int) -> str:
        """A value whose dims start at dim `first` of a shape of `rank` dims, with extents of one elsewhere."""
        own = len(self.shape(arg))
        axes: list[int | None] = [None] * rank
        axes[first : first + own] = range(own)
        return self.relabel(arg, axes)

    def view(self, arg: str, shape: Shape, hint: str = "view") -> str:
        """The same elements in another shape, as a view that torch makes between kernels."""
        out = self.add_value(replace(self.values[arg], name=self.fresh(hint), shape=shape, kind=ValueKind.RESULT, state_name=""))
        full, judged = (tuple(extent[side] for extent in shape) for side in (0, 1))
        self.steps.append(HostCall((out,), "aten.view.default", (ValueRef(arg), full), {}, (ValueRef(arg), judged), {}))
        return out

    def iota(self, like: str, dim: int) -> str:
        """Index along one dim."""
        shape = tuple(extent if axis == dim else ONE for axis, extent in enumerate(self.shape(like)))
        out = self.add_value(Value(self.fresh("position"), shape, "int32"))
        self.steps.append(Iota(out, like, dim))
        return out

    def product(self, left: str, right: str, *, transposed: bool, batched: bool, hint: str) -> str:
        """Matrix product with float32 accumulation."""
        columns = self.shape(right)[-2 if transposed else -1]
        shape = (*self.shape(left)[:-1], columns)
        out = self.add_value(Value(self.fresh(hint), shape, "float32"))
        self.steps.append(Product(out, left, right, transposed, batched))
        return out

    def library_product(self, operator: str, left: str, right: str, hint: str) -> str:
        """Matrix product that stays in torch; operands as they are, result in their dtype."""
        shape = (*self.shape(left)[:-1], self.shape(right)[-1])
        out = self.add_value(Value(self.fresh(hint), shape, self.values[left].dtype))
        operands = (ValueRef(left), ValueRef(right))
        self.steps.append(HostCall((out,), operator, operands, {}, operands, {}))
        return out

    def extent(self, value: str, dims: Sequence[int]) -> Extent | float:
        """Number of elements along dims: a constant where both shapes agree on extents of one."""
        return Extent(value, tuple(dims)) if any(self.shape(value)[dim] != ONE for dim in dims) else 1.0


def check_adjacent(shape: Shape, dims: Sequence[int]) -> None:
    """Refuses a reduction whose dims have others between them."""
    wide = [axis for axis, extent in enumerate(shape) if extent != ONE]
    chosen = [axis for axis in wide if axis in dims]
    if not chosen or wide[wide.index(chosen[0]) :][: len(chosen)] != chosen:
        raise UnsupportedError("a reduction over dims that are not adjacent")


class CallReader:
    """Reads the arguments of a call: the same at both shapes, values by their lowered names."""

    def __init__(self, call: OperatorCall, judged: OperatorCall, names: dict[str, str], builder: Builder) -> None:
        self.call = call
        self.judged = judged
        self.builder = builder
        self._names = names

    @property
    def result(self) -> str:
        """Name of the first result in the graph."""
        return self.call.results[0] if self.call.results else "result"

    def raw(self, position: int, name: str, default: Argument = None) -> Argument:
        """An argument that must be equal at both shapes."""
        here, there = (self._pick(call, position, name, default) for call in (self.call, self.judged))
        if here != there:
            raise UnsupportedError(f"{self.call.operator} has an argument {name} that depends on the shape")
        return here

    @staticmethod
    def _pick(call: OperatorCall, position: int, name: str, default: Argument) -> Argument:
        if position < len(call.args):
            return call.args[position]
        return call.kwargs.get(name, default)

    def tensor(self, position: int, name: str) -> str:
        """A tensor argument."""
        argument = self.raw(position, name)
        if not isinstance(argument, ValueRef):
            raise UnsupportedError(f"{self.call.operator} needs a tensor as {name}")
        return self._names[argument.name]

    def tensor_or_none(self, position: int, name: str) -> str | None:
        """A tensor argument that may be None."""
        return self.tensor(position, name) if self.raw(position, name) is not None else None

    def float_tensor(self, position: int, name: str) -> str:
        """A tensor of floating point numbers, or of truth values or integers turned into them."""
        value = self.tensor(position, name)
        if self.builder.is_float(value):
            return value
        if self.builder.values[value].dtype in {"bool", "int32", "int64", "int16", "int8", "uint8"}:
            return self.builder.map("to_float", value)
        raise UnsupportedError(f"dtype {self.builder.values[value].dtype}")

    def operand(self, position: int, name: str, default: Argument = None) -> str | float:
        """A tensor of floating point numbers, or a number."""
        argument = self.raw(position, name, default)
        if isinstance(argument, ValueRef):
            return self.float_tensor(position, name)
        return self.number(position, name, default)

    def number(self, position: int, name: str, default: Argument = None) -> float:
        """A number."""
        argument = self.raw(position, name, default)
        if isinstance(argument, bool | int | float):
            return float(argument)
        raise UnsupportedError(f"{self.call.operator} needs a number as {name}")

    def integer(self, position: int, name: str, default: int) -> int:
        """An integer."""
        argument = self.raw(position, name, default)
        if isinstance(argument, int):
            return int(argument)
        raise UnsupportedError(f"{self.call.operator} needs an integer as {name}")

    def flag(self, position: int, name: str, default: bool) -> bool:
        """A truth value."""
        return bool(self.raw(position, name, default))

    def dims(self, position: int, name: str, rank: int) -> tuple[int, ...]:
        """Dims counted from 0; None or an empty list means all."""
        argument = self.raw(position, name)
        if argument is None or argument == ():
            return tuple(range(rank))
        items = argument if isinstance(argument, tuple) else (argument,)
        return tuple(sorted(int(item) % rank for item in items if isinstance(item, int)))

    def refuse_dtype(self, position: int, name: str) -> None:
        """Refuses a call that asks for a dtype kernels do not compute in."""
        argument = self.raw(position, name)
        if isinstance(argument, DTypeRef) and argument.name not in FLOATS:
            raise UnsupportedError(f"dtype {argument.name}")
