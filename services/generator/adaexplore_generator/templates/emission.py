"""Text of kernels and launchers: what all writers share."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from adaexplore_generator.templates.frames import Group, Mapping_, Node, Store
from adaexplore_generator.templates.functions import HELPERS, Spelling, write_map
from adaexplore_generator.templates.indexing import Run, Sizes, guard, offset, position
from adaexplore_generator.templates.ir import ONE, Value, count

KnobValues = Mapping[str, int | str]

_OTHER = {"bool": "False", "float32": "0.0", "float16": "0.0", "bfloat16": "0.0"}


@dataclass(frozen=True)
class Kernel:
    """One kernel: its source, and the launch that runs it, in the launcher's terms."""

    source: str
    launch: tuple[str, ...]


@dataclass(frozen=True)
class Written:
    """A group in text: kernels and the launcher that runs them; `call` is the launcher's name, `params` its tensors, `outs` its results."""

    source: str
    call: str
    params: tuple[str, ...]
    outs: tuple[str, ...]
    helpers: frozenset[str] = frozenset()


@dataclass
class Context:
    """What a writer needs: the group, its number, the values, spellings and knobs; collects the device functions that the kernels call."""

    group: Group
    number: int
    values: Mapping[str, Value]
    spelling: Mapping[str, Spelling]
    knobs: KnobValues
    precision: str
    helpers: set[str] = field(default_factory=set)

    def knob(self, name: str) -> int:
        """A knob that is a number."""
        return int(self.knobs[name])

    def helper(self, name: str) -> str:
        """Name of a device function, which the file will define."""
        self.helpers.add(name)
        return f"_{name}"

    @property
    def topic(self) -> str:
        """One word for the group."""
        kinds = {node.function for node in self.group.nodes if node.kind == "reduce"}
        if self.group.kind != "rows":
            return {"product": "matmul"}.get(self.group.kind, "pointwise")
        return "softmax" if kinds & {"softmax", "logsumexp"} else "norm" if "moments" in kinds else "reduce"

    @property
    def name(self) -> str:
        """Name of the group in the file."""
        return f"{self.topic}_{self.number}"

    @property
    def mappings(self) -> dict[str, Mapping_]:
        """Mapping of each tensor parameter."""
        return dict(self.group.params)

    def wide(self, limit: int) -> bool:
        """Whether any tensor of the group has more elements than a limit."""
        return max([count(self.group.frame), *(count(self.values[name].shape) for name, _ in self.group.params)]) > limit


def literal(value: float) -> str:
    """A constant in a kernel."""
    if not math.isfinite(value):
        return f'float("{value}")'
    text = repr(float(value))
    return f"({text})" if value < 0 else text


def statement(context: Context, node: Node, runs: Sequence[Run], sizes: Sizes) -> str:
    """The line that computes a load, map, iota or extent."""
    if node.kind == "load":
        return load_line(context, node, runs, sizes)
    if node.kind == "iota":
        return f"{node.name} = {position(next(iter(node.dims)), runs, sizes)}"
    if node.kind == "extent":
        return f"{node.name} = {sizes.name(_extent_dims(node))}"
    args = [literal(arg) if isinstance(arg, float) else arg for arg in node.args]
    if node.function in HELPERS:
        return f"{node.name} = {context.helper(node.function)}({', '.join(args)})"
    return f"{node.name} = {write_map(node.function, args, context.spelling)}"


def _extent_dims(node: Node) -> tuple[int, ...]:
    return tuple(int(dim) for dim in node.function.split(",") if dim)


def load_line(context: Context, node: Node, runs: Sequence[Run], sizes: Sizes) -> str:
    """The line that loads a tensor's elements, in float32 if they are floating point numbers."""
    mapping = context.mappings[node.param]
    where = offset(mapping, runs, sizes)
    pointer = f"{node.param}_ptr" if where == "0" else f"{node.param}_ptr + {where}"
    mask = guard(mapping, runs)
    other = _OTHER.get(node.dtype, "0")
    guarded = f", mask={mask}, other={other}" if mask else ""
    cast = ".to(tl.float32)" if node.dtype in {"float16", "bfloat16"} else ""
    return f"{node.name} = tl.load({pointer}{guarded}){cast}"


def store_line(store: Store, runs: Sequence[Run], sizes: Sizes) -> str:
    """The line that stores a value; a single element is stored through the first index, which counts its only lane."""
    where = offset(store.mapping, runs, sizes)
    name = f"{store.value.name}_ptr"
    mask = guard(store.mapping, runs)
    if where == "0":
        where, mask = runs[0].index, runs[0].mask
    return f"tl.store({name if where == '0' else f'{name} + {where}'}, {store.node}{f', mask={mask}' if mask else ''})"


