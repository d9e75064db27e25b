"""A CUDA device that is not there: host code written for a GPU runs on CPU memory and sees `cuda:0` of the compilation target.

Tensors answer `is_cuda` and `device` as on a GPU; those that the code made on the cpu stay there, as they would: mixing both in one
operator is the RuntimeError a GPU raises. Memory, arithmetic and streams are the cpu's; everything is synchronous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from adaexplore_evaluator.runner.cuda_api import CudaApi

_MARK = "_adaexplore_on_cpu"
_CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_DEVICE_KINDS = (torch.device, str, int)
# What a GPU does with operands on both sides, besides what takes scalars from the cpu.
_MAY_MIX = frozenset(
    """copy_ to type_as __setitem__ __getitem__ index_put_ index_put set_ __set__ __get__ expand_as view_as reshape_as is_same_size
    size stride dim numel""".split()  # noqa: SIM905 - a list of names reads better as words
)
_FIRST_DECIDES = frozenset({"__getitem__", "copy_", "expand_as", "view_as", "reshape_as"})
_FROM_CPU_MEMORY = frozenset({"from_numpy", "frombuffer", "from_file"})
_FROM_HOST_VALUES = frozenset({"tensor", "as_tensor", "asarray"})
_TO_HOST_VALUES = frozenset({"tolist", "item", "__array__", "__float__", "__int__", "__bool__", "__index__", "equal", "allclose"})

Keywords = Mapping[str, Any] | None


def on_cpu(tensor: torch.Tensor) -> bool:
    """True for a tensor that the code under the virtual device put on the cpu."""
    return bool(tensor.__dict__.get(_MARK, False))


def mark_on_cpu(tensor: torch.Tensor, cpu: bool) -> None:
    """Say on which side a tensor lives."""
    if cpu:
        tensor.__dict__[_MARK] = True
    else:
        tensor.__dict__.pop(_MARK, None)


class VirtualCudaMode(TorchFunctionMode):
    """Function mode that gives tensors their virtual device.

    `default_cpu` is where a factory without a device puts its tensor: on the cpu, as in a call of a kernel, or on the device, as
    during construction, after which a module is moved there anyway.

    Attributes:
        moved_bytes: What calls have copied between both sides so far.

    """

    def __init__(self, default_cpu: bool) -> None:
        super().__init__()
        self._default_cpu = default_cpu
        self.moved_bytes = 0

    def __torch_function__(self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Keywords = None) -> Any:
        special = _SPECIAL.get(func)
        if special is not None:
            result = special(*args, **(kwargs or {}))
            self._count(args[:1], result)
            return result
        keywords = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        requested = _named_device(keywords.get("device"))
        if requested is not None:
            keywords["device"] = _CPU
        keywords.pop("pin_memory", None)
        operands = list(_tensors([*args, *keywords.values()]))
        _refuse_mixture(name, operands)
        result = func(*args, **keywords)
        self._place(name, result, operands, requested)
        self._count(operands, result if name in _FROM_HOST_VALUES else None, to_host=name in _TO_HOST_VALUES)
        return result

    def _count(self, operands: Sequence[Any], result: object, to_host: bool = False) -> None:
        """Count what a call copied: operands of both sides, a result on the other side, or values that Python gives or gets."""
        sides = {on_cpu(tensor) for tensor in _tensors(operands)}
        made = list(_tensors([result]))
        if len(sides) == 2 or (to_host and False in sides):
            self.moved_bytes += min(_bytes(tensor) for tensor in _tensors(operands))
        elif made and on_cpu(made[0]) not in (sides or {True}):  # values that Python holds come from the host
            self.moved_bytes += _bytes(made[0])

    def _place(self, name: str, result: Any, operands: list[torch.Tensor], requested: torch.device | None) -> None:
        known = {id(operand) for operand in operands}
        made = [tensor for tensor in _tensors([result]) if id(tensor) not in known]
        if not made:
            return
        if requested is not None:
            cpu = requested.type == "cpu"
        elif operands:
            deciding = operands[:1] if name in _FIRST_DECIDES else operands
            cpu = all(on_cpu(operand) for operand in deciding)
        else:
            cpu = self._default_cpu or name in _FROM_CPU_MEMORY
        for tensor in made:
            mark_on_cpu(tensor, cpu)


class CpuOnlyMode(TorchFunctionMode):
    """Function mode for a task that names a GPU: what it puts there stays on the cpu, and says so."""

    def __torch_function__(self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Keywords = None) -> Any:
        keywords = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            _, rest, keywords = _split_device(tuple(args[1:]), keywords)
            return func(args[0], *rest, **keywords) if rest or keywords else args[0]
        if _named_device(keywords.get("device")) is not None:
            keywords["device"] = _CPU
        keywords.pop("pin_memory", None)
        return func(*args, **keywords)


@contextmanager
def virtual_cuda(api: CudaApi, default_cpu: bool) -> Iterator[VirtualCudaMode]:
    """Run the body with the virtual device: `torch.cuda` answers for the target, tensors for `cuda:0`."""
    replaced = [(module, name, getattr(module, name), value) for module, name, value in api.replacements() if hasattr(module, name)]
    for module, name, _, value in replaced:
        setattr(module, name, value)
    try:
        with VirtualCudaMode(default_cpu) as mode:
            yield mode
    finally:
        for module, name, before, value in replaced:
            if getattr(module, name) is value:  # what else stands there now is for others to see
                setattr(module, name, before)


def refuse_cpu_pointers(arguments: Iterable[object]) -> None:
    """The ValueError that a launch on a GPU raises for a tensor on the cpu."""
    for number, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor) and on_cpu(argument):
            raise ValueError(f"Pointer argument (at {number}) cannot be accessed from Triton (cpu tensor?)")


def _refuse_mixture(name: str, operands: list[torch.Tensor]) -> None:
    if name in _MAY_MIX or len(operands) < 2:
        return
    sides = {on_cpu(operand) for operand in operands if operand.dim() > 0}
    if len(sides) == 2:
        raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!")


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _device(tensor: torch.Tensor) -> torch.device:
    return _CPU if on_cpu(tensor) else _CUDA


def _to_cuda(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    if not on_cpu(tensor):
        return tensor
    moved = tensor.clone()
    mark_on_cpu(moved, False)
    return moved


def _to_cpu(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    if on_cpu(tensor):
        return tensor
    moved = tensor.clone()
    mark_on_cpu(moved, True)
    return moved


def _to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    device, rest, keywords = _split_device(args, kwargs)
    moved = tensor.to(*rest, **keywords) if rest or keywords else tensor
    if moved is not tensor:
        mark_on_cpu(moved, on_cpu(tensor))
    if device is None or (device.type == "cpu") == on_cpu(tensor):
        return moved
    if moved is tensor:
        return _to_cpu(tensor) if device.type == "cpu" else _to_cuda(tensor)
    mark_on_cpu(moved, device.type == "cpu")
    return moved


def _split_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.device | None, list[Any], dict[str, Any]]:
    """The device that a call of `Tensor.to` asks for, and its other arguments."""
    keywords = {name: value for name, value in kwargs.items() if name not in ("device", "non_blocking", "other")}
    rest = list(args)
    wanted = kwargs.get("device")
    other = kwargs.get("other")
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], _DEVICE_KINDS) and not isinstance(rest[0], bool):
        wanted = rest.pop(0)
    elif rest and rest[0] is None:
        rest.pop(0)
    if other is not None:
        return _device(other), [other.dtype], keywords
    dtypes = [value for value in rest if isinstance(value, torch.dtype)]
    return _named_device(wanted), dtypes, keywords


def _named_device(wanted: object) -> torch.device | None:
    """The cpu or the virtual device if one of them is named; an integer is a device's index."""
    if not isinstance(wanted, _DEVICE_KINDS):
        return None
    device = torch.device("cuda", wanted) if isinstance(wanted, int) else torch.device(wanted)
    return device if device.type in ("cpu", "cuda") else None


def _numpy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if not on_cpu(tensor):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.")
    return tensor.numpy(*args, **kwargs)


def _pin(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    return tensor


_SPECIAL: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.Tensor.is_cuda.__get__: lambda tensor, *_: not on_cpu(tensor),  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda tensor, *_: on_cpu(tensor),  # type: ignore[attr-defined]
    torch.Tensor.device.__get__: lambda tensor, *_: _device(tensor),
    torch.Tensor.get_device: lambda tensor: -1 if on_cpu(tensor) else 0,
    torch.Tensor.cuda: _to_cuda,
    torch.Tensor.cpu: _to_cpu,
    torch.Tensor.to: _to,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.pin_memory: _pin,
    torch.Tensor.record_stream: lambda *_: None,
}
