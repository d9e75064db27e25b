"""The GPUs that kernels are compiled for, with the limits that a launch is refused by.

Shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (opt-in maximum per block); CDNA ISA guides
(64 KiB LDS per workgroup). L2, multiprocessors and bandwidth: the vendors' datasheets of the board named beside each row.
"""

from __future__ import annotations

from dataclasses import dataclass

from triton.backends.compiler import GPUTarget


@dataclass(frozen=True)
class Target:
    """One compilation target; bandwidths are bytes/s, flops are per second, of the board in `board`."""

    name: str
    board: str
    backend: str
    arch: int | str
    warp_size: int
    shared_limit_bytes: int
    shared_per_multiprocessor_bytes: int
    l2_capacity_bytes: int
    multiprocessors: int
    registers_per_multiprocessor: int
    threads_per_multiprocessor: int
    dram_bytes_per_s: float
    flops_fp32_per_s: float
    flops_tensor_per_s: float

    @property
    def gpu_target(self) -> GPUTarget:
        """The target as Triton's compiler takes it."""
        return GPUTarget(self.backend, self.arch, self.warp_size)

    def resident_programs(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Programs that run at once on the whole GPU, at least one per multiprocessor."""
        by_threads = self.threads_per_multiprocessor // max(threads, 1)
        by_registers = self.registers_per_multiprocessor // max(threads * registers, 1)
        by_shared = self.shared_per_multiprocessor_bytes // max(shared_bytes, 1)
        return self.multiprocessors * max(1, min(by_threads, by_registers, by_shared, 32))


_MIB = 1 << 20
_ROWS = (
    Target("sm_80", "A100 80GB SXM", "cuda", 80, 32, 166_912, 167_936, 40 * _MIB, 108, 65_536, 2048, 2.039e12, 19.5e12, 312e12),
    Target("sm_86", "RTX A6000", "cuda", 86, 32, 101_376, 102_400, 6 * _MIB, 84, 65_536, 1536, 0.768e12, 38.7e12, 154.8e12),
    Target("sm_89", "L40S", "cuda", 89, 32, 101_376, 102_400, 96 * _MIB, 142, 65_536, 1536, 0.864e12, 91.6e12, 362e12),
    Target("sm_90", "H200 SXM", "cuda", 90, 32, 232_448, 233_472, 60 * _MIB, 132, 65_536, 2048, 4.8e12, 67e12, 989e12),
    Target("sm_100", "B200", "cuda", 100, 32, 232_448, 233_472, 126 * _MIB, 148, 65_536, 2048, 8.0e12, 75e12, 2250e12),
    Target("gfx90a", "MI250X (one die)", "hip", "gfx90a", 64, 65_536, 65_536, 8 * _MIB, 110, 131_072, 2048, 1.6e12, 23.9e12, 191.5e12),
    Target("gfx942", "MI300X", "hip", "gfx942", 64, 65_536, 65_536, 32 * _MIB, 304, 131_072, 2048, 5.3e12, 163.4e12, 1307.4e12),
)
TARGETS: dict[str, Target] = {row.name: row for row in _ROWS}


def find_target(name: str) -> Target:
    """The target called `name`, for example "sm_90"; ValueError that lists the known ones otherwise."""
    if name not in TARGETS:
        raise ValueError(f"unknown target {name!r}; known: {', '.join(TARGETS)}")
    return TARGETS[name]
