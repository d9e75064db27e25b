"""What a precision class means for inputs, state and arithmetic on the cpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from adaexplore_evaluator.runner.errors import ContractError
from adaexplore_evaluator.runner.seeding import default_dtype
from adaexplore_evaluator.runner.wire import map_tensors

TF32 = "tf32"
_CLASS_DTYPES = {"fp32": torch.float32, TF32: torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SMALL_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_TF32_DROPPED_BITS = 13
_NARROWING = frozenset({"float", "half", "bfloat16"})
_PRODUCTS = frozenset(
    {
        torch.ops.aten.mm.default,
        torch.ops.aten.addmm.default,
        torch.ops.aten.bmm.default,
        torch.ops.aten.baddbmm.default,
        torch.ops.aten.mv.default,
        torch.ops.aten.addmv.default,
        torch.ops.aten.dot.default,
        torch.ops.aten.linear.default,
        torch.ops.aten.matmul.default,
        torch.ops.aten.convolution.default,
        torch.ops.aten._convolution.default,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    }
)
_ADDEND_FIRST = frozenset({torch.ops.aten.addmm.default, torch.ops.aten.baddbmm.default, torch.ops.aten.addmv.default})


def class_dtype(precision: str) -> torch.dtype:
    """Dtype of floating point inputs and outputs in a precision class; ContractError for one this device cannot judge."""
    dtype = _CLASS_DTYPES.get(precision)
    if dtype is None:
        known = ", ".join(_CLASS_DTYPES)
        raise ContractError(f"precision class {precision!r} cannot be judged on the cpu device; use one of {known}")
    return dtype


def cast_value(value: object, dtype: torch.dtype) -> object:
    """The value with every floating point tensor cast to `dtype`; integers, truth values and complex numbers keep their dtype."""
    return map_tensors(value, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def cast_instance(instance: object, dtype: torch.dtype, only: torch.dtype | None = None) -> None:
    """Cast parameters, buffers and plain tensor attributes of a module, and of the modules within it, to `dtype`; tied ones stay tied.

    With `only`, what has another dtype than that keeps it.

    `Module.to` is not used: it swaps tensors in place, which fake tensors refuse while anything refers to them weakly.
    """
    if not isinstance(instance, torch.nn.Module):
        return
    done: dict[int, torch.Tensor] = {}
    for module in instance.modules():
        for name, value in [*module._parameters.items(), *module._buffers.items(), *vars(module).items()]:
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype not in (dtype, *_others(only)):
                setattr(module, name, done.setdefault(id(value), _cast(value, dtype)))


def _others(only: torch.dtype | None) -> tuple[torch.dtype, ...]:
    return () if only is None else tuple(dtype for dtype in (torch.float64, *_SMALL_FLOATS) if dtype is not only)


def round_to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 tensor with mantissas rounded to nearest even at 10 bits; other dtypes come back as they are."""
    if tensor.dtype is not torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    odd = (bits >> _TF32_DROPPED_BITS) & 1
    half = (1 << (_TF32_DROPPED_BITS - 1)) - 1
    rounded = ((bits + half + odd) & ~((1 << _TF32_DROPPED_BITS) - 1)).view(torch.float32)
    return torch.where(torch.isfinite(tensor), rounded, tensor)


def set_products(precision: str) -> None:
    """Set torch's switches for products and convolutions on a GPU as a class demands them: TF32 in `tf32` alone."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == TF32


def with_operands_of_products(func: Callable[..., object], args: Sequence[object]) -> Sequence[object]:
    """Arguments of an ATen call with the operands of products and convolutions rounded as torch's switches have a GPU do it."""
    if func not in _PRODUCTS:
        return args
    switches: Any = torch.backends
    place = switches.cudnn.conv if "convolution" in str(func) else switches.cuda.matmul
    return _with_rounded_operands(func, args) if place.fp32_precision == TF32 else args


@contextmanager
def computing(precision: str, compute: str) -> Iterator[torch.dtype]:
    """Run the body in `float64`, or in the `class`; gives the dtype that floating point inputs and state must have."""
    if compute == "float64":
        with default_dtype(torch.float64), _WideningMode(), torch.no_grad():
            yield torch.float64
    elif compute == "class":
        with _rounding(precision), torch.no_grad():
            yield class_dtype(precision)
    else:
        raise ContractError(f"{compute!r} is no way to compute; use float64 or class")


@contextmanager
def _rounding(precision: str) -> Iterator[None]:
    if precision != TF32:
        yield
        return
    with _Tf32Mode():  # type: ignore[no-untyped-call]
        yield


class _Tf32Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds the operands of every matrix product to TF32, as the tensor cores of the class do."""

    def __torch_dispatch__(
        self, func: Callable[..., object], types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        return func(*(_with_rounded_operands(func, args) if func in _PRODUCTS else args), **(kwargs or {}))


class _WideningMode(TorchFunctionMode):
    """Computes in float64 what a reference asks to compute in a smaller floating point type."""

    def __torch_function__(
        self, func: Callable[..., object], types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        if getattr(func, "__name__", "") in _NARROWING and args and isinstance(args[0], torch.Tensor):
            return args[0].double()
        wide_args = [_widened(value) for value in args]
        return func(*wide_args, **{name: _widened(value) for name, value in (kwargs or {}).items()})


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    cast = tensor.detach().to(dtype)
    return torch.nn.Parameter(cast, requires_grad=tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else cast


def _with_rounded_operands(func: Callable[..., object], args: Sequence[object]) -> Sequence[object]:
    first = 1 if func in _ADDEND_FIRST else 0
    last = first + (3 if "attention" in str(func) else 2)
    return [_rounded(value) if first <= place < last else value for place, value in enumerate(args)]


def _rounded(value: object) -> object:
    return round_to_tf32(value) if isinstance(value, torch.Tensor) else value


def _widened(value: object) -> object:
    return torch.float64 if isinstance(value, torch.dtype) and value in _SMALL_FLOATS else value
