"""Moves views off the path between kernels: the element-wise functions before one are computed in the shape that it gives.

A group norm of a product's result, for one, reads it as groups; what is computed in between then is a part of the norm's kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adaexplore_generator.graph import Argument, ValueKind, ValueRef
from adaexplore_generator.templates.builder import Builder
from adaexplore_generator.templates.ir import (
    ONE,
    Dim,
    Extent,
    HostCall,
    Map,
    Product,
    Reduce,
    Relabel,
    Shape,
    Step,
    operands_of,
    results_of,
)

_RESHAPING = frozenset({"view", "_unsafe_view", "reshape"})


def take_views_early(builder: Builder, outputs: Sequence[str], origins: dict[str, int]) -> None:
    """Rewrites the builder's steps; a view stays where it is if anything reads what is before it, or if it cannot be taken earlier."""
    join_views(builder)
    for step in tuple(builder.steps):
        if isinstance(step, HostCall) and is_reshaping(step):
            _take_early(builder, step, outputs, origins)


def join_views(builder: Builder) -> None:
    """Lets a view of a view be one of what that views."""
    sources: dict[str, Argument] = {}
    for place, step in enumerate(builder.steps):
        if isinstance(step, HostCall) and is_reshaping(step) and isinstance(step.args[0], ValueRef):
            source = sources.get(step.args[0].name, step.args[0])
            sources[step.outs[0]] = source
            builder.steps[place] = replace(step, args=(source, *step.args[1:]), judged_args=(source, *step.judged_args[1:]))


def _take_early(builder: Builder, view: HostCall, outputs: Sequence[str], origins: dict[str, int]) -> None:
    source, out = view.args[0], view.outs[0]
    if not isinstance(source, ValueRef) or not any(isinstance(step, Map | Reduce) for step in readers_of(builder.steps, out)):
        return
    cone = _cone(builder.steps, view, source.name, outputs)
    if not cone or any(isinstance(arg, Extent) for step in cone.values() for arg in step.args):
        return
    blocks = blocks_of(builder.shape(source.name), builder.shape(out))
    shapes = {name: viewed_shape(builder.shape(name), blocks) for name in (*cone, *_operands(cone))}
    if None not in shapes.values() and all(stored(builder, name) for name in _operands(cone)):
        _rewrite(builder, view, cone, {name: shape for name, shape in shapes.items() if shape is not None}, origins)


def is_reshaping(call: HostCall) -> bool:
    """Whether a call gives the elements of its operand, in their order, another shape."""
    return call.operator.split(".")[1] in _RESHAPING


def readers_of(steps: Sequence[Step], name: str) -> list[Step]:
    """Steps that read a value."""
    return [step for step in steps if name in operands_of(step)]


def _cone(steps: Sequence[Step], view: HostCall, source: str, outputs: Sequence[str]) -> dict[str, Map]:
    """Element-wise functions that only the view's operand is computed from, by name, in order; empty if that operand is none."""
    readers: dict[str, list[Step]] = {}
    for step in steps:
        for name in dict.fromkeys(operands_of(step)):
            readers.setdefault(name, []).append(step)
    found: dict[str, Map] = {}
    for step in reversed(steps):
        if isinstance(step, Map) and step.out not in outputs and step.out in readers:
            inside = (reader is view or (isinstance(reader, Map) and reader.out in found) for reader in readers[step.out])
            if all(inside):
                found[step.out] = step
    return dict(reversed(found.items())) if source in found else {}


def _operands(cone: Mapping[str, Map]) -> list[str]:
    """What the functions read from outside, each once."""
    return list(dict.fromkeys(name for step in cone.values() for name in operands_of(step) if name not in cone))


def stored(builder: Builder, name: str) -> bool:
    """Whether a value is a tensor before any element-wise kernel runs, so that a view of it costs nothing."""
    if builder.values[name].kind is not ValueKind.RESULT:
        return True
    maker = next(step for step in builder.steps if name in results_of(step))
    return stored(builder, maker.arg) if isinstance(maker, Relabel) else isinstance(maker, HostCall | Product)


@dataclass(frozen=True)
class Block:
    """Adjacent dims before a view, counted from the last, and the extents that it gives their elements."""

    dims: tuple[int, ...]
    before: Shape
    after: Shape


def blocks_of(before: Shape, after: Shape) -> tuple[Block, ...]:
    """The least blocks of dims that hold the same elements before and after a view, at both shapes."""
    here, there = _counts(before), _counts(after)
    cuts = [(0, 0), *((_last(here, number), _last(there, number)) for number in dict.fromkeys(here) if number in there)]
    return tuple(
        Block(tuple(range(old - len(before), stop - len(before))), before[old:stop], after[new:end])
        for (old, new), (stop, end) in itertools.pairwise(cuts)
    )


def _counts(shape: Shape) -> list[Dim]:
    """Number of elements along the first dims, none of them to all."""
    return list(itertools.accumulate(shape, lambda left, right: (left[0] * right[0], left[1] * right[1]), initial=ONE))


def _last(counts: list[Dim], number: Dim) -> int:
    return len(counts) - 1 - counts[::-1].index(number)


def viewed_shape(shape: Shape, blocks: Sequence[Block]) -> Shape | None:
    """Shape of an operand after the view; None if it has some dims of a block and lacks others."""
    rank = sum(len(block.dims) for block in blocks)
    found: list[Dim] = []
    for block in blocks:
        own = tuple(shape[dim] if -dim <= len(shape) else ONE for dim in block.dims)
        if own != block.before and any(extent != ONE for extent in own):
            return None
        found += block.after if own == block.before else (ONE,) * len(block.after)
    while len(shape) < rank and found and found[0] == ONE:
        # An operand of lower rank stays one, as far as it can.
        found.pop(0)
    return tuple(found)


def _rewrite(builder: Builder, view: HostCall, cone: Mapping[str, Map], shapes: Mapping[str, Shape], origins: dict[str, int]) -> None:
    last, steps = list(cone)[-1], builder.steps
    builder.steps = []
    viewed: dict[str, str] = {}
    for step in steps:
        if isinstance(step, Map) and step.out in cone:
            for name in operands_of(step):
                if name not in viewed and name not in cone:
                    viewed[name] = name if builder.shape(name) == shapes[name] else builder.view(name, shapes[name], hint=name)
                    origins.setdefault(viewed[name], origins[step.out])
            builder.values[step.out] = replace(builder.values[step.out], shape=shapes[step.out])
            args = tuple(viewed.get(arg, arg) if isinstance(arg, str) else arg for arg in step.args)
            builder.steps.append(replace(step, args=args, out=view.outs[0] if step.out == last else step.out))
        elif step is not view:
            builder.steps.append(step)
    origins[view.outs[0]] = origins[last]
