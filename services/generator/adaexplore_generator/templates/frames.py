"""Analyses a run of steps as one kernel: its frame, how each value lies in it, and the nodes to compute.

A frame is the shape that a kernel iterates over, without extents of one, split into three runs of adjacent dims: `outer` (independent),
`reduced` and `inner` (independent, after the reduced ones). A value's mapping says for each of its dims which dim of the frame it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from adaexplore_generator.templates.ir import (
    ONE,
    Extent,
    HostCall,
    Iota,
    Map,
    Operand,
    Product,
    Program,
    Reduce,
    Relabel,
    Shape,
    Step,
    UnsupportedError,
    Value,
    count,
    operands_of,
    results_of,
)

Mapping_ = tuple[int | None, ...]


@dataclass(frozen=True)
class Node:
    """One thing that a kernel computes: `load`, `map`, `reduce` (with `part` for its second result), `iota`, `extent` or `product`.

    `dims` are the frame dims along which it varies; for a load `param` names the tensor and `mapping` places it.
    """

    name: str
    kind: str
    function: str = ""
    args: tuple[str | float, ...] = ()
    dims: frozenset[int] = frozenset()
    param: str = ""
    dtype: str = "float32"
    part: int = 0


@dataclass(frozen=True)
class Store:
    """A value that leaves the kernel: the node that computes it, its tensor, and the frame dims of its shape (None is an extent of one)."""

    node: str
    value: Value
    mapping: Mapping_


@dataclass(frozen=True)
class Group:
    """A kernel to be: `kind` is `pointwise`, `rows` or `product`; nodes are in order; `params` are its tensors with their mappings.

    `depth` is the length of the summed dimension of a product at the full shape, `operand` the dtype of its left operand.
    """

    kind: str
    frame: Shape
    reduced: frozenset[int]
    nodes: tuple[Node, ...]
    stores: tuple[Store, ...]
    params: tuple[tuple[str, Mapping_], ...]
    product: Product | None = None
    functions: frozenset[str] = frozenset()
    depth: int = 0
    operand: str = ""

    @property
    def outer_dims(self) -> tuple[int, ...]:
        """Frame dims before the reduced ones; all of them if none is reduced."""
        return tuple(dim for dim in range(len(self.frame)) if not self.reduced or dim < min(self.reduced))

    @property
    def inner_dims(self) -> tuple[int, ...]:
        """Frame dims after the reduced ones."""
        return tuple(dim for dim in range(len(self.frame)) if self.reduced and dim > max(self.reduced))

    def size(self, dims: tuple[int, ...] | frozenset[int]) -> int:
        """Number of elements along frame dims at the full shape."""
        return count(tuple(self.frame[dim] for dim in dims))


@dataclass
class Analysis:
    """One attempt to make a run of steps a kernel; UnsupportedError says that it cannot be one."""

    program: Program
    steps: tuple[Step, ...]
    makers: dict[str, Step]
    needed: tuple[str, ...]
    frame: Shape = ()
    reduced: frozenset[int] = frozenset()
    mappings: dict[str, Mapping_] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    keys: dict[tuple[object, ...], str] = field(default_factory=dict)
    params: dict[str, Mapping_] = field(default_factory=dict)
    product: Product | None = None

    def run(self) -> Group:
        """Analyses the steps."""
        if any(isinstance(step, HostCall) for step in self.steps):
            raise UnsupportedError("a host call")
        self._choose_frame()
        for step in self.steps:
            self._map_step(step)
        if self.product is not None:
            self._add_product(self.product)
        stores = tuple(self._store(name) for name in self.needed)
        kind = "product" if self.product else ("rows" if self.reduced else "pointwise")
        functions = frozenset(node.function for node in self.nodes.values() if node.kind == "map")
        nodes = tuple(self.nodes.values())
        group = Group(kind, self.frame, self.reduced, nodes, stores, tuple(self.params.items()), self.product, functions)
        if self.product is None:
            return group
        left = self.program.values[self.product.left]
        return replace(group, depth=count(left.shape[-1:]), operand=left.dtype)

    def _choose_frame(self) -> None:
        products = [step for step in self.steps if isinstance(step, Product)]
        reduces = [step for step in self.steps if isinstance(step, Reduce)]
        if products:
            if len(products) > 1 or reduces or self.steps[0] is not products[0]:
                raise UnsupportedError("a product among others")
            self.product = products[0]
            shape = self.program.values[products[0].out].shape
            # Rows and columns keep their places even where they are one.
            self.frame = shape
            return
        if reduces:
            shape = self.program.values[reduces[0].arg].shape
            wide = [dim for dim, extent in enumerate(shape) if extent != ONE]
            self.reduced = frozenset(number for number, dim in enumerate(wide) if dim in reduces[0].dims)
        else:
            shapes = [self.program.values[name].shape for step in self.steps for name in results_of(step)]
            shape = max(shapes, key=lambda found: (count(found), sum(extent != ONE for extent in found)))
        self.frame = tuple(extent for extent in shape if extent != ONE)

    def _default_mapping(self, shape: Shape) -> Mapping_:
        """Places a shape right-aligned in the frame, extents of one skipped where the rest fits."""
        if self.product is not None:
            return self._aligned(shape)
        wide = [extent for extent in shape if extent != ONE]
        if tuple(wide) == self.frame:
            numbers = iter(range(len(self.frame)))
            return tuple(None if extent == ONE else next(numbers) for extent in shape)
        return self._aligned(shape)

    def _aligned(self, shape: Shape) -> Mapping_:
        found: list[int | None] = []
        for position, extent in enumerate(shape):
            dim = len(self.frame) - len(shape) + position
            if extent == ONE:
                found.append(None)
            elif dim < 0 or self.frame[dim] != extent:
                raise UnsupportedError("a shape that does not lie in the frame")
            else:
                found.append(dim)
        return tuple(found)

    def _map_step(self, step: Step) -> None:
        if isinstance(step, Map):
            self._map_map(step)
        elif isinstance(step, Reduce):
            self._map_reduce(step)
        elif isinstance(step, Relabel) and step.arg in self.mappings:
            inner = self.mappings[step.arg]
            self.mappings[step.out] = tuple(None if axis is None else inner[axis] for axis in step.axes)
        elif isinstance(step, Product):
            self.mappings[step.out] = self._default_mapping(self.program.values[step.out].shape)

    def _map_map(self, step: Map) -> None:
        shape = self.program.values[step.out].shape
        found: list[int | None] = [None] * len(shape)
        for arg in step.args:
            for position, dim in self._placed(arg, len(shape)):
                if dim is not None and found[position] not in (None, dim):
                    raise UnsupportedError("operands that lie differently in the frame")
                found[position] = dim if dim is not None else found[position]
        default: Mapping_ | None = None
        for position, extent in enumerate(shape):
            if extent != ONE and found[position] is None:
                default = default if default is not None else self._default_mapping(shape)
                found[position] = default[position]
        placed = [dim for dim in found if dim is not None]
        if placed != sorted(set(placed)) or any(self.frame[dim] != shape[at] for at, dim in enumerate(found) if dim is not None):
            raise UnsupportedError("a shape that does not lie in the frame")
        self.mappings[step.out] = tuple(found)

    def _placed(self, arg: Operand, rank: int) -> list[tuple[int, int | None]]:
        if not isinstance(arg, str) or arg not in self.mappings:
            return []
        mapping = self.mappings[arg]
        return [(rank - len(mapping) + position, dim) for position, dim in enumerate(mapping)]

    def _map_reduce(self, step: Reduce) -> None:
        shape = self.program.values[step.arg].shape
        mapping = self.mappings.get(step.arg) or self._default_mapping(shape)
        mapped = frozenset(dim for axis in step.dims if (dim := mapping[axis]) is not None)
        if mapped != self.reduced:
            raise UnsupportedError("a reduction over other dims")
        for out in step.outs:
            self.mappings[out] = tuple(None if axis in step.dims else dim for axis, dim in enumerate(mapping))

    # Nodes, made from the values that leave the kernel backwards.

    def _store(self, name: str) -> Store:
        mapping = self.mappings.get(name)
        if mapping is None:
            raise UnsupportedError("a view of something outside")
        wanted = [dim for dim in mapping if dim is not None]
        whole = [dim for dim, extent in enumerate(self.frame) if extent != ONE]
        lanes = [dim for dim in whole if dim not in self.reduced]
        if wanted != whole and not (self.reduced and wanted == lanes):
            raise UnsupportedError("a value that only a part of the frame holds")
        return Store(self._node(name, mapping), self.program.values[name], mapping)

    def _node(self, name: str, mapping: Mapping_) -> str:
        """The node of a value; `mapping` places it if it comes from outside."""
        step = self.makers.get(name)
        inside = step is not None and any(step is each for each in self.steps)
        if isinstance(step, Relabel):
            return self._node(step.arg, self._before_relabel(step, mapping))
        if isinstance(step, Iota):
            dims = frozenset(dim for dim in mapping if dim is not None)
            return self._add(Node(name, "iota", "", (), dims, dtype="int32"))
        if not inside:
            return self._load(name, mapping)
        if isinstance(step, Product):
            return name
        own = self.mappings[name]
        if isinstance(step, Reduce):
            arg = self._node(step.arg, self.mappings.get(step.arg) or self._default_mapping(self.program.values[step.arg].shape))
            lanes = frozenset(dim for dim in own if dim is not None)
            if self.reduced - self.nodes[arg].dims:
                raise UnsupportedError("a reduction of something constant along its dims")
            return self._add(Node(name, "reduce", step.kind, (arg,), lanes, part=step.outs.index(name)))
        if not isinstance(step, Map):
            raise UnsupportedError("a step that is no element-wise function")
        args = tuple(self._argument(arg, own) for arg in step.args)
        dims = frozenset(dim for arg in args if isinstance(arg, str) for dim in self.nodes[arg].dims)
        return self._add(Node(name, "map", step.function, args, dims, dtype=self.program.values[name].dtype))

    def _before_relabel(self, step: Relabel, mapping: Mapping_) -> Mapping_:
        inner: list[int | None] = [None] * len(self.program.values[step.arg].shape)
        for axis, dim in zip(step.axes, mapping, strict=True):
            if axis is not None:
                inner[axis] = dim
        return tuple(inner)

    def _argument(self, arg: Operand, own: Mapping_) -> str | float:
        if isinstance(arg, float | int):
            return float(arg)
        if isinstance(arg, Extent):
            return self._extent(arg)
        shape = self.program.values[arg].shape
        placed = own[len(own) - len(shape) :] if len(shape) <= len(own) else None
        if placed is None:
            raise UnsupportedError("an operand of higher rank than its result")
        return self._node(arg, tuple(None if extent == ONE else dim for extent, dim in zip(shape, placed, strict=True)))

    def _extent(self, arg: Extent) -> str:
        shape = self.program.values[arg.value].shape
        mapping = self.mappings.get(arg.value) or self._default_mapping(shape)
        dims = tuple(sorted(dim for axis in arg.dims if (dim := mapping[axis]) is not None))
        if count(tuple(self.frame[dim] for dim in dims)) != count(tuple(shape[axis] for axis in arg.dims)):
            raise UnsupportedError("an extent outside of the frame")
        return self._add(Node(f"extent_{'_'.join(map(str, dims))}", "extent", ",".join(map(str, dims)), (), frozenset()))

    def _load(self, name: str, mapping: Mapping_) -> str:
        if self.params.get(name, mapping) != mapping:
            raise UnsupportedError("one tensor that lies in the frame in two ways")
        value = self.program.values[name]
        for extent, dim in zip(value.shape, mapping, strict=True):
            if extent != ONE and (dim is None or self.frame[dim] != extent):
                raise UnsupportedError("an operand that does not lie in the frame")
        self.params[name] = mapping
        return self._add(Node(name, "load", "", (), frozenset(dim for dim in mapping if dim is not None), name, value.dtype))

    def _add_product(self, step: Product) -> None:
        dims = frozenset(dim for dim, extent in enumerate(self.frame) if extent != ONE)
        self._add(Node(step.out, "product", "", (), dims))

    def _add(self, node: Node) -> str:
        """Adds a node once: the same function of the same arguments is computed once."""
        key = (node.kind, node.function, node.args, node.part, node.param, node.dims)
        if node.kind == "product" or key not in self.keys:
            self.keys[key] = node.name
            self.nodes[node.name] = node
        return self.keys[key]


def needed_outside(program: Program, run: tuple[Step, ...], start: int, stop: int) -> tuple[str, ...]:
    """Values of a run of steps that later steps or the caller read, in order.

    The host reads relabelled values as they are; kernels read what was relabelled, since a relabelling costs them nothing.
    """
    makers = {name: step for step in run for name in results_of(step)}
    read = {name for name in program.outputs if _root(name, makers) in makers}
    for position, step in enumerate(program.steps):
        if not start <= position < stop:
            exact = isinstance(step, HostCall | Product)
            read.update(name if exact else _root(name, makers) for name in operands_of(step) if _root(name, makers) in makers)
    return tuple(name for name in makers if name in read and not isinstance(makers[name], Iota))


def _root(name: str, makers: dict[str, Step]) -> str:
    """What a value is a relabelling of, as far as the run goes."""
    while isinstance(step := makers.get(name), Relabel):
        name = step.arg
    return name
