"""Writes matrix products with a fused epilogue: plain tiles, grouped tiles, persistent programs, or a split inner dimension."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_generator.templates.emission import (
    Context,
    Written,
    dim_sources,
    jit_source,
    launch_lines,
    mentioned,
    output_lines,
    pointers,
    size_expression,
    statement,
    store_line,
    written,
)
from adaexplore_generator.templates.indexing import INT32_ELEMENTS, Run, Sizes
from adaexplore_generator.templates.ir import ONE, Product, UnsupportedError

_TILE = ["BLOCK_M", "BLOCK_N", "BLOCK_K"]


@dataclass(frozen=True)
class _Frame:
    """Names of a product kernel: its sizes, strides, and the runs of its epilogue."""

    product: Product
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    column: tuple[int, ...]
    sizes: Sizes
    runs: tuple[Run, ...]

    @property
    def strides(self) -> list[str]:
        """Stride parameters, the batch's last."""
        batch = ["left_stride_b", "right_stride_b"] if self.product.batched else []
        return ["left_stride_m", "left_stride_k", "right_stride_k", "right_stride_n", *batch]

    @property
    def stride_values(self) -> list[str]:
        """Host expressions of the strides."""
        first = 1 if self.product.batched else 0
        k_axis, n_axis = (first + 1, first) if self.product.right_transposed else (first, first + 1)
        batch = ["left.stride(0)", "right.stride(0)"] if self.product.batched else []
        return [f"left.stride({first})", f"left.stride({first + 1})", f"right.stride({k_axis})", f"right.stride({n_axis})", *batch]


def _frame(context: Context, product: Product) -> _Frame:
    rank = len(context.group.frame)
    batch = tuple(range(rank - 2)) if product.batched else ()
    rows, column = tuple(range(len(batch), rank - 1)), (rank - 1,)
    wide = {dims: tuple(dim for dim in dims if context.group.frame[dim] != ONE) for dims in (batch, rows, column)}
    sizes = Sizes(context.group.frame, {wide[rows]: "m_size", wide[column]: "n_size"})
    runs = [Run(rows, "row", "row_mask"), Run(column, "col", "col_mask")]
    if batch:
        runs.insert(0, Run(batch, "batch"))
    return _Frame(product, batch, rows, column, sizes, tuple(runs))


def _product_of(context: Context) -> Product:
    product = context.group.product
    if product is None:
        raise UnsupportedError("a group without a product")
    return product


def write_product(context: Context, algorithm: str) -> Written:
    """Writes a product group; `algorithm` is `tiled`, `grouped`, `persistent` or `split_k`."""
    frame = _frame(context, _product_of(context))
    if algorithm == "split_k":
        return _write_split(context, frame)
    body = [*_multiply(context, frame, "0", "k_size"), *_epilogue(context, frame)]
    grouped = algorithm in {"grouped", "persistent"}
    constants = [*_TILE, *(["GROUP_M"] if grouped else []), *(["PROGRAMS"] if algorithm == "persistent" else [])]
    place = [*_place(context, frame, grouped=grouped), *_indices(context)]
    tiles = "tiles_m * tiles_n" + (" * batches" if frame.batch else "")
    if algorithm == "persistent":
        lines = [*_counts(), "# Each program strides over the tiles.", f"for tile in range(tl.program_id(0), {tiles}, PROGRAMS):"]
        lines += [f"    {line}" for line in [*place, *body]]
    else:
        lines = ["tile = tl.program_id(0)", *_counts(), *place, *body]
    kernel, host = f"{context.name}_kernel", _host(context, frame)
    used, tensors = _used(context, lines)
    sizes = [name for name in frame.sizes.used if name not in {"m_size", "n_size"} and mentioned(lines, name)]
    batches = ["batches"] if frame.batch and algorithm == "persistent" else []
    params = ["left_ptr", "right_ptr", *used, "m_size", "n_size", "k_size", *batches, *frame.strides, *sizes]
    source = jit_source(kernel, [*params, *(f"{name}: tl.constexpr" for name in constants)], _doc(algorithm), lines)
    grid = _grid(context, frame)
    if algorithm == "persistent":
        grid = f"min({grid}, {context.knob('PROGRAMS')})"
    first = ", ".join(["left", "right", *tensors, "m_size", "n_size", "k_size", *batches])
    launch = launch_lines(kernel, grid, [first, ", ".join([*frame.stride_values, *sizes]), *_options(context, constants)])
    return written(context, [source], "Runs the product with everything that follows it.", [*host, *launch])


def _doc(algorithm: str) -> str:
    return {
        "tiled": "Each program computes one tile of the product and all that follows it.",
        "grouped": "Each program computes one tile; neighbouring programs share rows and columns in the L2 cache.",
        "persistent": "A fixed number of programs computes all tiles, in groups that share rows and columns in the L2 cache.",
        "split_k": "Each program sums a part of the inner dimension of one tile.",
    }[algorithm]


