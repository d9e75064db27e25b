"""What Triton's host side asks of a GPU driver, answered for a target that is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from .targets import Target


class _Utilities:
    """`driver.active.utils`: what persistent kernels size their grid by."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """The target's limits under Triton's names."""
        target = self._target
        return {
            "max_shared_mem": target.shared_limit_bytes,
            "max_num_regs": target.registers_per_multiprocessor,
            "multiprocessor_count": target.multiprocessors,
            "warpSize": target.warp_size,
            "arch": str(target.arch),
        }


class AbsentGpu(DriverBase):  # type: ignore[misc]
    """A driver that knows its target and launches nothing."""

    def __init__(self, target: Target, benchmark: Callable[..., Sequence[float]]) -> None:
        super().__init__()
        self._target = target
        self._benchmark = benchmark
        self.utils = _Utilities(target)

    @classmethod
    def is_active(cls) -> bool:
        """It is, inside of a session."""
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Never needed: no launcher is built."""
        raise NotImplementedError(ty)

    def get_current_target(self) -> GPUTarget:
        """The target of the session."""
        return self._target.gpu_target

    def get_current_device(self) -> int:
        """Device 0, the only one."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Compute capability; (0, 0) on AMD."""
        arch = self._target.arch
        return (arch // 10, arch % 10) if isinstance(arch, int) else (0, 0)

    def get_active_torch_device(self) -> torch.device:
        """Where Triton would allocate."""
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """PyTorch's device module."""
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        """Runs a configuration once and answers the session's ranking."""
        return self._benchmark
