"""The operator graph of a task, as the estimate reads it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from adaexplore_evaluator.devices.cpu import constants as k
from adaexplore_evaluator.devices.cpu import operator_names as names
from adaexplore_evaluator.devices.cpu.operators import DeviceKernel, Kind, base_name, eager_kernels, is_view, kind_of

_ELEMENT_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1, "BOOL": 1, "8_E4M3FN": 1, "8_E5M2": 1, "128": 16}
# Proto numbers of DType in order.
_DTYPES = "FLOAT32 FLOAT64 FLOAT32 FLOAT16 BFLOAT16 FLOAT8_E4M3FN FLOAT8_E5M2 INT64 INT32 INT16 INT8 UINT8 BOOL COMPLEX64 COMPLEX128"


class MalformedGraphError(ValueError):
    """A graph record lacks a field or names a value that it does not declare."""


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor: its shape, bytes an element, and whether a call makes it (else it is an input, parameter, buffer or constant).

    `contiguous` is False where its elements do not lie row by row in one piece.
    """

    name: str
    shape: tuple[int, ...]
    element_bytes: int
    computed: bool
    contiguous: bool = True

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call; `arguments` keeps literals as Python values and tensors as None, in schema order."""

    operator: str
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    flops: float
    bytes_read: float
    bytes_written: float
    tensor_arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """Values by name, calls in execution order, names of the outputs."""

    values: Mapping[str, Value]
    calls: tuple[Call, ...]
    outputs: tuple[str, ...]


def parse_graph(record: Mapping[str, Any]) -> Graph:
    """A graph from a record with the field names of the OperatorGraph message; raises MalformedGraphError."""
    try:
        values = {str(value["name"]): _parse_value(value) for value in record.get("values", ())}
        calls = tuple(_parse_call(call) for call in record.get("calls", ()))
        outputs = tuple(str(name) for name in record.get("outputs", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedGraphError(f"operator graph is malformed: {error!r}") from error
    named = [name for call in calls for name in (*call.inputs, *call.results)] + list(outputs)
    missing = sorted(set(named) - values.keys())
    if missing:
        raise MalformedGraphError(f"operator graph names undeclared values: {', '.join(missing[:5])}")
    return Graph(values=values, calls=calls, outputs=outputs)


def row_elements(call: Call, values: Mapping[str, Value]) -> int:
    """Elements that one result of a reduction (or one row of a norm or softmax) is computed from; 1 without tensors."""
    if not call.inputs:
        return 1
    source = values[call.inputs[0]]
    name = base_name(call.operator)
    if "softmax" in name or name in names.SCANS:
        return math.prod(source.shape[dim] for dim in _dims(call, source))
    if name in names.NORMS:
        return max(source.elements // max(_statistics(call, name, source), 1), 1)
    if name == "cross_entropy_loss":
        return source.shape[1] if len(source.shape) > 1 else source.elements
    results = values[call.results[0]].elements if call.results else 1
    return max(source.elements // max(results, 1), 1)


def _statistics(call: Call, name: str, source: Value) -> int:
    """Means that a normalisation takes: one a row, a group or a channel."""
    if "group_norm" in name:
        return source.shape[0] * _groups(call)
    if name == "instance_norm":
        return math.prod(source.shape[:2])
    if "batch_norm" in name:
        return source.shape[1] if len(source.shape) > 1 else 1
    normalized = call.arguments[1] if len(call.arguments) > 1 else None
    return source.elements // max(math.prod(normalized) if isinstance(normalized, tuple) else source.shape[-1], 1)


def reduces_inner_axes(call: Call, values: Mapping[str, Value]) -> bool:
    """True if the reduced axes are the last ones, so that a row lies in one piece."""
    source = values[call.inputs[0]]
    name = base_name(call.operator)
    if name in names.NORMS:
        return "batch_norm" not in name
    if name == "cross_entropy_loss":
        return len(source.shape) <= 2
    dims = _dims(call, source)
    return not dims or sorted(dims) == list(range(len(source.shape) - len(dims), len(source.shape)))


def kernels_of(call: Call, values: Mapping[str, Value]) -> tuple[DeviceKernel, ...]:
    """Device kernels that the call launches in eager mode."""
    if launches_nothing(call):
        return ()
    source = values[call.inputs[0]] if call.inputs else None
    element_bytes = source.element_bytes if source else 4
    kind = kind_of(call.operator)
    if "batch_norm" in base_name(call.operator) and _flag(call, 5) is False:
        return (DeviceKernel(call.operator, Kind.POINTWISE, call.bytes_read, call.bytes_written, call.flops),)
    row = row_elements(call, values) if kind is Kind.REDUCTION else 0
    kernels = eager_kernels(
        call.operator, call.bytes_read, call.bytes_written, call.flops, row_bytes=row * element_bytes, element_bytes=element_bytes
    )
    if source and _is_row_by_row(call):
        kernels = tuple(replace(kernel, blocks=source.elements // max(row, 1)) if kernel.kind is kind else kernel for kernel in kernels)
    if kind is Kind.POINTWISE and _is_strided(call, values):
        kernels = tuple(replace(kernel, memory_share=k.ATEN_STRIDED_SHARE) for kernel in kernels)
    if kind is Kind.CONVOLUTION and has_bias(call):
        bias = DeviceKernel(f"{call.operator} bias", Kind.POINTWISE, call.bytes_written, call.bytes_written)
        kernels = (*kernels, bias)
    return kernels


def _is_strided(call: Call, values: Mapping[str, Value]) -> bool:
    """True for pointwise calls that ATen cannot vectorise: an operand is broadcast or does not lie in one piece."""
    shapes = {values[name].shape for name in call.results}
    operands = [values[name] for name in call.inputs if values[name].elements > 1]
    return any(not operand.contiguous or operand.shape not in shapes for operand in operands)


def _is_row_by_row(call: Call) -> bool:
    """True for operators whose kernels in eager mode give each row to one block, however few rows there are."""
    name = base_name(call.operator)
    return name in names.NORMS or "softmax" in name or name == "cross_entropy_loss"


def launches_nothing(call: Call) -> bool:
    """True for views and for what inference mode turns into one, such as dropout."""
    if "dropout" in base_name(call.operator) and _flag(call, 2) is False:
        return True
    return is_view(call.operator, call.bytes_written)


def has_bias(call: Call) -> bool:
    """True if a linear layer or a convolution has its third operand."""
    return 2 in call.tensor_arguments


def _flag(call: Call, position: int) -> bool | None:
    names = {2: ("train", "training"), 5: ("training",)}
    for name in names[position]:
        if name in call.keywords:
            return bool(call.keywords[name])
    value = call.arguments[position] if len(call.arguments) > position else None
    return value if isinstance(value, bool) else None


def _groups(call: Call) -> int:
    position = 6 if base_name(call.operator) == "native_group_norm" else 1
    value = call.arguments[position] if len(call.arguments) > position else None
    return value if isinstance(value, int) and value > 0 else 1


def _dims(call: Call, source: Value) -> tuple[int, ...]:
    value = call.keywords.get("dim")
    position = 2 if base_name(call.operator) in {"linalg_vector_norm", "norm"} else 1
    if value is None and len(call.arguments) > position:
        value = call.arguments[position]
    if isinstance(value, bool) or not isinstance(value, int | tuple):
        return ()
    dims = (value,) if isinstance(value, int) else value
    rank = max(len(source.shape), 1)
    return tuple(dim % rank for dim in dims if isinstance(dim, int))


def _parse_value(record: Mapping[str, Any]) -> Value:
    kind = record.get("type") or {}
    shape = tuple(int(extent) for extent in kind.get("shape", ()))
    return Value(
        name=str(record["name"]),
        shape=shape,
        element_bytes=_element_bytes(kind.get("dtype", "FLOAT32")),
        computed=record.get("kind") in (5, "VALUE_KIND_RESULT", "RESULT", "result"),
        contiguous=_row_by_row(shape, tuple(int(stride) for stride in kind.get("strides", ()))),
    )


def _row_by_row(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=False):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def _element_bytes(dtype: Any) -> int:
    name = _DTYPES.split()[dtype] if isinstance(dtype, int) else str(dtype).upper().removeprefix("D_TYPE_").removeprefix("TORCH.")
    digits = name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ") or name
    if name.startswith("COMPLEX"):
        return int(digits) // 8
    if digits not in _ELEMENT_BYTES:
        raise ValueError(f"unknown dtype {dtype!r}")
    return _ELEMENT_BYTES[digits]


def _parse_call(record: Mapping[str, Any]) -> Call:
    positional = list(record.get("args", ()))
    keywords = dict(record.get("kwargs", {}))
    tensors = tuple(index for index, argument in enumerate(positional) if "value_name" in (argument or {}))
    inputs = dict.fromkeys(name for argument in (*positional, *keywords.values()) for name in _names(argument))
    return Call(
        operator=str(record["operator"]),
        inputs=tuple(inputs),
        results=tuple(str(name) for name in record.get("results", ())),
        arguments=tuple(_literal(argument) for argument in positional),
        keywords={str(name): _literal(argument) for name, argument in keywords.items()},
        flops=float(record.get("flops", 0.0)),
        bytes_read=float(record.get("bytes_read", 0)),
        bytes_written=float(record.get("bytes_written", 0)),
        tensor_arguments=tensors,
    )


def _names(argument: Mapping[str, Any] | None) -> Iterable[str]:
    if not argument:
        return
    if "value_name" in argument:
        yield str(argument["value_name"])
    for item in (argument.get("list_value") or {}).get("items", ()):
        yield from _names(item)


def _literal(argument: Mapping[str, Any] | None) -> Any:
    if not argument or "value_name" in argument:
        return None
    if "list_value" in argument:
        return tuple(_literal(item) for item in (argument["list_value"] or {}).get("items", ()))
    if "int_value" in argument:
        return int(argument["int_value"])
    return next((value for value in argument.values()), None)
