"""What a session on the cpu device reports: launches, resources, traffic, violations and typed failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triton.runtime.errors import OutOfResources

Mode = Literal["judge", "full", "compile_only"]
ViolationKind = Literal["out_of_bounds", "offset_overflow", "uninitialised", "race"]


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel occupies on the target.

    `registers` and `spill_bytes` are per thread; `shared_bytes` is per program (block), static and dynamic.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int
    num_warps: int
    num_ctas: int


@dataclass(frozen=True)
class Traffic:
    """What one launch moves and computes, extrapolated from `sampled_programs` of its `programs`.

    `l2_bytes` are all bytes requested from the memory system, in 32-byte sectors; the `dram_*` figures are what of them reaches device
    memory (the rule is in `traffic.py`). One multiplication or one addition is one flop; `flops_fp32_dot` is the part of `flops_fp32` that
    matrix products without tensor cores (`ieee`) make. `special_functions` counts exponentials, logarithms, roots, divisions and the
    like, one per element; `atomics` counts elements; `loop_iterations` those of all loops. `sampled_programs` 0 means: not known.
    """

    dram_read_bytes: int
    dram_write_bytes: int
    l2_bytes: int
    flops_fp32: int
    flops_fp32_dot: int
    flops_tensor_core: int
    tensor_core_dtype: str
    special_functions: int
    atomics: int
    loop_iterations: int
    sampled_programs: int
    programs: int


@dataclass(frozen=True)
class Launch:
    """One launch of a Triton kernel by the candidate's host code.

    `constexprs` maps names to Python literals (`repr`); `line` is the kernel's `def` in the candidate's file. `resources` is None where
    nothing was compiled, `traffic` None outside of full mode. Configurations that the autotuner only tried are not launches.
    """

    name: str
    grid: tuple[int, ...]
    constexprs: dict[str, str]
    num_warps: int
    num_stages: int
    line: int
    resources: Resources | None
    traffic: Traffic | None


@dataclass(frozen=True)
class Violation:
    """A kernel's access that a GPU would let pass or not at random; `line` is in the candidate's file, 0 where unknown."""

    kind: ViolationKind
    kernel_name: str
    line: int
    message: str


@dataclass(frozen=True)
class CompiledSnippet:
    """A kernel compiled apart from any launch; `artifacts` holds ttir, ttgir, llir and ptx, cubin or amdgcn, hsaco, by kind."""

    resources: Resources
    artifacts: dict[str, bytes]


class NotInterpretable(Exception):  # noqa: N818 - a verdict about this device, not an error of the kernel
    """The kernel compiles, but this device cannot execute it; says nothing about the kernel's correctness."""

    def __init__(self, kernel_name: str, line: int, message: str) -> None:
        super().__init__(f"{kernel_name} (line {line}) cannot be interpreted: {message}")
        self.kernel_name = kernel_name
        self.line = line
        self.message = message


class TooSlow(NotInterpretable):
    """The interpreter makes progress, but would not finish in the time that it has."""


class KernelCompileError(Exception):
    """Triton or the target's assembler refuses the kernel.

    `exception_type` and `diagnostic` are those of the innermost cause, `line` is in the candidate's file (0 where unknown) and `excerpt`
    is that line's text. The original exception is the `__cause__`.
    """

    def __init__(self, kernel_name: str, line: int, exception_type: str, diagnostic: str, excerpt: str = "") -> None:
        super().__init__(f"{kernel_name} (line {line}): {exception_type}: {diagnostic}")
        self.kernel_name = kernel_name
        self.line = line
        self.exception_type = exception_type
        self.diagnostic = diagnostic
        self.excerpt = excerpt


class LaunchRefused(OutOfResources):  # type: ignore[misc]
    """The launch asks for more than the target has; `resource` is "shared memory", "threads" or "grid".

    It is an `OutOfResources`, as on a GPU, so the autotuner skips such a configuration.
    """

    def __init__(self, kernel_name: str, line: int, resource: str, asked: int, available: int, unit: str) -> None:
        super().__init__(asked, available, resource)
        self.kernel_name = kernel_name
        self.line = line
        self.resource = resource
        self.asked = asked
        self.available = available
        self.unit = unit

    def __str__(self) -> str:
        return (
            f"{self.kernel_name} (line {self.line}) asks for {self.asked} {self.unit} of {self.resource}; "
            f"the target has {self.available} {self.unit}"
        )
