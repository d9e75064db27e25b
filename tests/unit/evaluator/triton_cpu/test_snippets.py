"""A kernel is compiled apart from any launch."""

import pytest
from adaexplore_evaluator.runner.triton_cpu import TARGETS, KernelCompileError, LaunchRefused, compile_snippet

ADD = """
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
"""
SIGNATURE = {"x": "*fp32", "y": "*fp32", "o": "*fp32", "n": "i32"}


def _compile(source=ADD, name="add", signature=SIGNATURE, target="sm_90", **constants):
    return compile_snippet(source, name, signature, constants or {"B": 128}, 4, 3, target)


@pytest.mark.parametrize("target", ["sm_80", "sm_100", "gfx942"])
def test_artifacts_are_those_of_the_target(target):
    compiled = _compile(target=target)
    last = ("amdgcn", "hsaco") if TARGETS[target].backend == "hip" else ("ptx", "cubin")
    assert {"ttir", "ttgir", "llir", *last} <= set(compiled.artifacts)
    assert all(compiled.artifacts.values())
    assert compiled.resources.num_warps == 4
    assert compiled.resources.registers > 0


def test_a_fault_names_the_line_in_the_snippet():
    with pytest.raises(KernelCompileError) as caught:
        _compile(ADD.replace("tl.arange(0, B)", "tl.arange(0, B + 1)"))
    assert caught.value.line == 9
    assert "power of 2" in caught.value.diagnostic


@pytest.mark.parametrize(
    ("source", "kind"),
    [("import triton\n\ndef add(:\n", "SyntaxError"), ("import nothing_like_this\n", "ModuleNotFoundError"), ("x = 1\n", "NameError")],
)
def test_a_source_that_defines_no_kernel_is_a_compile_error(source, kind):
    with pytest.raises(KernelCompileError) as caught:
        _compile(source)
    assert caught.value.exception_type == kind


@pytest.mark.parametrize("signature", [{"x": "*fp32"}, {**SIGNATURE, "z": "i32"}])
def test_a_signature_that_does_not_fit_is_the_callers_fault(signature):
    with pytest.raises(ValueError, match=r"add|parameters"):
        _compile(signature=signature)


def test_too_many_warps_are_refused():
    with pytest.raises(LaunchRefused, match="threads"):
        compile_snippet(ADD, "add", SIGNATURE, {"B": 4096}, 32, 3, "gfx942")
