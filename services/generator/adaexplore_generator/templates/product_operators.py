"""Matrix products of ATen in the intermediate form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adaexplore_generator.templates.builder import CallReader
from adaexplore_generator.templates.ir import FLOATS, UnsupportedError

Lowering = Callable[[CallReader], tuple[str, ...]]


def _checked(call: CallReader, *names: str) -> None:
    dtypes = {call.builder.values[name].dtype for name in names}
    if len(dtypes) != 1 or not dtypes <= FLOATS:
        raise UnsupportedError(f"a product of {sorted(dtypes)}")


def _product(call: CallReader, left: str, right: str, *, transposed: bool = False) -> str:
    _checked(call, left, right)
    left_rank, right_rank = len(call.builder.shape(left)), len(call.builder.shape(right))
    if left_rank < 2 or right_rank < 2:
        raise UnsupportedError("a product with a vector")
    batched = right_rank > 2
    if batched and call.builder.shape(left)[:-2] != call.builder.shape(right)[:-2]:
        raise UnsupportedError("a product that broadcasts its batch")
    return call.builder.product(left, right, transposed=transposed, batched=batched, hint=call.result)


def _linear(call: CallReader) -> tuple[str, ...]:
    result = _product(call, call.tensor(0, "input"), call.tensor(1, "weight"), transposed=True)
    bias = call.tensor_or_none(2, "bias")
    return (result if bias is None else call.builder.map("add", result, bias, hint=call.result),)


def _matmul(call: CallReader) -> tuple[str, ...]:
    return (_product(call, call.tensor(0, "self"), call.tensor(1, "other")),)


def _addmm(call: CallReader) -> tuple[str, ...]:
    return _biased(call, _product(call, call.tensor(1, "mat1"), call.tensor(2, "mat2")))


def _biased(call: CallReader, result: str) -> tuple[str, ...]:
    builder, bias = call.builder, call.float_tensor(0, "self")
    beta, alpha = _factors(call)
    result = result if alpha == 1.0 else builder.map("mul", result, alpha)
    bias = bias if beta == 1.0 else builder.map("mul", bias, beta)
    return (builder.map("add", result, bias, hint=call.result),)


def _factors(call: CallReader) -> tuple[float, float]:
    return call.number(3, "beta", 1), call.number(4, "alpha", 1)


def without_bias(call: CallReader) -> tuple[str, ...]:
    """`addmm` or `baddbmm` as a plain product of the library with the addition behind it, where a kernel can have it for less.

    UnsupportedError if the library adds what is added for nothing: a vector of `addmm` goes into its epilogue. Anything else it copies to
    the result first, and then reads and writes that once more.
    """
    base = call.call.operator.split(".")[1]
    plain = {"addmm": "mm", "baddbmm": "bmm"}.get(base)
    if plain is None:
        raise UnsupportedError("a product without an addition of its own")
    if base == "addmm" and len(call.builder.shape(call.tensor(0, "self"))) == 1 and _factors(call) == (1.0, 1.0):
        raise UnsupportedError("an addition that the library has for nothing")
    left, right = call.tensor(1, "mat1"), call.tensor(2, "mat2")
    return _biased(call, call.builder.library_product(f"aten.{plain}.default", left, right, call.result))


PRODUCTS: Mapping[str, Lowering] = {
    "linear": _linear,
    "mm": _matmul,
    "matmul": _matmul,
    "bmm": _matmul,
    "addmm": _addmm,
    "baddbmm": _addmm,
}
