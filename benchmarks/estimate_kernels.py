"""Hand-written Triton kernels whose traffic and arithmetic are known exactly; measured beside the example tasks."""

# ruff: noqa: N803 (compile-time constants of a Triton kernel are written in capitals)

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask), mask=mask)


@triton.jit
def l2_read_kernel(x, y, n, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(PASSES):
        start = ((program + step * 37) % (n // BLOCK)) * BLOCK
        total += tl.load(x + start + tl.arange(0, BLOCK))
    tl.store(y + program * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def exponentials_kernel(x, y, n, REPEATS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)
    for _ in range(REPEATS):
        value = tl.exp2(value * -0.5)
    tl.store(y + offsets, value, mask=offsets < n)


@triton.jit
def atomics_kernel(x, y, n, addresses, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)
    tl.atomic_add(y + offsets % addresses, value, mask=offsets < n)


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + offsets, mask=offsets < columns, other=float("-inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * columns + offsets, value / tl.sum(value, 0), mask=offsets < columns)


@triton.jit
def softmax_two_pass_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + offsets, mask=offsets < columns, other=float("-inf"))
        fresh = tl.maximum(largest, value)
        total = total * tl.exp(largest - fresh) + tl.exp(value - fresh)
        largest = fresh
    top = tl.max(largest, 0)
    scale = tl.sum(total * tl.exp(largest - top), 0)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0)
        tl.store(y + row * columns + offsets, tl.exp(value - top) / scale, mask=offsets < columns)


@triton.jit
def gelu_tanh(value):
    inner = 0.7978845608028654 * (value + 0.044715 * value * value * value)
    return value / (1.0 + tl.exp(-2.0 * inner))


@triton.jit
def bias_gelu_residual_kernel(x, bias, residual, y, n, features, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask) + tl.load(bias + offsets % features, mask=mask)
    tl.store(y + offsets, tl.load(residual + offsets, mask=mask) + gelu_tanh(value), mask=mask)


@triton.jit
def matmul_kernel(
    a, b, bias, residual, c, m, n, k, EPILOGUE: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """c = epilogue(a @ b.T + bias), with b stored as (n, k)."""
    program = tl.program_id(0)
    rows, columns = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = program // (GROUP * columns)
    height = tl.minimum(rows - group * GROUP, GROUP)
    row = group * GROUP + (program % (GROUP * columns)) % height
    column = (program % (GROUP * columns)) // height
    at_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    at_n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    at_k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        left = tl.load(a + at_m[:, None] * k + start + at_k[None, :])
        right = tl.load(b + at_n[None, :] * k + start + at_k[:, None])
        total = tl.dot(left, right, total, input_precision=PRECISION)
    total += tl.load(bias + at_n)[None, :].to(tl.float32)
    at = at_m[:, None].to(tl.int64) * n + at_n[None, :]
    if EPILOGUE == "relu":
        total = tl.maximum(total, 0.0)
    if EPILOGUE == "gelu_residual":
        total = tl.load(residual + at).to(tl.float32) + gelu_tanh(total)
    tl.store(c + at, total.to(c.dtype.element_ty))
