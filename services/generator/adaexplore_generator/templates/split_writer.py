"""Writes row kernels in which several programs share a row: partial statistics first, then their combination, then the results.

The combination has a kernel of its own. Its statistics come out of a reduction over a small tile, whose layout is not that of the tiles of
a row; a kernel that broadcast them to the row itself would send whole tiles through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaexplore_generator.templates.accumulators import Accumulators, combined_lines
from adaexplore_generator.templates.emission import (
    Context,
    Written,
    jit_source,
    launch_lines,
    mentioned,
    output_lines,
    pointers,
    size_lines,
    statement,
    store_line,
    written,
)
from adaexplore_generator.templates.row_plan import RowPlan, plan_rows
from adaexplore_generator.templates.row_writer import RowFrame, pass_lines, row_frame

_CHUNK = (
    "split = tl.program_id(0) % SPLITS",
    "# Each split is a whole number of blocks; the last ones may be empty.",
    "chunk = tl.cdiv(tl.cdiv({size}, SPLITS), BLOCK) * BLOCK",
    "first = split * chunk",
    "last = tl.minimum(first + chunk, {size})",
)

_ELEMENTS_A_WARP = 256
"""Partial statistics that a warp of the combining kernel takes, of each kind: eight a thread."""


@dataclass(frozen=True)
class _Stage:
    """One of the kernels: its name in the group, what its programs do, its body and how it is launched."""

    name: str
    doc: str
    lines: Sequence[str]
    grid: str
    constants: tuple[str, ...]
    num_warps: int


@dataclass(frozen=True)
class _Buffers:
    """Tensors that one kernel leaves to the next: partial statistics, each with the value stored in it, and values with one a row."""

    parts: tuple[tuple[str, str], ...]
    carried: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Names of all of them."""
        return [*(name for name, _ in self.parts), *(_stat(name) for name in self.carried)]


def _stat(name: str) -> str:
    return f"{name}_stat"


def write_split(context: Context) -> Written:
    """Writes a row group as two kernels, or three if results span the row."""
    plan = plan_rows(context.group, fused_pairs=True)
    buffers = _Buffers(tuple(Accumulators(context, plan, 0).parts()), tuple(plan.carried(1)))
    shared, whole = row_frame(context, splits=True), row_frame(context)
    stages = [_partial(context, plan, shared, buffers), _combine(context, plan, whole, buffers)]
    if plan.full_stores(1):
        stages.append(_finish(context, plan, shared, buffers))
    sizes = shared.sizes
    sizes.used.update(whole.sizes.used)
    host = [*output_lines(context), *size_lines(sizes, context), *_buffer_lines(context, shared, buffers)]
    kernels, launches = [], []
    for stage in stages:
        source, launch = _kernel(context, stage, buffers.names, list(sizes.used))
        kernels.append(source)
        launches += launch
    return written(context, kernels, "Runs the split row kernels one after the other.", [*host, *launches])


def _buffer_lines(context: Context, frame: RowFrame, buffers: _Buffers) -> list[str]:
    anchor = context.group.params[0][0]
    rest = f"dtype=torch.float32, device={anchor}.device)"
    return [
        *(f"{name} = torch.empty(({frame.lane_count}, {context.knob('SPLITS')}), {rest}" for name, _ in buffers.parts),
        *(f"{_stat(name)} = torch.empty(({frame.lane_count},), {rest}" for name in buffers.carried),
    ]


def _kernel(context: Context, stage: _Stage, buffers: list[str], sizes: list[str]) -> tuple[str, list[str]]:
    lines, kernel = stage.lines, f"{context.name}_{stage.name}_kernel"
    params, tensors = pointers(context)
    pairs = [*zip(params, tensors, strict=True), *((f"{name}_ptr", name) for name in buffers)]
    pairs = [(param, tensor) for param, tensor in pairs if mentioned(lines, param)]
    taken = [name for name in sizes if mentioned(lines, name)]
    arguments = [*(param for param, _ in pairs), *taken, *(f"{name}: tl.constexpr" for name in stage.constants)]
    source = jit_source(kernel, arguments, stage.doc, lines)
    options = [*(f"{name}={context.knob(name)}" for name in stage.constants), f"num_warps={stage.num_warps}"]
    return source, launch_lines(kernel, stage.grid, [", ".join([*(tensor for _, tensor in pairs), *taken]), *options])


def _partial(context: Context, plan: RowPlan, frame: RowFrame, buffers: _Buffers) -> _Stage:
    lines = [*frame.lines, *(line.format(size=frame.reduce_size) for line in _CHUNK)]
    lines += [statement(context, node, frame.runs, frame.sizes) for node in plan.lanes(0)]
    lines += pass_lines(context, plan, frame, 0, "first", "last", partial=True)
    lines.append(f"part = ({frame.lane_index}) * SPLITS + split")
    lines += [f"tl.store({name}_ptr + part, {value}, mask={frame.lane_mask})" for name, value in buffers.parts]
    return _row_stage(context, frame, "partial", "Each program computes statistics of a part of its rows.", lines)


def _combine(context: Context, plan: RowPlan, frame: RowFrame, buffers: _Buffers) -> _Stage:
    lines = [*frame.lines, "parts = tl.arange(0, SPLITS)[None, :]"]
    index = frame.lane_index
    for name, _ in buffers.parts:
        lines.append(f"{name} = tl.load({name}_ptr + ({index}) * SPLITS + parts, mask={frame.lane_mask}, other=0.0)")
    lines += combined_lines(context, plan)
    stores = plan.lane_stores()
    known = [*buffers.carried, *(store.node for store in stores)]
    lines += [statement(context, node, frame.runs, frame.sizes) for node in plan.lanes_for(known)]
    lines += [store_line(store, frame.runs, frame.sizes) for store in stores]
    lines += [f"tl.store({_stat(name)}_ptr + {index}, {name}, mask={frame.lane_mask})" for name in buffers.carried]
    warps = max(1, min(16, context.knob("ROWS") * context.knob("SPLITS") // _ELEMENTS_A_WARP))
    return _Stage("combine", "Each program combines the partial statistics of its rows.", lines, frame.grid, ("ROWS", "SPLITS"), warps)


def _finish(context: Context, plan: RowPlan, frame: RowFrame, buffers: _Buffers) -> _Stage:
    lines = [*frame.lines]
    lines += [f"{name} = tl.load({_stat(name)}_ptr + {frame.lane_index}, mask={frame.lane_mask}, other=0.0)" for name in buffers.carried]
    roots = [store.node for store in plan.full_stores(1)]
    lines += [statement(context, node, frame.runs, frame.sizes) for node in plan.lanes_for(roots, buffers.carried)]
    lines += [line.format(size=frame.reduce_size) for line in _CHUNK]
    lines += pass_lines(context, plan, frame, 1, "first", "last")
    return _row_stage(context, frame, "finish", "Each program computes the results of a part of its rows.", lines)


def _row_stage(context: Context, frame: RowFrame, name: str, doc: str, lines: Sequence[str]) -> _Stage:
    constants = ("ROWS", "BLOCK", "SPLITS")
    return _Stage(name, doc, lines, f"{frame.grid} * {context.knob('SPLITS')}", constants, context.knob("num_warps"))
