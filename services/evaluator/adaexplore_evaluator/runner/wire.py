"""Value trees of the runner protocol: Python values and tensors as JSON, tensor storages as files in a shared folder.

Both sides of the protocol use this module. Nothing here is unpickled, and every size and stride of a tree is checked against
the file that it names before a byte is read.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Tree = dict[str, object]
Value = object
TensorMaker = Callable[["TensorSpec"], torch.Tensor]

MAX_DEPTH = 32
MAX_NODES = 200_000
MAX_RANK = 32
MAX_INT64 = 2**63 - 1
_BUFFER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
        "complex64",
        "complex128",
    )
}
DTYPE_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


_SCALARS: tuple[tuple[type, str, Callable[[Any], object]], ...] = (
    (bool, "bool", bool),  # before int, which it is a kind of
    (int, "int", int),
    (float, "float", lambda number: repr(float(number))),
    (str, "str", str),
    (torch.device, "device", str),
)
_RESTORED: dict[str, tuple[type, Callable[[Any], object]]] = {
    "bool": (bool, bool),
    "int": (int, int),
    "float": (str, float),
    "str": (str, str),
    "device": (str, torch.device),
}


class WireError(Exception):
    """A tree, or the value to be sent, does not fit the protocol."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a tree, validated: its view lies within its storage."""

    buffer: str | None
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage_elements: int
    parameter: bool

    @property
    def storage_bytes(self) -> int:
        """Size of the storage in bytes."""
        return self.storage_elements * self.dtype.itemsize


