"""Stand-alone kernels: reproducers and repairs."""

from __future__ import annotations

from collections.abc import Sequence

from adaexplore_memory.domain import Snippet

LIBDEVICE = "from triton.language.extra import libdevice"
_INPUTS = ("x", "y", "z")


def pointwise(expression: str, *, imports: Sequence[str] = (), arity: int = 1, block: int = 1024) -> Snippet:
    """Return a kernel that writes an expression of the blocks `x`, `y`, `z` (as many as the arity), float32 in and out."""
    return block_kernel([f"result = {expression}"], imports=imports, arity=arity, block=block)


def block_kernel(
    lines: Sequence[str], *, imports: Sequence[str] = (), before: Sequence[str] = (), arity: int = 1, block: int = 1024
) -> Snippet:
    """Return a kernel whose lines make `result` from the blocks `x`, `y`, `z`; `n` and `BLOCK` are at hand.

    Args:
        lines: Statements of the body, indented relative to it.
        imports: Import lines beside the usual two.
        before: Lines at module level, ahead of the kernel.
        arity: How many input blocks there are, 1 to 3.
        block: Value of `BLOCK`.

    """
    inputs = _INPUTS[:arity]
    arguments = ", ".join(f"{name}_ptr" for name in inputs)
    loads = [f"{name} = tl.load({name}_ptr + offsets, mask=mask, other=1.0)" for name in inputs]
    body = [
        "offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offsets < n",
        *loads,
        *lines,
        "tl.store(result_ptr + offsets, result, mask=mask)",
    ]
    head = ["import triton", "import triton.language as tl", *imports, *([""] if before else []), *before]
    definition = ["@triton.jit", f"def kernel({arguments}, result_ptr, n, BLOCK: tl.constexpr):", *(f"    {line}" for line in body)]
    signature = {f"{name}_ptr": "*fp32" for name in inputs} | {"result_ptr": "*fp32", "n": "i32"}
    return Snippet("\n".join([*head, "", "", *definition, ""]), "kernel", signature, {"BLOCK": str(block)})


_MATMUL = """import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, steps):
    rows = tl.arange(0, {m})
    columns = tl.arange(0, {n})
    a_inner = tl.arange(0, {k})
    b_inner = tl.arange(0, {inner})
    sums = tl.zeros(({m}, {n}), dtype=tl.float32)
    for step in range(steps):
        a = tl.load(a_ptr + rows[:, None] * (steps * {k}) + step * {k} + a_inner[None, :])
        b = tl.load(b_ptr + (step * {inner} + b_inner)[:, None] * {n} + columns[None, :])
        sums += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * {n} + columns[None, :], sums)
"""


def matmul_kernel(m: int, n: int, k: int, *, other_k: int = 0, dtypes: tuple[str, str] = ("fp16", "fp16"), num_stages: int = 0) -> Snippet:
    """Return a kernel that multiplies blocks of m × k and k × n in a loop over `steps` blocks.

    Args:
        m: Rows of the first block.
        n: Columns of the second block.
        k: Columns of the first block.
        other_k: Rows of the second block; 0 means k.
        dtypes: Triton types of the two blocks.
        num_stages: Pipeline stages; 0 means the target's default.

    """
    source = _MATMUL.format(m=m, n=n, k=k, inner=other_k or k)
    signature = {"a_ptr": f"*{dtypes[0]}", "b_ptr": f"*{dtypes[1]}", "c_ptr": "*fp32", "steps": "i32"}
    return Snippet(source, "kernel", signature, {}, num_stages=num_stages)
