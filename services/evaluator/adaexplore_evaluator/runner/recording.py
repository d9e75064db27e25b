"""Dispatch modes that record a candidate's ATen calls: while numbers are judged, and at full shape without doing the work."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from adaexplore_evaluator.runner.costs import base_name, cost_of, is_allocation, may_alias
from adaexplore_evaluator.runner.precision import with_operands_of_products
from adaexplore_evaluator.runner.printing import line_in
from adaexplore_evaluator.runner.triton_cpu import NotInterpretable
from adaexplore_evaluator.runner.wire import map_tensors, tensors_of

SMALL_BYTES = 1 << 20
REAL_FALLBACK_BYTES = 1 << 28
_PAGE_BYTES = 4096
_MAP_NORESERVE = 0x4000  # Python names it from 3.13 on
_FILLED = frozenset({"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"})
_NOT_RESIZABLE = "not resizable"
_READS_VALUES = frozenset({"_local_scalar_dense", "item", "equal", "is_nonzero"})

Keywords = Mapping[str, Any] | None


@dataclass(frozen=True)
class OperatorCall:
    """One ATen call that computes; `position` is the number of Triton launches before it, `line` the candidate's line, 0 if unknown."""

    name: str
    position: int
    line: int
    bytes_read: int
    bytes_written: int
    flops: float


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records ATen calls that compute; views and allocations are not recorded."""

    def __init__(self, path: str, launches: Callable[[], int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[OperatorCall] = []
        self._path = path
        self._launches = launches
        self._paused = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is compiled, and the wrapper costs time on every call

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in the body."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def _record(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: object) -> None:
        if self._paused or is_allocation(func) or base_name(func) in _READS_VALUES:
            return
        cost = cost_of(func, args, kwargs, result, view=False)
        line = line_in(self._path)
        self.calls.append(OperatorCall(str(func), self._launches(), line, cost.bytes_read, cost.bytes_written, cost.flops))


class JudgeMode(_Recorder):  # type: ignore[no-untyped-call]
    """Runs every call; fresh memory of `torch.empty` and its kin holds finite values that `poison` decides.

    `placed` may put a fresh tensor elsewhere: it takes one and returns its like, uninitialised, or the tensor itself.
    """

    def __init__(self, path: str, launches: Callable[[], int], poison: int, placed: Callable[[Any], Any] | None = None) -> None:
        super().__init__(path, launches)
        self._poison = poison
        self._placed = placed

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Keywords = None) -> Any:
        keywords = kwargs or {}
        result = self._called(func, with_operands_of_products(func, args), keywords)
        if is_allocation(func):
            result = self._placed(result) if self._placed else result
            for tensor in tensors_of(result):
                poison_memory(tensor, self._poison)
                if tensor.is_cuda:  # fresh memory is not ordered after anything: a stream that waits for no other may write to it at once
                    torch.cuda.current_stream().synchronize()
        elif not _is_view(func, args, result):
            self._record(func, args, keywords, result)
            if self._placed and base_name(func) in _FILLED:
                result = _moved(result, self._placed(result))
        return result

    def _called(self, func: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The call's result; memory that was placed elsewhere and cannot grow as torch's own does is replaced by such as can."""
        try:
            return func(*args, **keywords)
        except RuntimeError as error:
            if _NOT_RESIZABLE not in str(error) or not made_resizable(tensors_of([list(args), dict(keywords)])):
                raise
        return func(*args, **keywords)


