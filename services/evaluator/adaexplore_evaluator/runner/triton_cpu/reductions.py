"""tl.reduce and tl.associative_scan over whole blocks at a time.

A reduction combines neighbours pairwise, halving the block: log₂(n) calls of the combine function on blocks, in the order of the
elements, so that an associative but not commutative function is right too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import standard

from .counting import OperationCounter
from .numerics import Array
from .values import Value

Combine = Callable[..., Any]
Tensors = Sequence[tl.tensor]


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def wrap(data: Array, dtype: tl.dtype) -> tl.tensor:
    """Values as a Triton tensor; no dimensions means a scalar."""
    if data.ndim == 0:
        return tl.tensor(Value(data.reshape(1), dtype), dtype)
    return tl.tensor(Value(data, dtype), tl.block_type(dtype, list(data.shape)))


def _combine(function: Combine, lhs: Sequence[Array], rhs: Sequence[Array], dtypes: Sequence[tl.dtype]) -> list[Array]:
    operands = [wrap(data, dtype) for data, dtype in zip((*lhs, *rhs), (*dtypes, *dtypes), strict=True)]
    result = function(*operands)
    parts = [result] if isinstance(result, tl.tensor) else list(getattr(result, "values", None) or result)
    return [np.broadcast_to(part.handle.data, lhs[0].shape) for part in parts]


def _pairwise(function: Combine, blocks: list[Array], dtypes: Sequence[tl.dtype]) -> list[Array]:
    # The reduced axis is the last one.
    while (length := blocks[0].shape[-1]) > 1:
        even = length - length % 2
        combined = _combine(function, [b[..., 0:even:2] for b in blocks], [b[..., 1:even:2] for b in blocks], dtypes)
        blocks = [np.concatenate([c, b[..., even:]], axis=-1) for c, b in zip(combined, blocks, strict=True)]
    return [block[..., 0] for block in blocks]


def _first_extreme(function: Combine) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    if function is standard._argmax_combine_tie_break_left:
        return np.argmax, np.max
    if function is standard._argmin_combine_tie_break_left:
        return np.argmin, np.min
    return None


def _fast(function: Combine, blocks: list[Array], dtypes: Sequence[tl.dtype]) -> list[Array] | None:
    """The reduction of numpy where it means the same, else None."""
    block, name = blocks[0], dtypes[0].name
    if function is standard._sum_combine and name in ("fp32", "fp64"):
        return [np.sum(block, axis=-1, dtype=block.dtype)]
    if function is standard._sum_combine and dtypes[0].is_int() and name != "int1":
        return [np.sum(block, axis=-1, dtype=block.dtype)]
    if function is standard._elementwise_max and name != "bf16":
        return [np.fmax.reduce(block, axis=-1)]
    if function is standard._elementwise_min and name != "bf16":
        return [np.fmin.reduce(block, axis=-1)]
    extreme = _first_extreme(function)
    if extreme is not None and not (block.dtype.kind == "f" and np.isnan(block).any()):
        position = extreme[0](block, axis=-1)
        index = np.take_along_axis(blocks[1], np.expand_dims(position, -1), axis=-1)[..., 0]
        return [extreme[1](block, axis=-1), index]
    return None


def reduce_blocks(
    tensors: Tensors, axis: int | None, function: Combine, keep_dims: bool, counter: OperationCounter | None
) -> list[tl.tensor]:
    """Reduce along `axis` (None: over everything) with a combine function of scalars."""
    dtypes = [tensor.dtype for tensor in tensors]
    blocks = [tensor.handle.data for tensor in tensors]
    rank = blocks[0].ndim
    if counter is not None and dtypes[0].is_floating():
        counter.elementwise(blocks[0].size)
    blocks = [np.moveaxis(block, axis, -1) if axis is not None else block.reshape(-1) for block in blocks]
    reduced = _fast(function, blocks, dtypes) or _pairwise(function, blocks, dtypes)
    results = [np.asarray(block).astype(source.dtype, copy=False) for block, source in zip(reduced, blocks, strict=True)]
    if keep_dims:
        results = [r.reshape((1,) * rank) if axis is None else np.expand_dims(r, axis) for r in results]
    return [wrap(result, dtype) for result, dtype in zip(results, dtypes, strict=True)]


def _inclusive_scan(function: Combine, blocks: list[Array], dtypes: Sequence[tl.dtype]) -> list[Array]:
    length, step = blocks[0].shape[-1], 1
    while step < length:
        # Blocks keep their power-of-two length: the combine function sees the first `step` elements too, its answer there is dropped.
        combined = _combine(function, [np.roll(b, step, axis=-1) for b in blocks], blocks, dtypes)
        blocks = [np.concatenate([b[..., :step], c[..., step:]], axis=-1) for b, c in zip(blocks, combined, strict=True)]
        step *= 2
    return blocks


def _fast_scan(function: Combine, block: Array, dtype: tl.dtype) -> Array | None:
    if dtype.name not in ("fp32", "fp64", "int32", "int64", "uint32", "uint64"):
        return None
    if function is standard._sum_combine:
        return np.cumsum(block, axis=-1, dtype=block.dtype)
    if function is standard._prod_combine:
        return np.cumprod(block, axis=-1, dtype=block.dtype)
    return None


def scan_blocks(tensors: Tensors, axis: int, function: Combine, reverse: bool, counter: OperationCounter | None) -> list[tl.tensor]:
    """Inclusive scan along `axis`, from the end where `reverse`."""
    dtypes = [tensor.dtype for tensor in tensors]
    blocks = [np.moveaxis(tensor.handle.data, axis, -1) for tensor in tensors]
    if counter is not None and dtypes[0].is_floating():
        counter.elementwise(blocks[0].size)
    if reverse:
        blocks = [block[..., ::-1] for block in blocks]
    fast = _fast_scan(function, blocks[0], dtypes[0])
    scanned = [fast] if fast is not None else _inclusive_scan(function, blocks, dtypes)
    if reverse:
        scanned = [block[..., ::-1] for block in scanned]
    return [wrap(np.ascontiguousarray(np.moveaxis(block, -1, axis)), dtype) for block, dtype in zip(scanned, dtypes, strict=True)]


class BlockReductions:
    """tl.reduce and tl.associative_scan as the interpreted language sees them."""

    def __init__(self, counter: Callable[[], OperationCounter | None]) -> None:
        self._counter = counter

    def reduce(self, input: Any, axis: Any, combine_fn: Combine, keep_dims: Any = False, **_: Any) -> Any:  # noqa: A002 - Triton's name
        """tl.reduce: a tensor for a tensor, a tuple for a tuple."""
        single = isinstance(input, tl.tensor)
        tensors = [input] if single else list(getattr(input, "values", input))
        results = reduce_blocks(tensors, _plain(axis), combine_fn, bool(_plain(keep_dims)), self._counter())
        return results[0] if single else tuple(results)

    def associative_scan(self, input: Any, axis: Any, combine_fn: Combine, reverse: Any = False, **_: Any) -> Any:  # noqa: A002 - Triton's name
        """tl.associative_scan: a tensor for a tensor, a tuple for a tuple."""
        single = isinstance(input, tl.tensor)
        tensors = [input] if single else list(getattr(input, "values", input))
        results = scan_blocks(tensors, _plain(axis), combine_fn, bool(_plain(reverse)), self._counter())
        return results[0] if single else tuple(results)
