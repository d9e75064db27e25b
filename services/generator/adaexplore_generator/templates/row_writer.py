"""Writes row kernels: whole rows in registers, loops over blocks with one pass a reduction, and loops that fuse a pair into one pass."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_generator.templates.accumulators import Accumulators, reduce_line
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
from adaexplore_generator.templates.indexing import Run, Sizes
from adaexplore_generator.templates.ir import ONE
from adaexplore_generator.templates.row_plan import RowPlan, plan_rows


@dataclass(frozen=True)
class RowFrame:
    """Indices of a row kernel: which program works on which rows, and the names of the sizes."""

    runs: tuple[Run, ...]
    sizes: Sizes
    lines: tuple[str, ...]
    grid: str
    reduce_size: str
    lane_index: str
    lane_mask: str
    lane_count: str


def row_frame(context: Context, *, splits: bool = False) -> RowFrame:
    """Places programs on rows: blocks of rows, or, if dims follow the reduced ones, blocks of inner positions of one outer position."""
    group = context.group
    reduced = tuple(sorted(group.reduced))
    outer, inner = (tuple(dim for dim in dims if group.frame[dim] != ONE) for dims in (group.outer_dims, group.inner_dims))
    sizes = Sizes(group.frame, {outer: "n_outer", reduced: "n_reduce", inner: "n_inner"})
    program = "tl.program_id(0) // SPLITS" if splits else "tl.program_id(0)"
    columns = Run(reduced, "cols", "col_mask")
    n_outer, n_reduce = sizes.name(outer), sizes.name(reduced)
    rows = context.knob("ROWS")
    if not inner:
        lines = [
            f"rows = {f'({program})' if splits else program}.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]",
            f"row_mask = rows < {n_outer}",
        ]
        flat_runs = (Run(outer, "rows", "row_mask"), columns)
        return RowFrame(flat_runs, sizes, tuple(lines), f"triton.cdiv({n_outer}, {rows})", n_reduce, "rows", "row_mask", n_outer)
    n_inner = sizes.name(inner)
    lines = [
        "# Neighbouring lanes are neighbours in memory, so loads coalesce across them.",
        f"tiles = tl.cdiv({n_inner}, ROWS)",
        f"outer = ({program} // tiles).to(tl.int64)",
        f"lanes = (({program}) % tiles) * ROWS + tl.arange(0, ROWS)[:, None]",
        f"lane_mask = lanes < {n_inner}",
    ]
    runs = (Run(outer, "outer"), columns, Run(inner, "lanes", "lane_mask"))
    grid = f"{n_outer} * triton.cdiv({n_inner}, {rows})"
    return RowFrame(runs, sizes, tuple(lines), grid, n_reduce, f"outer * {n_inner} + lanes", "lane_mask", f"{n_outer} * {n_inner}")


def write_rows(context: Context, algorithm: str) -> Written:
    """Writes a row group; `algorithm` is `one_pass`, `looped` or `online`."""
    plan = plan_rows(context.group, fused_pairs=algorithm == "online")
    frame = row_frame(context)
    body = _one_pass(context, plan, frame) if algorithm == "one_pass" else _looped(context, plan, frame)
    params, tensors = pointers(context)
    kernel = f"{context.name}_kernel"
    sizes = [name for name in frame.sizes.used if mentioned([*frame.lines, *body], name)]
    doc = {
        "one_pass": "Each program holds whole rows in registers.",
        "looped": "Each program walks over its rows block by block, once a reduction.",
        "online": "Each program walks over its rows block by block and keeps running pairs of statistics.",
    }[algorithm]
    constants = ["ROWS: tl.constexpr", "BLOCK: tl.constexpr"]
    source = jit_source(kernel, [*params, *sizes, *constants], doc, [*frame.lines, *body])
    block = f"triton.next_power_of_2({frame.reduce_size})" if algorithm == "one_pass" else str(context.knob("BLOCK"))
    options = [f"ROWS={context.knob('ROWS')}", f"BLOCK={block}", f"num_warps={context.knob('num_warps')}"]
    if "num_stages" in context.knobs:
        options.append(f"num_stages={context.knob('num_stages')}")
    host = [*output_lines(context), *size_lines(frame.sizes, context)]
    launch = launch_lines(kernel, frame.grid, [", ".join([*tensors, *sizes]), *options])
    return written(context, [source], "Runs the row kernel.", [*host, *launch])


def _one_pass(context: Context, plan: RowPlan, frame: RowFrame) -> list[str]:
    lines = ["cols = tl.arange(0, BLOCK)[None, :]", f"col_mask = cols < {frame.reduce_size}"]
    mask = full_mask(frame)
    for node in plan.nodes.values():
        if node.kind == "reduce":
            lines.append(reduce_line(context, node, mask))
        else:
            lines.append(statement(context, node, frame.runs, frame.sizes))
    return [*lines, *(store_line(store, frame.runs, frame.sizes) for store in plan.stores)]


def full_mask(frame: RowFrame) -> str:
    """Mask of a tile: its columns are in the row; rows out of range compute on zeros and are never stored."""
    return "col_mask" if frame.reduce_size != "1" else ""


def _looped(context: Context, plan: RowPlan, frame: RowFrame) -> list[str]:
    lines: list[str] = []
    for level in range(plan.last + 1):
        lines += [statement(context, node, frame.runs, frame.sizes) for node in plan.lanes(level)]
        lines += pass_lines(context, plan, frame, level, "0", frame.reduce_size)
    lines += [statement(context, node, frame.runs, frame.sizes) for node in plan.lanes(plan.last + 1)]
    return [*lines, *(store_line(store, frame.runs, frame.sizes) for store in plan.lane_stores())]


def pass_lines(context: Context, plan: RowPlan, frame: RowFrame, level: int, start: str, stop: str, *, partial: bool = False) -> list[str]:
    """One loop over a row: accumulates the pass's reductions, to be combined later if `partial`, and stores what it completes."""
    accumulators = Accumulators(context, plan, level)
    body = ["cols = start + tl.arange(0, BLOCK)[None, :]", f"col_mask = cols < {stop}"]
    body += [statement(context, node, frame.runs, frame.sizes) for node in plan.elements(level)]
    body += accumulators.step(stop)
    body += [store_line(store, frame.runs, frame.sizes) for store in plan.full_stores(level)]
    loop = f"for start in range({start}, {stop}, BLOCK):"
    return [*accumulators.begin(), loop, *(f"    {line}" for line in body), *(accumulators.partial() if partial else accumulators.finish())]
