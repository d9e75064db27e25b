"""Counts arithmetic while a sampled program is interpreted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class OperationCounter:
    """Operations of one program; `weight` is how many loop iterations the current one stands for.

    `flops_fp32_dot` is the part of `flops_fp32` that matrix products at full precision make.
    """

    weight: float = 1.0
    flops_fp32: float = 0.0
    flops_fp32_dot: float = 0.0
    special_functions: float = 0.0
    tensor_flops: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    atomics: float = 0.0
    loop_iterations: float = 0.0

    def elementwise(self, elements: int, *, special: bool = False) -> None:
        """One operation on each of `elements` elements."""
        if special:
            self.special_functions += self.weight * elements
        else:
            self.flops_fp32 += self.weight * elements

    def dot(self, flops: int, dtype: str, precision: str) -> None:
        """A matrix product; float32 at full precision runs on the ordinary units."""
        if dtype == "fp32" and precision == "ieee":
            self.flops_fp32 += self.weight * flops
            self.flops_fp32_dot += self.weight * flops
            return
        passes = {"tf32x3": 3, "bf16x3": 3, "bf16x6": 6}.get(precision, 1) if dtype == "fp32" else 1
        name = ("bf16" if precision.startswith("bf16") else "tf32") if dtype == "fp32" else dtype
        self.tensor_flops[name] += self.weight * flops * passes
