"""`torch.cuda` as host code sees it on the compilation target; synchronous, with one device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.utils.cpp_extension

from adaexplore_evaluator.runner.triton_cpu import NotInterpretable, Target
from adaexplore_evaluator.runner.virtual_streams import Timeline

_MEMORY_BYTES = 80 * 10**9
_NOTHING = ("empty_cache", "set_device", "init", "_lazy_init", "reset_peak_memory_stats", "manual_seed_all", "_sleep")
_ZERO = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_EMPTY_CONTEXTS = ("device", "device_of")


@dataclass(frozen=True)
class DeviceProperties:
    """The target's properties under the names that torch uses."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    gcnArchName: str  # noqa: N815 - torch's own spelling


class CudaApi:
    """What replaces names of `torch.cuda`, and of torch where it would reach for a compiler or a GPU, for one target."""

    def __init__(self, target: Target) -> None:
        self._properties = _properties(target)
        self._timeline = Timeline()

    def unseen_work(self) -> bool:
        """True if some stream has work that neither the default stream nor the host has waited for."""
        return self._timeline.unseen()

    def replacements(self) -> Iterator[tuple[ModuleType, str, Any]]:
        """Module, name and value of everything that is replaced."""
        # One function object for each name: torch's compiler refuses one under two names.
        for name in _NOTHING:
            yield torch.cuda, name, lambda *_, **__: None
        for name in _ZERO:
            yield torch.cuda, name, lambda *_, **__: 0
        for name in _EMPTY_CONTEXTS:
            yield torch.cuda, name, lambda *_, **__: nullcontext()
        yield from ((torch.cuda, name, value) for name, value in self._answers().items())
        # Compiled by inductor the code would run on the cpu's compiler; eager operators are what the estimate knows.
        yield torch, "compile", _uncompiled
        for name in ("load", "load_inline"):
            yield torch.utils.cpp_extension, name, _no_extension

    def _answers(self) -> dict[str, Any]:
        properties = self._properties
        return {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "is_bf16_supported": lambda *_, **__: properties.major >= 8,
            "device_count": lambda: 1,
            "get_device_name": lambda *_, **__: properties.name,
            "get_device_capability": lambda *_, **__: (properties.major, properties.minor),
            "get_device_properties": lambda *_, **__: properties,
            "get_arch_list": lambda: [f"sm_{properties.major}{properties.minor}"],
            "mem_get_info": lambda *_, **__: (properties.total_memory, properties.total_memory),
            "manual_seed": torch.default_generator.manual_seed,
            **self._timeline.names(),
        }


def _properties(target: Target) -> DeviceProperties:
    major, minor = _capability(target.name)
    return DeviceProperties(
        name=target.board,
        major=major,
        minor=minor,
        total_memory=_MEMORY_BYTES,
        multi_processor_count=target.multiprocessors,
        warp_size=target.warp_size,
        max_threads_per_multi_processor=target.threads_per_multiprocessor,
        max_threads_per_block=1024,
        regs_per_multiprocessor=target.registers_per_multiprocessor,
        shared_memory_per_block=min(49_152, target.shared_limit_bytes),
        shared_memory_per_block_optin=target.shared_limit_bytes,
        shared_memory_per_multiprocessor=target.shared_per_multiprocessor_bytes,
        L2_cache_size=target.l2_capacity_bytes,
        gcnArchName=target.name if target.backend == "hip" else "",
    )


def _capability(name: str) -> tuple[int, int]:
    """Major and minor from `sm_90` or `gfx942`; the last character is the minor, of AMD's the last but one."""
    digits = re.sub(r"^(sm_|gfx)", "", name)
    return (int(digits[0]), int(digits[1])) if name.startswith("gfx") else (int(digits[:-1]), int(digits[-1]))


def _uncompiled(model: Callable[..., object] | None = None, **_: object) -> Any:
    return (lambda function: function) if model is None else model


def _no_extension(*_: object, name: str = "extension", **__: object) -> None:
    raise NotInterpretable(str(name), 0, "C++ and CUDA extensions need a GPU and its compiler; judge it on a cuda device")