class BufferFolder:
    """One side's view of the shared folder: writes storages as files under its own prefix and maps those of the other side."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._count = 0

    def encode(self, value: Value) -> Tree:
        """The tree of a value; tensors that share a storage share a file. WireError for what the protocol cannot carry."""
        written: dict[int, str] = {}

        def place(tensor: torch.Tensor) -> str:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in written:
                written[key] = self._write(tensor)
            return written[key]

        return _encode(value, place)

    def decode(self, tree: object, shared: bool = True) -> Value:
        """The value of a tree; `shared` maps the files so that writes are seen by both sides, else their bytes are copied.

        A side that does not trust the other copies: a mapped file that is truncated kills the process that reads it.
        """
        opened: dict[str, torch.Tensor] = {}

        def make(spec: TensorSpec) -> torch.Tensor:
            if spec.buffer is None:
                raise WireError("a tensor without a buffer is a type only; values are needed here")
            if spec.buffer not in opened:
                opened[spec.buffer] = self._read(spec.buffer, spec.storage_bytes, shared)
            return _view(opened[spec.buffer], spec)

        return decode_with(tree, make)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files of the folder; names that are gone already are fine."""
        for name in names:
            (self._folder / _buffer_name(name)).unlink(missing_ok=True)

    def write_bytes(self, data: bytes) -> str:
        """Write a file of the folder that holds no tensor, and return its name."""
        name, fd = self._create()
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        return name

    def _write(self, tensor: torch.Tensor) -> str:
        storage = tensor.untyped_storage()
        if storage.device.type != "cpu":
            raise WireError("a tensor without memory of the host cannot be sent")
        size = storage.nbytes() // tensor.element_size() * tensor.element_size()
        name, fd = self._create()
        try:
            # Not through a mapping: a full disk, or a side that truncates the file meanwhile, would kill the writer.
            rest = memoryview((ctypes.c_ubyte * size).from_address(storage.data_ptr())).cast("B") if size else memoryview(b"")
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)
        return name

    def _create(self) -> tuple[str, int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            name = f"{self._prefix}{self._count}"
            self._count += 1
            try:
                return name, os.open(self._folder / name, flags, 0o666)
            except FileExistsError:  # a child that a candidate forked may have taken the name
                continue

    def _read(self, name: str, announced: int, shared: bool) -> torch.Tensor:
        flags = os.O_RDWR if shared else os.O_RDONLY
        try:
            # Without O_NONBLOCK a pipe put in the file's place would keep its reader waiting.
            fd = os.open(self._folder / _buffer_name(name), flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise WireError(f"buffer {name} cannot be opened: {error.strerror}") from error
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise WireError(f"buffer {name} is not a regular file")
            if info.st_size != announced:
                raise WireError(f"buffer {name} has {info.st_size} bytes, {announced} were announced")
            if info.st_size == 0:
                return torch.empty(0, dtype=torch.uint8)
            if shared:
                return torch.frombuffer(mmap.mmap(fd, info.st_size), dtype=torch.uint8)
            return _copy_file(fd, name, info.st_size)
        finally:
            os.close(fd)


def encode_types(value: Value) -> Tree:
    """The tree of a value with every tensor as a type only; tensors may live on the meta device."""
    return _encode(value, None)


def encode_with(value: Value, place: Callable[[torch.Tensor], str]) -> Tree:
    """The tree of a value whose tensors' storages `place` puts somewhere under the name that it returns."""
    return _encode(value, place)


def decode_with(tree: object, make: TensorMaker) -> Value:
    """The value of a tree whose tensors `make` supplies from their validated specs."""
    budget = [MAX_NODES]
    return _decode(tree, make, MAX_DEPTH, budget)


def tensor_spec(tree: Tree) -> TensorSpec:
    """The validated spec of a tensor tree; WireError if a field is missing, mistyped or points outside the storage."""
    shape = _sizes(tree, "shape")
    strides = _sizes(tree, "strides")
    offset = _size(tree.get("offset", 0), "offset")
    elements = _size(tree.get("storage_elements", 0), "storage_elements")
    buffer = tree.get("buffer")
    if buffer is not None:
        buffer = _buffer_name(buffer)
    if len(shape) != len(strides) or len(shape) > MAX_RANK:
        raise WireError("shape and strides differ in length, or the rank is too large")
    extent = _extent(shape, strides, offset)
    if buffer is not None and extent > elements:
        raise WireError(f"the view needs {extent} elements, the storage has {elements}")
    dtype = _dtype(tree.get("dtype"))
    if max(extent, elements) * dtype.itemsize > MAX_INT64:
        raise WireError("the tensor is too large")
    return TensorSpec(buffer, dtype, shape, strides, offset, elements, tree.get("parameter") is True)


def tensors_of(value: Value) -> list[torch.Tensor]:
    """Every tensor of a value, depth first, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_of(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_of(item)]
    return []


def map_tensors(value: Value, change: Callable[[torch.Tensor], torch.Tensor]) -> Value:
    """The same value with every tensor replaced by `change(tensor)`."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list):
        return [map_tensors(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple(map_tensors(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def _encode(value: Value, place: Callable[[torch.Tensor], str] | None, depth: int = MAX_DEPTH) -> Tree:
    if depth == 0:
        raise WireError("the value is nested too deeply")
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value, place)
    if isinstance(value, list | tuple):
        return {"t": "list" if isinstance(value, list) else "tuple", "items": [_encode(item, place, depth - 1) for item in value]}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise WireError("a dictionary with keys that are no strings cannot be sent")
        return {"t": "dict", "items": [[key, _encode(item, place, depth - 1)] for key, item in value.items()]}
    return _encode_scalar(value)


def _encode_scalar(value: Value) -> Tree:
    if value is None:
        return {"t": "none"}
    for python_type, kind, plain in _SCALARS:
        if isinstance(value, python_type):
            return {"t": kind, "v": plain(value)}
    if isinstance(value, torch.dtype) and value in DTYPE_NAMES:
        return {"t": "dtype", "v": DTYPE_NAMES[value]}
    raise WireError(f"a value of type {type(value).__name__} cannot be sent")


def _encode_tensor(tensor: torch.Tensor, place: Callable[[torch.Tensor], str] | None) -> Tree:
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPE_NAMES:
        raise WireError(f"a tensor of layout {tensor.layout} and dtype {tensor.dtype} cannot be sent")
    plain = tensor.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    tree: Tree = {"t": "tensor"}
    if place is not None:
        tree["buffer"] = place(plain)
    return tree | {
        "dtype": DTYPE_NAMES[plain.dtype],
        "shape": list(plain.shape),
        "strides": list(plain.stride()),
        "offset": plain.storage_offset(),
        "storage_elements": plain.untyped_storage().nbytes() // plain.element_size(),
        "parameter": isinstance(tensor, torch.nn.Parameter),
    }


def _decode(tree: object, make: TensorMaker, depth: int, budget: list[int]) -> Value:
    budget[0] -= 1
    if depth == 0 or budget[0] < 0:
        raise WireError("the tree is too deep or too large")
    if not isinstance(tree, dict):
        raise WireError("a tree must be an object")
    kind = tree.get("t")
    if kind == "tensor":
        return make(tensor_spec(tree))
    if kind in ("list", "tuple"):
        items = [_decode(item, make, depth - 1, budget) for item in _items(tree)]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {key: _decode(item, make, depth - 1, budget) for key, item in map(_pair, _items(tree))}
    return _decode_scalar(kind, tree.get("v"))


def _decode_scalar(kind: object, value: object) -> Value:
    if kind == "none":
        return None
    if kind == "dtype":
        return _dtype(value)
    expected, restore = _RESTORED.get(str(kind), (None, str))
    if type(value) is not expected:
        raise WireError(f"a tree of kind {kind!r} does not fit the protocol")
    try:
        return restore(value)
    except (ValueError, RuntimeError) as error:
        raise WireError(f"{value!r} is not a {kind}") from error


def _view(raw: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    if raw.numel() != spec.storage_bytes:
        raise WireError(f"buffer {spec.buffer} has {raw.numel()} bytes, {spec.storage_bytes} were announced")
    if raw.numel() == 0:
        return torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype)
    tensor = raw.view(spec.dtype).as_strided(spec.shape, spec.strides, spec.offset)
    return torch.nn.Parameter(tensor, requires_grad=False) if spec.parameter else tensor


def _copy_file(fd: int, name: str, size: int) -> torch.Tensor:
    raw = torch.empty(size, dtype=torch.uint8)
    target = raw.numpy().data
    done = 0
    while done < size:
        count = os.preadv(fd, [target[done:]], done)
        if count == 0:
            raise WireError(f"buffer {name} became shorter while it was read")
        done += count
    return raw


def _extent(shape: Sequence[int], strides: Sequence[int], offset: int) -> int:
    if 0 in shape:
        return 0
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _sizes(tree: Tree, field: str) -> tuple[int, ...]:
    values = tree.get(field)
    if not isinstance(values, list):
        raise WireError(f"{field} must be a list")
    return tuple(_size(value, field) for value in values)


def _size(value: object, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INT64:
        raise WireError(f"{field} must hold integers from 0 to 2**63 - 1")
    return value


def _dtype(name: object) -> torch.dtype:
    if not isinstance(name, str) or name not in DTYPES:
        raise WireError(f"{name!r} is not a dtype of the protocol")
    return DTYPES[name]


def _buffer_name(name: object) -> str:
    if not isinstance(name, str) or not _BUFFER_NAME.match(name):
        raise WireError("a buffer name is letters, digits, - and _, up to 64 of them")
    return name


def _items(tree: Tree) -> list[object]:
    items = tree.get("items")
    if not isinstance(items, list):
        raise WireError("items must be a list")
    return items


def _pair(item: object) -> tuple[str, object]:
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
        raise WireError("an item of a dictionary is a list of a string and a tree")
    return item[0], item[1]
