"""Lessons that follow from the cause alone, and those about torch code around the kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from adaexplore_memory.distill.diagnosis import Diagnosis
from adaexplore_memory.distill.snippets import matmul_kernel
from adaexplore_memory.domain import Lesson, Scope

_SHARED_MEMORY = re.compile(r"shared memory", re.IGNORECASE)
_CPU_POINTER = re.compile(r"Pointer argument \(at \d+\) cannot be accessed from Triton")


@dataclass(frozen=True)
class HostFamily:
    """A host error that always teaches the same.

    Attributes:
        signature: Its name.
        pattern: What the exception says, as a regular expression.
        rule: Follows "You cannot".
        instead: What to do instead.

    """

    signature: str
    pattern: str
    rule: str
    instead: str


_RUNTIME = (
    HostFamily(
        "view-strides",
        r"view size is not compatible with input tensor's size and stride",
        "call `.view` on a tensor whose strides do not allow it.",
        "Use `.reshape`, or `.contiguous()` first.",
    ),
    HostFamily(
        "view-elements",
        r"shape '\[[-\d, ]*\]' is invalid for input of size",
        "view a tensor in a shape with another number of elements.",
        "Compute the shape from the tensor's own `.shape`.",
    ),
    HostFamily(
        "matmul-shapes",
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch, got input",
        "multiply matrices in torch whose inner sizes differ.",
        "Check which operand is stored transposed; `nn.Linear` weights are (out, in).",
    ),
    HostFamily(
        "broadcast-shapes",
        r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
        "combine torch tensors whose shapes do not broadcast.",
        "Insert dimensions of 1 with `unsqueeze` or `view`.",
    ),
    HostFamily(
        "mixed-dtypes",
        r"expected .* to have the same dtype|expected scalar type \w+ but found",
        "mix dtypes in a torch matrix product.",
        "Cast one operand with `.to(other.dtype)`.",
    ),
    HostFamily(
        "missing-torch-name",
        r"module 'torch(?:\.\w+)*' has no attribute '\w+'",
        "use a name of `torch` that this version does not have.",
        "Use documented functions of `torch` and `torch.nn.functional`.",
    ),
    HostFamily(
        "launch-argument",
        r"missing \d+ required positional argument|got an unexpected keyword argument|got multiple values for argument",
        "call a function or launch a kernel with other arguments than it declares.",
        "Pass every parameter once, `tl.constexpr` ones by name, and compare the launch with the signature.",
    ),
)
_BY_CAUSE = {
    "FAULT": HostFamily(
        "illegal-access",
        "",
        "read or write outside a tensor from a kernel.",
        "Give every `tl.load` and `tl.store` a mask that ends at the tensor's size.",
    ),
    "SHAPE": HostFamily(
        "output-shape",
        "",
        "return outputs of another shape or number than the reference.",
        "Allocate each output in the reference's full shape, dimensions of 1 included.",
    ),
    "DTYPE": HostFamily(
        "output-dtype",
        "",
        "return an output of another dtype than the reference.",
        "Allocate outputs in the reference's dtype and cast when storing.",
    ),
    "DEVICE": HostFamily(
        "output-device", "", "return an output on another device than the inputs.", "Allocate outputs with `device=x.device`."
    ),
    "CONTRACT": HostFamily(
        "contract",
        "",
        "leave out the entry point or state names of the reference.",
        "Define the entry point with the reference's signature and keep every parameter and buffer under its name.",
    ),
}


def from_cause(found: Diagnosis) -> Lesson | None:
    """Return the lesson that a cause teaches whatever the text says."""
    family = _BY_CAUSE.get(found.report.cause)
    return _lesson(family) if family else None


def launch(found: Diagnosis) -> Lesson | None:
    """Return the lesson of a launch that asks for more shared memory than the target has."""
    if found.report.cause != "LAUNCH" or not _SHARED_MEMORY.search(found.text + found.report.message):
        return None
    family = HostFamily(
        "shared-memory",
        "",
        "launch a Triton kernel that needs more shared memory than the target has.",
        "Use smaller blocks or fewer `num_stages`: shared memory grows with their product.",
    )
    scope = replace(found.scope, architectures=(found.report.target,) if found.report.target else ())
    return replace(
        _lesson(family),
        signature=found.signature("shared-memory", found.report.target),
        scope=scope,
        reproducer=matmul_kernel(256, 256, 128, dtypes=("fp32", "fp32"), num_stages=4),
        repairs=(matmul_kernel(64, 64, 32, dtypes=("fp32", "fp32"), num_stages=2),),
    )


def torch_error(found: Diagnosis) -> Lesson | None:
    """Return the lesson of an exception in torch code; a CPU tensor in a kernel is one on a real GPU only."""
    if found.report.cause != "RUNTIME":
        return None
    if _CPU_POINTER.search(found.text):
        family = HostFamily(
            "cpu-pointer",
            "",
            "pass a tensor that lives on the CPU to a Triton kernel.",
            "Allocate it with `device=x.device`, or move it in `__init__`.",
        )
        return _lesson(family) if found.report.device == "CUDA" else None
    return next((_lesson(family) for family in _RUNTIME if re.search(family.pattern, found.text)), None)


def _lesson(family: HostFamily) -> Lesson:
    return Lesson(signature=f"host:{family.signature}", rule=f"You cannot {family.rule}", instead=family.instead, scope=Scope())
