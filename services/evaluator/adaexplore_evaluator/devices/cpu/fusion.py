"""Which kernels torch.compile launches for a graph: loops over the same elements or rows fuse, library calls stay apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from adaexplore_evaluator.devices.cpu.datasheet import Datasheet
from adaexplore_evaluator.devices.cpu.graph import Graph
from adaexplore_evaluator.devices.cpu.lowering import Loop, Lowering, lower
from adaexplore_evaluator.devices.cpu.operators import DeviceKernel, Kind

# Inductor's heuristics: rows up to these lengths stay in registers; few and long rows are split over two kernels.
_PERSISTENT_ROW = 1024
_PERSISTENT_COLUMN = 64
_SPLIT_ROW = 8192
_SPLIT_COLUMN = 128


@dataclass(frozen=True, slots=True)
class Domain:
    """What a kernel iterates over: elements, or rows of row elements if it reduces; `split` reductions take two kernels."""

    elements: int
    rows: int = 0
    row_elements: int = 0
    inner: bool = True
    split: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    domain: Domain
    loops: tuple[int, ...]
    library: bool


def fused_kernels(graph: Graph, sheet: Datasheet) -> tuple[DeviceKernel, ...]:
    """Kernels of one call under torch.compile in its default mode, in a valid order of execution."""
    lowering = lower(graph)
    outputs = frozenset(lowering.root(name) for name in graph.outputs)
    fusion = _Fusion(lowering, outputs, sheet)
    fusion.run()
    return tuple(kernel for group in fusion.ordered() for kernel in _kernels(group, fusion))


class _Fusion:
    """The groups of loops while they merge; group ids are those of their first loops."""

    def __init__(self, lowering: Lowering, outputs: frozenset[str], sheet: Datasheet) -> None:
        self.lowering = lowering
        self.outputs = outputs
        self.maker = {result: index for index, loop in enumerate(lowering.loops) for result in loop.results}
        self.users: dict[str, set[int]] = {}
        for index, loop in enumerate(lowering.loops):
            for name in loop.inputs:
                self.users.setdefault(lowering.root(name), set()).add(index)
        self.groups = {index: _Group(_domain(loop, sheet), (index,), loop.library is not None) for index, loop in enumerate(lowering.loops)}
        self.group_of = {index: index for index in self.groups}

    def run(self) -> None:
        """Merge makers with users, then kernels over the same domain that read the same value."""
        for index, loop in enumerate(self.lowering.loops):
            if loop.library is not None or loop.realizes_inputs:
                continue
            for maker in self.makers(index):
                self._merge_vertically(self.group_of[maker], self.group_of[index])
        for users in list(self.users.values()):
            first, *others = sorted(users)
            for other in others:
                self._merge_siblings(self.group_of[first], self.group_of[other])

    def makers(self, index: int) -> list[int]:
        """Loops that make the inputs of a loop."""
        roots = dict.fromkeys(self.lowering.root(name) for name in self.lowering.loops[index].inputs)
        return [self.maker[root] for root in roots if root in self.maker]

    def ordered(self) -> list[_Group]:
        """Groups so that each follows the groups it reads from."""
        done: list[int] = []
        waiting = sorted(self.groups)
        while waiting:
            ready = next(group for group in waiting if not (self._sources(group) - set(done)))
            done.append(ready)
            waiting.remove(ready)
        return [self.groups[group] for group in done]

    def leaves_group(self, result: str, members: Iterable[int]) -> bool:
        """True if a result must be stored, because another kernel or the caller reads it."""
        return result in self.outputs or bool(self.users.get(result, set()) - set(members))

    def _sources(self, group: int) -> set[int]:
        return {self.group_of[maker] for index in self.groups[group].loops for maker in self.makers(index)} - {group}

    def _reaches(self, start: int, goal: int) -> bool:
        """True if `goal` reads, through at least one third group, from `start`."""
        seen: set[int] = set()
        stack = [source for source in self._sources(goal) if source != start]
        while stack:
            group = stack.pop()
            if group == start:
                return True
            if group not in seen:
                seen.add(group)
                stack.extend(self._sources(group))
        return False

    def _merge_vertically(self, maker: int, user: int) -> None:
        if maker == user or self.groups[maker].library or self.groups[user].library:
            return
        used_here_only = not any(
            self.leaves_group(result, {*self.groups[maker].loops, *self.groups[user].loops})
            for index in self.groups[maker].loops
            for result in self.lowering.loops[index].results
        )
        domain = _vertical(self.groups[maker].domain, self.groups[user].domain, used_here_only=used_here_only)
        self._merge(maker, user, domain)

    def _merge_siblings(self, left: int, right: int) -> None:
        if left == right or self.groups[left].library or self.groups[right].library:
            return
        if left in self._sources(right) or right in self._sources(left):
            return
        same = self.groups[left].domain == self.groups[right].domain
        self._merge(left, right, self.groups[left].domain if same else None)

    def _merge(self, left: int, right: int, domain: Domain | None) -> None:
        if domain is None or self._reaches(left, right) or self._reaches(right, left):
            return
        loops = tuple(sorted((*self.groups[left].loops, *self.groups[right].loops)))
        del self.groups[left], self.groups[right]
        self.groups[loops[0]] = _Group(domain, loops, library=False)
        self.group_of.update(dict.fromkeys(loops, loops[0]))


def _domain(loop: Loop, sheet: Datasheet) -> Domain:
    if not loop.reduces:
        return Domain(loop.elements)
    if loop.inner:
        long_row = _SPLIT_ROW if sheet.target != "sm_100" else 64 * _SPLIT_ROW
        split = loop.rows < 2 * sheet.multiprocessors and loop.row_elements > long_row
    else:
        split = loop.rows < 64 * sheet.multiprocessors and loop.row_elements > _SPLIT_COLUMN
    return Domain(loop.elements, loop.rows, loop.row_elements, loop.inner, split)


def _vertical(maker: Domain, user: Domain, *, used_here_only: bool) -> Domain | None:
    """Domain of a maker fused with its user; None if they stay apart."""
    if not maker.rows and not user.rows:
        return user if maker.elements == user.elements or used_here_only else None
    if not maker.rows:
        return user if maker.elements in (user.elements, user.rows) or used_here_only else None
    if not user.rows:
        # Columns count as rows here: Inductor reorders the user's loops to match, and where it does not the baseline errs towards fast.
        whole_rows = user.elements == maker.elements and not maker.split
        return maker if whole_rows or user.elements == maker.rows else None
    same_rows = (maker.rows, maker.row_elements, maker.inner) == (user.rows, user.row_elements, user.inner)
    return maker if same_rows and not maker.split else None


def _kernels(group: _Group, fusion: _Fusion) -> tuple[DeviceKernel, ...]:
    loops = [fusion.lowering.loops[index] for index in group.loops]
    library = loops[0].library
    if library is not None:
        return (library,)
    reads, writes = _reads(group, fusion), _writes(group, fusion)
    domain = group.domain
    kernel = DeviceKernel(
        name=f"fused_{'reduction' if domain.rows else 'pointwise'}_{len(loops)}",
        kind=Kind.REDUCTION if domain.rows else Kind.POINTWISE,
        bytes_read=sum(reads.values()),
        bytes_written=sum(writes.values()),
        flops=sum(loop.flops for loop in loops),
        special_functions=sum(loop.special_functions for loop in loops),
    )
    if not domain.rows:
        return (kernel,)
    whole = sum(size for name, size in reads.items() if fusion.lowering.values[name].elements >= domain.elements)
    row_bytes = whole / domain.rows
    kernel = replace(kernel, reread_bytes=(_passes(group, fusion, writes) - 1) * whole, row_bytes=row_bytes)
    if not domain.split:
        return (kernel,)
    statistics = 4.0 * domain.rows
    return kernel, DeviceKernel(f"{kernel.name}_second", Kind.REDUCTION, statistics, statistics)


def _reads(group: _Group, fusion: _Fusion) -> dict[str, float]:
    """Bytes read from outside by root: the views that are looked through, at most the whole value."""
    inside = {result for index in group.loops for result in fusion.lowering.loops[index].results}
    names = dict.fromkeys(name for index in group.loops for name in fusion.lowering.loops[index].inputs)
    sizes: dict[str, float] = {}
    for name in names:
        root = fusion.lowering.root(name)
        if root not in inside:
            sizes[root] = sizes.get(root, 0.0) + fusion.lowering.values[name].bytes
    return {root: min(size, float(fusion.lowering.values[root].bytes)) for root, size in sizes.items()}


def _writes(group: _Group, fusion: _Fusion) -> dict[str, float]:
    results = [result for index in group.loops for result in fusion.lowering.loops[index].results]
    return {result: float(fusion.lowering.values[result].bytes) for result in results if fusion.leaves_group(result, group.loops)}


def _passes(group: _Group, fusion: _Fusion, writes: dict[str, float]) -> int:
    """Times the kernel goes over its rows: once if they stay in registers, else once per dependent reduction and once to write."""
    domain = group.domain
    if domain.row_elements <= (_PERSISTENT_ROW if domain.inner else _PERSISTENT_COLUMN):
        return 1
    depth: dict[str, int] = {}
    passes = 1
    for index in group.loops:
        loop = fusion.lowering.loops[index]
        before = max((depth.get(fusion.lowering.root(name), 0) for name in loop.inputs), default=0)
        after = before + 1 if loop.reduces else before
        depth.update(dict.fromkeys(loop.results, after))
        writes_rows = not loop.reduces and loop.elements == domain.elements and bool(writes.keys() & set(loop.results))
        passes = max(passes, after + 1 if writes_rows and after else after)
    return passes