def _counts() -> list[str]:
    return ["tiles_m = tl.cdiv(m_size, BLOCK_M)", "tiles_n = tl.cdiv(n_size, BLOCK_N)"]


def _place(context: Context, frame: _Frame, *, grouped: bool) -> list[str]:
    """Lines that turn the number of a tile into its place."""
    lines, local = [], "tile"
    if frame.batch:
        lines = ["batch = (tile // (tiles_m * tiles_n)).to(tl.int64)", "local = tile % (tiles_m * tiles_n)"]
        local = "local"
    if grouped:
        return [
            *lines,
            f"group = {local} // (GROUP_M * tiles_n)",
            "group_rows = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)",
            f"tile_m = group * GROUP_M + ({local} % (GROUP_M * tiles_n)) % group_rows",
            f"tile_n = ({local} % (GROUP_M * tiles_n)) // group_rows",
        ]
    if context.knobs.get("order") == "columns_first":
        return [*lines, f"tile_m = {local} % tiles_m", f"tile_n = {local} // tiles_m"]
    return [*lines, f"tile_m = {local} // tiles_n", f"tile_n = {local} % tiles_n"]


def _indices(context: Context) -> list[str]:
    cast = ".to(tl.int64)" if _wide(context) else ""
    return [
        f"row = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]){cast}",
        f"col = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]){cast}",
        "row_mask = row < m_size",
        "col_mask = col < n_size",
    ]


def _wide(context: Context) -> bool:
    product = _product_of(context)
    elements = [1, 1]
    for number, name in enumerate((product.left, product.right)):
        for full, _ in context.values[name].shape:
            elements[number] *= full
    return context.wide(INT32_ELEMENTS) or max(elements) > INT32_ELEMENTS


def _multiply(context: Context, frame: _Frame, first: str, last: str) -> list[str]:
    """The loop over the inner dimension; leaves the tile in float32."""
    product = frame.product
    float32 = context.values[product.left].dtype == "float32"
    precision = f', input_precision="{"tf32" if context.precision == "tf32" else "ieee"}"' if float32 else ""
    chained = context.knobs["accumulate"] == "chained"
    dot = f"acc = tl.dot(left, right, acc{precision})" if chained else f"acc += tl.dot(left, right{precision})"
    batch = [" + batch * left_stride_b", " + batch * right_stride_b"] if frame.batch else ["", ""]
    return [
        "inner = tl.arange(0, BLOCK_K)",
        f"left_rows = left_ptr{batch[0]} + row * left_stride_m",
        f"right_cols = right_ptr{batch[1]} + col * right_stride_n",
        "acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)",
        f"for start in range({first}, {last}, BLOCK_K):",
        "    k = start + inner",
        f"    left = tl.load(left_rows + k[None, :] * left_stride_k, mask=row_mask & (k[None, :] < {last}), other=0.0)",
        f"    right = tl.load(right_cols + k[:, None] * right_stride_k, mask=(k[:, None] < {last}) & col_mask, other=0.0)",
        f"    {dot}",
        f"{product.out} = acc",
    ]


def _epilogue(context: Context, frame: _Frame) -> list[str]:
    lines = [statement(context, node, frame.runs, frame.sizes) for node in context.group.nodes if node.kind != "product"]
    return [*lines, *(store_line(store, frame.runs, frame.sizes) for store in context.group.stores)]


def _used(context: Context, lines: list[str]) -> tuple[list[str], list[str]]:
    params, tensors = pointers(context)
    pairs = [(param, tensor) for param, tensor in zip(params, tensors, strict=True) if mentioned(lines, param)]
    return [param for param, _ in pairs], [tensor for _, tensor in pairs]


def _host(context: Context, frame: _Frame) -> list[str]:
    product, sources = frame.product, dim_sources(context)
    shape = context.group.frame

    def size(dims: tuple[int, ...]) -> str:
        return size_expression(dims, sources, shape)

    rest = [f"{name} = {size(dims)}" for name, dims in frame.sizes.used.items() if name not in {"m_size", "n_size"}]
    left, right = (_flattened(context, frame, name, side) for name, side in ((product.left, "left"), (product.right, "right")))
    batches = [f"batches = {size(frame.batch)}"] if frame.batch else []
    lines = [*output_lines(context), f"m_size = {size(frame.rows)}", f"n_size = {size(frame.column)}", *batches, *rest, left, right]
    return [*lines, "k_size = left.shape[-1]"]


