"""Floating point operations and bytes of one ATen operator call, from the types of its operands and results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from adaexplore_evaluator.runner.wire import tensors_of

_FLOPS_PER_ELEMENT: dict[str, float] = {
    "batch_norm": 8,
    "elu": 3,
    "exp": 4,
    "gelu": 10,
    "group_norm": 8,
    "hardswish": 4,
    "instance_norm": 8,
    "layer_norm": 8,
    "log": 4,
    "log_softmax": 9,
    "logsumexp": 7,
    "mish": 14,
    "pow": 4,
    "rms_norm": 5,
    "selu": 4,
    "sigmoid": 6,
    "silu": 7,
    "softmax": 8,
    "softplus": 9,
    "tanh": 8,
    "cross_entropy_loss": 9,
}
# fmt: off
_NO_ARITHMETIC = frozenset({
    "clone", "copy", "copy_", "contiguous", "to", "_to_copy", "cat", "stack", "embedding", "index", "index_select", "gather",
    "scatter", "fill", "fill_", "zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like", "full", "full_like", "arange",
    "rand", "randn", "new_zeros", "new_ones", "new_empty", "repeat", "pad", "constant_pad_nd", "roll", "flip", "detach",
    "lift_fresh_copy", "triu", "tril", "zero_",
})
# fmt: on


@dataclass(frozen=True)
class Cost:
    """What one call costs: floating point operations, and bytes of its tensor operands and results; views move nothing."""

    flops: float
    bytes_read: int
    bytes_written: int
    view: bool


def cost_of(func: object, args: Sequence[object], kwargs: Mapping[str, object], result: object, view: bool) -> Cost:
    """The cost of a call of an ATen overload whose tensors may be real, fake or meta."""
    if view:
        return Cost(0.0, 0, 0, True)
    operands = _distinct([*tensors_of(list(args)), *tensors_of(dict(kwargs))])
    results = tensors_of(result)
    name = base_name(func)
    if is_allocation(func):
        return Cost(0.0, 0, 0, True)
    return Cost(_flops(name, args, operands, results), sum(map(tensor_bytes, operands)), sum(map(tensor_bytes, results)), False)


def base_name(func: object) -> str:
    """Name of an ATen operator without namespace and overload, for example `linear`."""
    schema = getattr(func, "_schema", None)
    return str(schema.name).rpartition("::")[2] if schema is not None else str(getattr(func, "__name__", func))


def is_allocation(func: object) -> bool:
    """True for `empty` and its kin, which reserve memory and compute nothing."""
    return base_name(func) in _ALLOCATIONS


def may_alias(func: object) -> bool:
    """True if an overload's schema lets a result share memory with an operand that it does not write to."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return False
    if base_name(func) == "_unsafe_view":  # a view by what it does, though its schema says otherwise
        return True
    infos = [item.alias_info for item in schema.returns]
    return any(info is not None and not info.is_write for info in infos)


def is_view_call(func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """True if the call only makes views of its operands; operators that copy when they must are tried on the meta device."""
    if not may_alias(func):
        return False
    meta_args = [_to_meta(item) for item in args]
    meta_kwargs = {name: _to_meta(item) for name, item in kwargs.items()}
    try:
        made = tensors_of(func(*meta_args, **meta_kwargs))
    except (RuntimeError, NotImplementedError):
        return True
    storages = {tensor.untyped_storage()._cdata for tensor in tensors_of([meta_args, meta_kwargs])}
    return bool(made) and all(tensor.untyped_storage()._cdata in storages for tensor in made)


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes that hold a tensor's elements; expanded dimensions count once."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in pairs if stride != 0 or size == 0) * tensor.element_size()


_ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})


def _flops(name: str, args: Sequence[object], operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> float:
    produced = float(sum(result.numel() for result in results))
    product = _product_flops(name, args, operands, produced)
    if product is not None:
        return product
    if name in _NO_ARITHMETIC:
        return 0.0
    largest = max((operand.numel() for operand in operands), default=0)
    return max(float(largest), produced) * _FLOPS_PER_ELEMENT.get(name.strip("_").removeprefix("native_"), 1.0)


def _product_flops(name: str, args: Sequence[object], operands: Sequence[torch.Tensor], produced: float) -> float | None:
    """Flops of an operator made of multiply-adds, two each; None for any other."""
    flops: float | None = None
    if name in ("mm", "bmm", "matmul", "mv", "dot", "inner", "linear"):
        bias = produced if name == "linear" and len(operands) > 2 else 0.0
        flops = 2.0 * produced * _inner_extent(operands) + bias
    elif name in ("addmm", "baddbmm", "addmv", "addbmm"):
        flops = 2.0 * produced * operands[1].shape[-1] + 2.0 * produced
    elif name.startswith("conv") or name == "_convolution":
        flops = _convolution_flops(name, args, operands, produced)
    elif name == "einsum":
        flops = _einsum_flops(args, operands)
    elif "scaled_dot_product" in name:
        flops = 4.0 * operands[0].numel() * operands[1].shape[-2]
    elif name in ("lstm", "gru", "rnn_tanh", "rnn_relu", "mkldnn_rnn_layer"):
        steps = operands[0].numel() / max(1, operands[0].shape[-1])
        flops = 2.0 * steps * sum(weight.numel() for weight in operands if weight.dim() == 2)
    return flops


def _inner_extent(operands: Sequence[torch.Tensor]) -> int:
    return operands[0].shape[-1] if operands and operands[0].dim() else 1


def _convolution_flops(name: str, args: Sequence[object], operands: Sequence[torch.Tensor], produced: float) -> float:
    """Multiply-adds per output element are the weight's elements per output channel; transposed ones count per input element."""
    weight = operands[1]
    transposed = "transpose" in name or (len(args) > 6 and args[6] is True)
    bias = produced if len(operands) > 2 else 0.0
    per_element = weight.numel() / max(1, weight.shape[0])
    return 2.0 * per_element * (operands[0].numel() if transposed else produced) + bias


def _einsum_flops(args: Sequence[object], operands: Sequence[torch.Tensor]) -> float:
    equation = str(args[0]).replace(" ", "").replace("...", "")
    extents: dict[str, int] = {}
    for letters, operand in zip(equation.partition("->")[0].split(","), operands, strict=False):
        extents.update(zip(letters, operand.shape[operand.dim() - len(letters) :], strict=False))
    return 2.0 * math.prod(extents.values()) if extents else 0.0


def _distinct(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _to_meta(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, list | tuple):
        return type(value)(_to_meta(item) for item in value)
    if isinstance(value, dict):
        return {key: _to_meta(item) for key, item in value.items()}
    return torch.device("meta") if isinstance(value, torch.device) else value