def jit_source(name: str, params: Sequence[str], doc: str, body: Sequence[str]) -> str:
    """A `@triton.jit` function; body lines carry their own further indentation."""
    head = f"def {name}({', '.join(params)}):"
    if len(head) > 120:
        head = "\n".join([f"def {name}(", *(f"    {param}," for param in params), "):"])
    return "\n".join(["@triton.jit", head, f'    """{doc}"""', *(f"    {line}" if line else "" for line in body)])


def dim_sources(context: Context) -> dict[int, str]:
    """Host expression of each frame extent, taken from the shapes of the launcher's tensors."""
    group = context.group
    found: dict[int, str] = {}
    for name, mapping in group.params:
        for axis, dim in enumerate(mapping):
            if dim is not None:
                found.setdefault(dim, f"{name}.shape[{axis}]")
    if group.product is not None:
        rank, right = len(group.frame), context.values[group.product.right]
        column = len(right.shape) - (2 if group.product.right_transposed else 1)
        found |= {dim: f"{group.product.left}.shape[{dim}]" for dim in range(rank - 1)}
        found[rank - 1] = f"{group.product.right}.shape[{column}]"
    return found


def size_expression(dims: Sequence[int], sources: Mapping[int, str], frame: Sequence[tuple[int, int]]) -> str:
    """Host expression of a product of frame extents."""
    return " * ".join(sources[dim] for dim in dims if frame[dim] != ONE) or "1"


def size_lines(sizes: Sizes, context: Context) -> list[str]:
    """Host lines that compute the sizes a kernel takes."""
    sources = dim_sources(context)
    return [f"{name} = {size_expression(dims, sources, context.group.frame)}" for name, dims in sizes.used.items()]


def output_lines(context: Context) -> list[str]:
    """Host lines that allocate the results."""
    sources, lines = dim_sources(context), []
    mappings = dict(context.group.params)
    anchor = next(iter(mappings), None) or (context.group.product.left if context.group.product else "")
    for store in context.group.stores:
        value = store.value
        twin = next(
            (name for name in mappings if mappings[name] == store.mapping and context.values[name].shape == value.shape),
            None,
        )
        if twin and context.values[twin].dtype == value.dtype:
            lines.append(f"{value.name} = torch.empty_like({twin})")
            continue
        extents = ", ".join("1" if dim is None else sources[dim] for dim in store.mapping)
        comma = "," if len(store.mapping) == 1 else ""
        alike = next((name for name in mappings if context.values[name].dtype == value.dtype), None)
        dtype = f"{alike}.dtype" if alike else f"torch.{value.dtype}"
        lines.append(f"{value.name} = torch.empty(({extents}{comma}), dtype={dtype}, device={anchor}.device)")
    return lines


def launcher_source(context: Context, doc: str, body: Sequence[str]) -> str:
    """The host function that runs a group's kernels on contiguous tensors."""
    params = launcher_params(context)
    outs = ", ".join(store.value.name for store in context.group.stores)
    contiguous = [f"{name} = {name}.contiguous()" for name, _ in context.group.params]
    lines = [*contiguous, *body, f"return {outs}"]
    return "\n".join(
        [f"def launch_{context.name}({', '.join(params)}):", f'    """{doc}"""', *(f"    {line}" if line else "" for line in lines)]
    )


def launcher_params(context: Context) -> tuple[str, ...]:
    """Tensors that a launcher takes, those of the product first."""
    product = context.group.product
    first = [product.left, product.right] if product else []
    return tuple(dict.fromkeys([*first, *(name for name, _ in context.group.params)]))


def pointers(context: Context) -> tuple[list[str], list[str]]:
    """Pointer parameters of a kernel, and the tensors handed over for them."""
    tensors = [*(name for name, _ in context.group.params), *(store.value.name for store in context.group.stores)]
    return [f"{name}_ptr" for name in tensors], tensors


def mentioned(lines: Sequence[str], name: str) -> bool:
    """Whether a name occurs in some lines as a word."""
    return any(re.search(rf"\b{name}\b", line) for line in lines)


def launch_lines(kernel: str, grid: str, arguments: Sequence[str]) -> list[str]:
    """Host lines that launch a kernel."""
    return [f"{kernel}[({grid},)](", *(f"    {argument}," for argument in arguments), ")"]


def written(context: Context, kernels: Sequence[str], doc: str, body: Sequence[str]) -> Written:
    """Puts a group's kernels and launcher together."""
    source = "\n\n\n".join([*kernels, launcher_source(context, doc, body)])
    outs = tuple(store.value.name for store in context.group.stores)
    return Written(source, f"launch_{context.name}", launcher_params(context), outs, frozenset(context.helpers))
