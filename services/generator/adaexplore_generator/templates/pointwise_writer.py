"""Writes pointwise kernels: flat blocks, rows with blocks of columns, or programs that stride over the blocks."""

from __future__ import annotations

from adaexplore_generator.templates.emission import (
    Context,
    Written,
    jit_source,
    launch_lines,
    output_lines,
    pointers,
    size_lines,
    statement,
    store_line,
    written,
)
from adaexplore_generator.templates.frames import Group
from adaexplore_generator.templates.indexing import INT32_ELEMENTS, Run, Sizes
from adaexplore_generator.templates.ir import ONE


def column_dims(group: Group) -> tuple[int, ...]:
    """The longest run of trailing dims that every tensor has wholly or lacks wholly; empty if that is all of them."""
    rank, best = len(group.frame), len(group.frame)
    for start in range(rank - 1, -1, -1):
        kept = [sum(dim is not None and dim >= start for dim in mapping) for _, mapping in group.params]
        if all(found in (0, rank - start) for found in kept):
            best = start
    return tuple(range(best, rank)) if best > 0 else ()


def write_pointwise(context: Context, algorithm: str) -> Written:
    """Writes a pointwise group; `algorithm` is `flat`, `rows` or `persistent`."""
    if algorithm == "rows":
        return _write_rows(context)
    return _write_flat(context, persistent=algorithm == "persistent")


def _body(context: Context, runs: list[Run], sizes: Sizes) -> list[str]:
    lines = [statement(context, node, runs, sizes) for node in context.group.nodes]
    return [*lines, *(store_line(store, runs, sizes) for store in context.group.stores)]


def _write_flat(context: Context, *, persistent: bool) -> Written:
    group = context.group
    every = tuple(dim for dim in range(len(group.frame)) if group.frame[dim] != ONE)
    sizes = Sizes(group.frame, {every: "numel"})
    numel = sizes.name(every)
    runs = [Run(every, "offsets", "mask")]
    cast = ".to(tl.int64)" if context.wide(INT32_ELEMENTS) else ""
    body = _body(context, runs, sizes)
    kernel, block, warps = f"{context.name}_kernel", context.knob("BLOCK"), context.knob("num_warps")
    index = [f"offsets = {'tile' if persistent else 'tl.program_id(0)'}{cast} * BLOCK + tl.arange(0, BLOCK)", f"mask = offsets < {numel}"]
    if persistent:
        loop = "for tile in range(tl.program_id(0), n_tiles, PROGRAMS):"
        lines = [loop, *(f"    {line}" for line in [*index, *body])]
    else:
        lines = [*index, *body]
    params, tensors = pointers(context)
    extra = ["n_tiles"] if persistent else []
    constants = ["BLOCK: tl.constexpr", *(["PROGRAMS: tl.constexpr"] if persistent else [])]
    doc = "Each program strides over the blocks of the flattened tensors." if persistent else "Each program computes one block of elements."
    source = jit_source(kernel, [*params, *sizes.used, *extra, *constants], doc, lines)
    host = [*output_lines(context), *size_lines(sizes, context)]
    tail = [f"BLOCK={block}", *([f"PROGRAMS={context.knob('PROGRAMS')}"] if persistent else []), f"num_warps={warps}"]
    arguments = [", ".join([*tensors, *sizes.used, *extra]), *tail]
    grid = f"triton.cdiv({numel}, {block})"
    if persistent:
        host.append(f"n_tiles = triton.cdiv({numel}, {block})")
        grid = f"min(n_tiles, {context.knob('PROGRAMS')})"
    return written(context, [source], "Runs the element-wise kernel.", [*host, *launch_lines(kernel, grid, arguments)])


def _write_rows(context: Context) -> Written:
    group, columns = context.group, column_dims(context.group)
    outer = tuple(dim for dim in range(len(group.frame)) if dim not in columns)
    sizes = Sizes(group.frame, {outer: "n_rows", columns: "n_cols"})
    rows, cols = sizes.name(outer), sizes.name(columns)
    runs = [Run(outer, "row"), Run(columns, "cols", "mask")]
    cast = ".to(tl.int64)" if context.wide(INT32_ELEMENTS) else ""
    lines = [
        f"tiles = tl.cdiv({cols}, BLOCK)",
        "pid = tl.program_id(0)",
        f"row = (pid // tiles){cast}",
        "cols = (pid % tiles) * BLOCK + tl.arange(0, BLOCK)",
        f"mask = cols < {cols}",
        *_body(context, runs, sizes),
    ]
    del sizes.used[rows]
    params, tensors = pointers(context)
    kernel = f"{context.name}_kernel"
    source = jit_source(
        kernel, [*params, *sizes.used, "BLOCK: tl.constexpr"], "Each program computes a block of columns of one row.", lines
    )
    sizes.used[rows] = outer
    host = [*output_lines(context), *size_lines(sizes, context)]
    names = [name for name in sizes.used if name != rows]
    arguments = [", ".join([*tensors, *names]), f"BLOCK={context.knob('BLOCK')}", f"num_warps={context.knob('num_warps')}"]
    grid = f"{rows} * triton.cdiv({cols}, {context.knob('BLOCK')})"
    return written(context, [source], "Runs the element-wise kernel row by row.", [*host, *launch_lines(kernel, grid, arguments)])
