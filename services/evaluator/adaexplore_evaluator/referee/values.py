"""What runners answer, read without trust."""

from __future__ import annotations

from collections.abc import Callable

import torch

from adaexplore_evaluator.referee.clock import CHECK
from adaexplore_evaluator.referee.verdicts import INCONCLUSIVE, Failure, Finding, StopError
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import DTYPE_NAMES, DTYPES, TensorSpec, Value, WireError, decode_with


class MalformedReplyError(Exception):
    """A field of a reply has another form than the protocol demands."""


class TooManyError(StopError, MalformedReplyError):
    """A list of a reply is longer than is read; no forgery, since a candidate may honestly launch that much.

    Args:
        name: What it lists.
        most: How many are read.

    """

    def __init__(self, name: str, most: int) -> None:
        message = f"one call reports more than {most} {name}, too many to be judged on this device; do the work in fewer, larger launches"
        super().__init__(Finding(INCONCLUSIVE, "NOT_INTERPRETABLE", CHECK, Failure(message)))


def leaves(value: Value) -> list[torch.Tensor]:
    """Tensors and numbers of a value, depth first; numbers as scalar tensors."""
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    if isinstance(value, bool | int | float):
        return [torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return []


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All elements from the tensor's first to its last in memory, each once, whatever its strides repeat."""
    plain = tensor.detach()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(plain.shape, plain.stride(), strict=True)) if plain.numel() else 0
    return plain.as_strided((extent,), (1,), plain.storage_offset())


def types_of(tree: object) -> list[tuple[str, tuple[int, ...]]]:
    """Dtype name and shape of each leaf of a tree, read without its buffers; MalformedReplyError if the tree breaks the protocol."""
    specs: list[TensorSpec] = []

    def note(spec: TensorSpec) -> torch.Tensor:
        specs.append(spec)
        return torch.empty(spec.shape, dtype=spec.dtype, device="meta")

    try:
        value = decode_with(tree, note)
    except (WireError, RuntimeError, OverflowError) as error:
        raise MalformedReplyError(str(error)) from error
    return [(DTYPE_NAMES[leaf.dtype], tuple(leaf.shape)) for leaf in leaves(value)]


def plain_dtype(name: object) -> str:
    """The wire's name of a dtype that a description names as the API's enum does."""
    return str(name).removeprefix("D_TYPE_").lower()


def plain_type(value: JsonObject) -> tuple[str, tuple[int, ...]]:
    """Dtype name and shape of a tensor type of a description; MalformedReplyError if it is none."""
    shape, dtype = value.get("shape"), plain_dtype(value.get("dtype"))
    if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape) or dtype not in DTYPES:
        raise MalformedReplyError("a description holds a malformed tensor type")
    return dtype, tuple(shape)


def check_storages(tree: object, limit_bytes: int) -> None:
    """MalformedReplyError if the storages that a tree names, each counted once, are larger than `limit_bytes` together."""
    sizes: dict[str | None, int] = {}

    def note(spec: TensorSpec) -> torch.Tensor:
        sizes[spec.buffer] = max(spec.storage_bytes, sizes.get(spec.buffer, 0))
        return torch.empty(0)

    try:
        decode_with(tree, note)
    except WireError as error:
        raise MalformedReplyError(str(error)) from error
    total = sum(sizes.values())
    if total > limit_bytes:
        raise MalformedReplyError(f"the storages of a reply take {total} bytes, more than {limit_bytes}")


def count(reply: JsonObject, name: str) -> int:
    """A field that is a number of things; MalformedReplyError if it is none."""
    value = reply.get(name)
    if type(value) is not int or value < 0:
        raise MalformedReplyError(f"{name} is no count")
    return value


def text(reply: JsonObject, name: str) -> str:
    """A string field; MalformedReplyError if it is none."""
    value = reply.get(name)
    if not isinstance(value, str):
        raise MalformedReplyError(f"{name} is no string")
    return value


def objects(reply: JsonObject, name: str, most: int = 20_000) -> list[JsonObject]:
    """A list of objects; MalformedReplyError if it is none, and TooManyError, a kind of it, if it is longer than `most`."""
    value = reply.get(name)
    if isinstance(value, list) and len(value) > most:
        raise TooManyError(name, most)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise MalformedReplyError(f"{name} is no list of objects")
    return value


def names(reply: JsonObject, name: str) -> list[str]:
    """A list of strings; MalformedReplyError if it is none."""
    value = reply.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise MalformedReplyError(f"{name} is no list of strings")
    return value


def map_storages(value: Value, change: Callable[[torch.Tensor], torch.Tensor]) -> Value:
    """The value with every floating point tensor rebuilt over a changed storage; shapes, strides and expansion stay.

    `change` gets the storage's elements as one dimension and gives as many of the same dtype.
    """
    if isinstance(value, torch.Tensor):
        if not value.is_floating_point() or value.numel() == 0:
            return value
        flat = value.detach().as_strided((value.untyped_storage().nbytes() // value.element_size(),), (1,), 0)
        changed = change(flat).as_strided(value.shape, value.stride(), value.storage_offset())
        return torch.nn.Parameter(changed, requires_grad=False) if isinstance(value, torch.nn.Parameter) else changed
    if isinstance(value, list):
        return [map_storages(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple(map_storages(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_storages(item, change) for key, item in value.items()}
    return value
