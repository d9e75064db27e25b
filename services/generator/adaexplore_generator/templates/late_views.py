"""Moves views behind the element-wise functions that follow: these become a part of the kernel whose result was viewed.

What follows a group norm, for one, reads its result in the shape without groups; computed with groups it belongs to the norm's kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from adaexplore_generator.graph import ValueRef
from adaexplore_generator.templates.builder import Builder
from adaexplore_generator.templates.ir import Extent, HostCall, Map, Product, Reduce, Shape, Step, operands_of, results_of
from adaexplore_generator.templates.views import Block, blocks_of, is_reshaping, join_views, readers_of, stored, viewed_shape


@dataclass
class _Moved:
    """A view, what it views, and the functions that are computed before it from now on, by their names until now."""

    view: HostCall
    source: str
    blocks: tuple[Block, ...]
    names: dict[str, str] = field(default_factory=dict)
    operands: dict[str, Shape] = field(default_factory=dict)


def take_views_late(builder: Builder, outputs: Sequence[str], origins: dict[str, int]) -> None:
    """Rewrites the builder's steps; a view that nothing element-wise follows stays where it is."""
    join_views(builder)
    for step in tuple(builder.steps):
        if isinstance(step, HostCall) and is_reshaping(step) and isinstance(step.args[0], ValueRef):
            source, out = step.args[0].name, step.outs[0]
            if _made_by_kernel(builder, source):
                moved = _Moved(step, source, blocks_of(builder.shape(out), builder.shape(source)))
                _collect(builder, moved)
                if moved.names:
                    _rewrite(builder, moved, outputs, origins)


def _made_by_kernel(builder: Builder, name: str) -> bool:
    return any(isinstance(step, Map | Reduce | Product) and name in results_of(step) for step in builder.steps)


def _collect(builder: Builder, moved: _Moved) -> None:
    """Finds the functions of what is viewed and of tensors that are there anyway."""
    out = moved.view.outs[0]
    for step in builder.steps:
        if not isinstance(step, Map) or builder.shape(step.out) != builder.shape(out):
            continue
        others = [name for name in operands_of(step) if name != out and name not in moved.names]
        if len(others) == len(operands_of(step)) or any(isinstance(arg, Extent) for arg in step.args):
            continue
        shapes = {name: viewed_shape(builder.shape(name), moved.blocks) for name in others}
        known = {name: shape for name, shape in shapes.items() if shape is not None and stored(builder, name)}
        if len(known) == len(shapes):
            moved.operands |= known
            moved.names[step.out] = builder.fresh(step.out)


def _rewrite(builder: Builder, moved: _Moved, outputs: Sequence[str], origins: dict[str, int]) -> None:
    steps, out, shape = builder.steps, moved.view.outs[0], builder.shape(moved.source)
    builder.steps = []
    inside = {out: moved.source} | moved.names
    for step in steps:
        if step is moved.view:
            _view_back(builder, moved, out, steps, outputs)
        elif not isinstance(step, Map) or step.out not in moved.names:
            builder.steps.append(step)
        else:
            for name in operands_of(step):
                if name not in inside:
                    changed = builder.shape(name) != moved.operands[name]
                    inside[name] = builder.view(name, moved.operands[name], hint=name) if changed else name
                    origins.setdefault(inside[name], origins[step.out])
            here = moved.names[step.out]
            builder.add_value(replace(builder.values[step.out], name=here, shape=shape))
            origins[here] = origins[step.out]
            args = tuple(inside.get(arg, arg) if isinstance(arg, str) else arg for arg in step.args)
            builder.steps.append(replace(step, out=here, args=args))
            _view_back(builder, moved, step.out, steps, outputs)


def _view_back(builder: Builder, moved: _Moved, name: str, steps: Sequence[Step], outputs: Sequence[str]) -> None:
    """Makes a view under the old name, if something else reads that."""
    readers = readers_of(steps, name)
    if name in outputs or any(not isinstance(step, Map) or step.out not in moved.names for step in readers):
        here = ValueRef(({moved.view.outs[0]: moved.source} | moved.names)[name])
        args, judged = (here, *moved.view.args[1:]), (here, *moved.view.judged_args[1:])
        builder.steps.append(replace(moved.view, outs=(name,), args=args, judged_args=judged))