def made_resizable(tensors: Sequence[torch.Tensor]) -> bool:
    """Give tensors whose storage cannot grow one of the same bytes that can; False if there is none among them."""
    stiff = [tensor for tensor in tensors if not tensor.untyped_storage().resizable()]
    for tensor in stiff:
        old = tensor.untyped_storage()
        # The call that failed has already given the tensor its new shape.
        elements = tensor.storage_offset() + 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        grown = torch.empty(max(elements * tensor.element_size(), old.nbytes()), dtype=torch.uint8, device=tensor.device)
        grown[: old.nbytes()].copy_(torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(old))
        tensor.set_(grown.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    return bool(stiff)


class FullShapeMode(_Recorder):  # type: ignore[no-untyped-call]
    """Runs views and small calls, and gives every other call results on lazily mapped memory that reads as zeros.

    `allocated` is told the address of each.
    """

    def __init__(self, path: str, launches: Callable[[], int], allocated: Callable[[int], None]) -> None:
        super().__init__(path, launches)
        self._allocated = allocated

    def _lazy(self, meta: torch.Tensor) -> torch.Tensor:
        made = lazy_like(meta)
        self._allocated(made.untyped_storage().data_ptr())
        return made

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Keywords = None) -> Any:
        keywords = dict(kwargs or {})
        if is_allocation(func):
            return map_tensors(_on_meta(func, args, keywords), self._lazy)
        if base_name(func) in _READS_VALUES:
            return func(*args, **keywords)
        result = self._answer(func, args, keywords)
        if not _is_view(func, args, result):
            self._record(func, args, keywords, result)
        return result

    def _answer(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        operands = tensors_of([list(args), kwargs])
        written = _written(func, args, kwargs)
        if written and _bytes(operands) > SMALL_BYTES:
            return written[0] if len(written) == 1 else tuple(written)
        try:
            made = _on_meta(func, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            return self._by_value(func, args, kwargs, operands, error)
        if _bytes(operands) + _bytes(tensors_of(made)) <= SMALL_BYTES or _aliases(func, args, kwargs, made):
            return func(*args, **kwargs)
        return map_tensors(made, self._lazy)

    def _by_value(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], operands: list[torch.Tensor], error: Exception) -> Any:
        """Results whose shape depends on values are computed where that costs little; so is what fails, to fail as it should."""
        if _bytes(operands) <= REAL_FALLBACK_BYTES:
            return func(*args, **kwargs)
        raise NotInterpretable(str(func), line_in(self._path), f"its result depends on values at full shape ({error})") from error


def warm_up() -> None:
    """Run something small, so that the first candidate does not pay for the meta kernels that torch imports on the way."""
    with FullShapeMode("", lambda: 0, lambda _address: None):
        torch.softmax(torch.empty(1024, 1024) + 1.0, 1)


def lazy_like(meta: torch.Tensor) -> torch.Tensor:
    """A tensor of the same dtype, shape and strides on memory that is mapped when it is touched and never reserved."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(meta.shape, meta.stride(), strict=True)) if meta.numel() else 0
    return lazy_tensor(meta.dtype, tuple(meta.shape), tuple(meta.stride()), extent)


def lazy_tensor(dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], storage_elements: int) -> torch.Tensor:
    """A tensor on lazily mapped memory of `storage_elements` elements that reads as zeros."""
    size = storage_elements * dtype.itemsize
    if size == 0:
        return torch.empty_strided(shape, strides, dtype=dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    memory = mmap.mmap(-1, -(-size // _PAGE_BYTES) * _PAGE_BYTES, flags=flags)
    return torch.frombuffer(memory, dtype=torch.uint8, count=size).view(dtype).as_strided(shape, strides)


def poison_memory(tensor: torch.Tensor, poison: int) -> None:
    """Fill fresh memory with one finite value that differs between poisons."""
    if tensor.dtype is torch.bool:
        tensor.fill_(bool(poison & 1))
    elif tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_((1 if poison & 1 else -1) * (3.0 + poison % 89))
    else:
        tensor.fill_(11 + poison % 97)


def _moved(source: Any, target: Any) -> Any:
    return source if target is source else target.copy_(source)


def _on_meta(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The call's result on the meta device, where operands that share memory still share it."""
    known: dict[int, torch.Tensor] = {}

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in known:
                known[id(value)] = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            return known[id(value)]
        if isinstance(value, list | tuple):
            return type(value)(convert(item) for item in value)
        return torch.device("meta") if isinstance(value, torch.device) else value

    keywords = {name: convert(value) for name, value in kwargs.items()}
    operands = tensors_of([list(args), dict(kwargs)])
    if not operands and any(argument.name == "device" for argument in func._schema.arguments):
        keywords["device"] = torch.device("meta")
    keywords.pop("pin_memory", None)
    return func(*(convert(value) for value in args), **keywords)


def _aliases(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: object) -> bool:
    """True if the call only views its operands: by schema, and for what copies when it must, by its result's memory."""
    if not may_alias(func):
        return False
    if func.is_view or base_name(func) == "_unsafe_view":
        return True
    operand, results = next(iter(tensors_of(list(args))), None), tensors_of(made)
    return operand is not None and bool(results) and all(tuple(result.stride()) == tuple(operand.stride()) for result in results)


def _is_view(func: Any, args: Sequence[Any], result: object) -> bool:
    if not may_alias(func):
        return False
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors_of(list(args))}
    return all(tensor.untyped_storage().data_ptr() in storages for tensor in tensors_of(result))


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Operands that the call writes to and returns."""
    given = [*args, *(kwargs.get(argument.name) for argument in func._schema.arguments[len(args) :])]
    pairs = zip(func._schema.arguments, given, strict=False)
    marked = [value for argument, value in pairs if argument.alias_info is not None and argument.alias_info.is_write]
    return tensors_of(marked) if len(func._schema.returns) <= len(tensors_of(marked)) else []


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(math.prod(tensor.shape) * tensor.element_size() for tensor in tensors)
