"""Puts the nodes of a row group in passes: what is computed once a row, what once an element, and which reductions share a pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from adaexplore_generator.templates.frames import Group, Node, Store

PAIRS = frozenset({"softmax", "logsumexp", "moments"})
"""Reductions with two results, which one pass can compute together."""

_FLOATS = frozenset({"float16", "bfloat16", "float32"})


@dataclass(frozen=True)
class RowPlan:
    """Nodes of a row group in order, by name, with the pass at which each is known."""

    nodes: Mapping[str, Node]
    levels: Mapping[str, int]
    stores: tuple[Store, ...]
    reduced: frozenset[int]

    @property
    def last(self) -> int:
        """The last pass over the row."""
        reducing = [self.levels[node.args[0]] for node in self.nodes.values() if node.kind == "reduce"]  # type: ignore[index]
        storing = [self.levels[store.node] for store in self.stores if self._spans_row(store)]
        return max([*reducing, *storing])

    def is_full(self, name: str) -> bool:
        """Whether a node varies along the reduced dims."""
        return bool(self.nodes[name].dims & self.reduced)

    def reductions(self, level: int) -> list[Node]:
        """Reductions computed by a pass, each pair once."""
        found = [node for node in self.nodes.values() if node.kind == "reduce" and self.levels[node.args[0]] == level]  # type: ignore[index]
        seen: dict[tuple[object, ...], Node] = {}
        for node in found:
            seen.setdefault((node.function, node.args), node)
        return list(seen.values())

    def partners(self, node: Node) -> tuple[str, ...]:
        """Names of the results of a reduction by part; a part that nobody reads gets a name too."""
        parts = 2 if node.function in PAIRS else 1
        names = {
            other.part: other.name
            for other in self.nodes.values()
            if other.kind == "reduce" and (other.function, other.args) == (node.function, node.args)
        }
        return tuple(names.get(part, f"{node.name}_{part}") for part in range(parts))

    def elements(self, level: int) -> list[Node]:
        """Nodes that vary along the row and that a pass must compute, in order."""
        roots = [str(node.args[0]) for node in self.reductions(level)]
        roots += [store.node for store in self.full_stores(level)]
        wanted: set[str] = set()
        while roots:
            name = roots.pop()
            if name not in wanted and self.is_full(name):
                wanted.add(name)
                roots.extend(arg for arg in self.nodes[name].args if isinstance(arg, str))
        return [node for name, node in self.nodes.items() if name in wanted]

    def lanes(self, level: int) -> list[Node]:
        """Nodes that are known before a pass begins and not earlier, one value a row."""
        return [
            node for name, node in self.nodes.items() if node.kind != "reduce" and not self.is_full(name) and self.levels[name] == level
        ]

    def read_by(self, roots: Iterable[str], known: Collection[str] = ()) -> list[Node]:
        """Nodes that some nodes are computed from, themselves included, in order; the search ends at reductions and known nodes."""
        wanted: set[str] = set()
        pending = list(roots)
        while pending:
            name = pending.pop()
            if name not in wanted:
                wanted.add(name)
                node = self.nodes[name]
                if name not in known and node.kind != "reduce":
                    pending.extend(arg for arg in node.args if isinstance(arg, str))
        return [node for name, node in self.nodes.items() if name in wanted]

    def lanes_for(self, roots: Iterable[str], known: Collection[str] = ()) -> list[Node]:
        """Nodes, one value a row, that have to be computed for some nodes, in order, where reductions and the known nodes are there."""
        found = self.read_by(roots, known)
        return [node for node in found if node.kind != "reduce" and not self.is_full(node.name) and node.name not in known]

    def carried(self, level: int) -> list[str]:
        """Floating point values, one a row, that a pass reads and that reductions went into: what an earlier kernel can hand to it."""
        known = {name for name, node in self.nodes.items() if not self.is_full(name) and self.levels[name] > 0 and node.dtype in _FLOATS}
        return [node.name for node in self.read_by((store.node for store in self.full_stores(level)), known) if node.name in known]

    def full_stores(self, level: int) -> list[Store]:
        """Results of the size of the row that a pass stores."""
        return [store for store in self.stores if self._spans_row(store) and self.levels[store.node] == level]

    def _spans_row(self, store: Store) -> bool:
        """Whether a result has an element for each of the row's, be they all alike."""
        return any(dim in self.reduced for dim in store.mapping)

    def lane_stores(self) -> list[Store]:
        """Results with one value a row."""
        return [store for store in self.stores if not self._spans_row(store)]