def _flattened(context: Context, frame: _Frame, name: str, side: str) -> str:
    """The operand in two dims, or three with a batch; its strides may be anything."""
    rank = len(context.values[name].shape)
    if frame.batch:
        return f"{side} = {name}" if rank == 3 else f"{side} = {name}.reshape(-1, {name}.shape[-2], {name}.shape[-1])"
    return f"{side} = {name}" if rank == 2 else f"{side} = {name}.reshape(-1, {name}.shape[-1])"


def _grid(context: Context, frame: _Frame) -> str:
    tiles = f"triton.cdiv(m_size, {context.knob('BLOCK_M')}) * triton.cdiv(n_size, {context.knob('BLOCK_N')})"
    return tiles + (" * batches" if frame.batch else "")


def _options(context: Context, constants: list[str]) -> list[str]:
    return [
        ", ".join(f"{name}={context.knob(name)}" for name in constants),
        f"num_warps={context.knob('num_warps')}, num_stages={context.knob('num_stages')}",
    ]


def _write_split(context: Context, frame: _Frame) -> Written:
    """Two kernels: partial sums of every tile in a float32 workspace, then their sum with the epilogue."""
    product, splits = frame.product, context.knob("SPLIT_K")
    every = tuple(dim for dim in range(len(context.group.frame)) if context.group.frame[dim] != ONE)
    lines = [
        "tile = tl.program_id(0) // SPLIT_K",
        "split = tl.program_id(0) % SPLIT_K",
        *_counts(),
        *_place(context, frame, grouped=False),
        *_indices(context),
        "# Each split is a whole number of blocks; the last ones may be empty.",
        "chunk = tl.cdiv(tl.cdiv(k_size, SPLIT_K), BLOCK_K) * BLOCK_K",
        "first = split * chunk",
        "last = tl.minimum(first + chunk, k_size)",
        *_multiply(context, frame, "first", "last")[:-1],
        "part = split.to(tl.int64) * numel" + (" + batch * m_size * n_size" if frame.batch else ""),
        "tl.store(parts_ptr + part + row * n_size + col, acc, mask=row_mask & col_mask)",
    ]
    constants = [*_TILE, "SPLIT_K"]
    params = ["left_ptr", "right_ptr", "parts_ptr", "m_size", "n_size", "k_size", "numel", *frame.strides]
    kernel = f"{context.name}_partial_kernel"
    partial = jit_source(kernel, [*params, *(f"{name}: tl.constexpr" for name in constants)], _doc("split_k"), lines)
    first = "left, right, parts, m_size, n_size, k_size, numel"
    grid = f"{_grid(context, frame)} * {splits}"
    launch = launch_lines(kernel, grid, [first, ", ".join(frame.stride_values), *_options(context, constants)])
    finish, finish_launch, size_lines = _sum_of_parts(context, every, splits)
    host = [
        *_host(context, frame),
        f"numel = m_size * n_size{' * batches' if frame.batch else ''}",
        f"parts = torch.empty(({splits}, numel), dtype=torch.float32, device={product.left}.device)",
        *size_lines,
    ]
    return written(context, [partial, finish], "Runs the split product, then the sum of its parts.", [*host, *launch, *finish_launch])


def _sum_of_parts(context: Context, every: tuple[int, ...], splits: int) -> tuple[str, list[str], list[str]]:
    sizes = Sizes(context.group.frame, {every: "numel"})
    runs = [Run(tuple(range(len(context.group.frame))), "offsets", "mask")]
    product = _product_of(context)
    cast = ".to(tl.int64)" if _wide(context) else ""
    lines = [
        f"offsets = tl.program_id(0){cast} * BLOCK + tl.arange(0, BLOCK)",
        "mask = offsets < numel",
        "acc = tl.zeros([BLOCK], tl.float32)",
        "for split in range(SPLIT_K):",
        "    acc += tl.load(parts_ptr + tl.full([], split, tl.int64) * numel + offsets, mask=mask, other=0.0)",
        f"{product.out} = acc",
        *(statement(context, node, runs, sizes) for node in context.group.nodes if node.kind != "product"),
        *(store_line(store, runs, sizes) for store in context.group.stores),
    ]
    kernel = f"{context.name}_sum_kernel"
    used, tensors = _used(context, lines)
    extra = [name for name in sizes.used if name != "numel"]
    params = ["parts_ptr", *used, "numel", *extra, "SPLIT_K: tl.constexpr", "BLOCK: tl.constexpr"]
    source = jit_source(kernel, params, "Each program sums the parts of a block of elements and computes all that follows.", lines)
    sources = dim_sources(context)
    size_lines = [f"{name} = {size_expression(sizes.used[name], sources, context.group.frame)}" for name in extra]
    arguments = [", ".join(["parts", *tensors, "numel", *extra]), f"SPLIT_K={splits}, BLOCK=1024", "num_warps=4"]
    return source, launch_lines(kernel, "triton.cdiv(numel, 1024)", arguments), size_lines