def plan_rows(group: Group, *, fused_pairs: bool) -> RowPlan:
    """The plan of a row group; pairs stay together if a pass computes both, or become two reductions, the second from the first."""
    nodes = {node.name: node for node in group.nodes}
    stores = group.stores
    if not fused_pairs:
        nodes, renamed = _expand(group)
        stores = tuple(replace(store, node=renamed.get(store.node, store.node)) for store in stores)
    levels: dict[str, int] = {}
    for name, node in nodes.items():
        below = max((levels[arg] for arg in node.args if isinstance(arg, str)), default=0)
        levels[name] = below + 1 if node.kind == "reduce" else below
    return RowPlan(nodes, levels, stores, group.reduced)


def _expand(group: Group) -> tuple[dict[str, Node], dict[str, str]]:
    """Pairs as single reductions: the maximum, then the sum of exponentials; the mean, then the mean square distance from it."""
    expander = _Expander(group)
    for node in group.nodes:
        expander.take(node)
    return expander.nodes, expander.renamed


class _Expander:
    """Copies nodes one by one and computes equal ones once."""

    def __init__(self, group: Group) -> None:
        self.nodes: dict[str, Node] = {}
        self.renamed: dict[str, str] = {}
        self._keys: dict[tuple[object, ...], str] = {}
        self._reduced = group.reduced

    def take(self, node: Node) -> None:
        """Adds a node under the names that its operands have now."""
        args = tuple(self.renamed.get(arg, arg) if isinstance(arg, str) else arg for arg in node.args)
        if node.kind == "reduce" and node.function in PAIRS:
            pair = self._moments(node, str(args[0])) if node.function == "moments" else self._exponentials(node, str(args[0]))
            self.renamed[node.name] = pair[node.part]
            return
        self.renamed[node.name] = self._add(replace(node, args=args))

    def _add(self, node: Node) -> str:
        key = (node.kind, node.function, node.args, node.param, node.dims)
        if key not in self._keys:
            self._keys[key] = node.name
            self.nodes[node.name] = node
        return self._keys[key]

    def _full(self, name: str) -> frozenset[int]:
        return self.nodes[name].dims

    def _exponentials(self, node: Node, arg: str) -> tuple[str, str]:
        lanes, stem = self._full(arg) - self._reduced, f"{arg}_max"
        top = self._add(Node(stem, "reduce", "top", (arg,), lanes))
        guard = "above_minus_infinity" if node.function == "softmax" else "finite_or_zero"
        safe = self._add(Node(f"{stem}_safe", "map", guard, (top,), lanes))
        shifted = self._add(Node(f"{arg}_shifted", "map", "sub", (arg, safe), self._full(arg)))
        raised = self._add(Node(f"{arg}_exp", "map", "exp", (shifted,), self._full(arg)))
        return safe, self._add(Node(f"{arg}_exp_sum", "reduce", "sum", (raised,), lanes))

    def _moments(self, node: Node, arg: str) -> tuple[str, str]:
        lanes = self._full(arg) - self._reduced
        dims = tuple(sorted(self._reduced))
        size = self._add(Node(f"extent_{'_'.join(map(str, dims))}", "extent", ",".join(map(str, dims)), (), frozenset()))
        total = self._add(Node(f"{arg}_sum", "reduce", "sum", (arg,), lanes))
        mean = self._add(Node(f"{arg}_mean", "map", "div", (total, size), lanes))
        centred = self._add(Node(f"{arg}_centred", "map", "sub", (arg, mean), self._full(arg)))
        square = self._add(Node(f"{arg}_square", "map", "square", (centred,), self._full(arg)))
        squares = self._add(Node(f"{arg}_squares", "reduce", "sum", (square,), lanes))
        return mean, self._add(Node(f"{arg}_variance", "map", "div", (squares, size), lanes))
