"""Ordinary host code launches kernels: binding, compilation, refusals, autotuning, warm-up."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from adaexplore_evaluator.runner.triton_cpu import TARGETS, CompileCache, KernelCompileError, LaunchRefused, NotInterpretable, TritonSession
from triton.runtime.jit import JITFunction


@triton.jit
def scale(x, o, n, factor, bias=None, B: tl.constexpr = 64, RELU: tl.constexpr = False):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0) * factor
    if bias is not None:
        values += tl.load(bias)
    if RELU:
        values = tl.maximum(values, 0.0)
    tl.store(o + offsets, values, mask=offsets < n)


@triton.jit
def _bad_inner(x):
    return tl.math.no_such_function(x + 1)


@triton.jit
def calls_a_missing_function(x, o, B: tl.constexpr):
    offsets = tl.arange(0, B)
    values = tl.load(x + offsets)
    tl.store(o + offsets, _bad_inner(values))


@triton.jit
def wrong_block_size(x, o, B: tl.constexpr):
    offsets = tl.arange(0, B + 1)
    tl.store(o + offsets, tl.load(x + offsets))


@triton.jit
def undefined_name(x, o, B: tl.constexpr):
    offsets = tl.arange(0, B)

    tl.store(o + offsets, nowhere + 1)  # noqa: F821 - the fault under test


@triton.jit
def asserts_its_block(x, o, B: tl.constexpr):
    tl.static_assert(B == 128, "B must be 128")
    offsets = tl.arange(0, B)
    tl.store(o + offsets, tl.load(x + offsets))


@triton.jit
def big_tiles(a, b, o, B: tl.constexpr):
    row = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, 16):
        left = tl.load(a + row[:, None] * B * 16 + row[None, :] + k * B)
        right = tl.load(b + row[:, None] * B * 16 + row[None, :] + k * B)
        total = tl.dot(left, right, total)
    tl.store(o + row[:, None] * B + row[None, :], total)


@triton.jit
def assembly(x, o, B: tl.constexpr):
    offsets = tl.arange(0, B)
    values = tl.load(x + offsets)
    shifted = tl.inline_asm_elementwise("shl.b32 $0, $0, 1;", "=r,r", [values], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(o + offsets, shifted)


@triton.jit
def normalise(x, o, B: tl.constexpr):
    offsets = tl.arange(0, B)
    values = tl.load(x + offsets)
    tl.store(o + offsets, values / tl.sum(values))


@triton.jit
def contradicting_modifiers(x, o, B: tl.constexpr):
    offsets = tl.arange(0, B)
    tl.store(o + offsets, tl.load(x + offsets, eviction_policy="evict_first", cache_modifier=".cg"))


@triton.jit
def add_one(x, n, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)


def _configs(*blocks, **options):
    return [triton.Config({"B": block}, num_warps=4, **options) for block in blocks]


def _grid(n):
    return lambda meta: (triton.cdiv(n, meta["B"]),)


def test_arguments_are_bound_as_triton_binds_them(session):
    x, o, bias = torch.randn(100), torch.zeros(100), torch.tensor([2.0])
    with session() as found:
        scale[_grid(100)](x, o, 100, 0.5, RELU=True)
        assert torch.equal(o, (x * 0.5).relu())
        scale[(4,)](x, o, n=100, factor=3, bias=bias, B=32, num_warps=2, num_stages=1)
        assert torch.equal(o, x * 3 + 2)
        scale[(1, 1, 1)](x, o, 1, 1.0)
    first, second, third = found.launches
    assert (first.name, first.grid, first.num_warps) == ("scale", (2,), 4)
    assert first.constexprs == {"B": "64", "RELU": "True"}
    assert (second.grid, second.constexprs["B"], second.num_warps, second.num_stages) == ((4,), "32", 2, 1)
    assert third.grid == (1, 1, 1)
    assert first.line == scale.fn.__code__.co_firstlineno + 1
    assert first.resources is not None
    assert first.resources.registers > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"wrong_name": 1}, KeyError), ({"n": 4, "factor": 1.0, "num_wraps": 4}, KeyError), ({"n": 4}, TypeError)],
)
def test_a_call_with_wrong_arguments_is_the_host_codes_own_exception(session, arguments, error):
    x, o = torch.randn(4), torch.zeros(4)
    arguments = {"n": 4, "factor": 1.0, **arguments} if error is KeyError else arguments
    with session(), pytest.raises(error):
        scale[(1,)](x, o, **arguments)


def test_outside_of_a_session_triton_is_as_it_was(session):
    before = (JITFunction.run, tl.load, tl.tensor.__init__, tl.dtype.to_ir, tl.tensor_descriptor.store)
    with session():
        scale[(1,)](torch.zeros(4), torch.zeros(4), 4, 1.0)
        assert tl.load is before[1]
    assert (JITFunction.run, tl.load, tl.tensor.__init__, tl.dtype.to_ir, tl.tensor_descriptor.store) == before


def test_a_session_restores_triton_after_an_exception(session):
    before = JITFunction.run
    with pytest.raises(ZeroDivisionError), session():
        _ = 1 / 0
    assert JITFunction.run is before


@pytest.mark.parametrize(
    ("kernel", "kind", "text", "marker"),
    [
        (calls_a_missing_function, "AttributeError", "no_such_function", "no_such_function"),
        (wrong_block_size, "ValueError", "power of 2", "tl.arange(0, B + 1)"),
        (undefined_name, "NameError", "nowhere", "nowhere + 1"),
        (asserts_its_block, "CompileTimeAssertionFailure", "B must be 128", "static_assert"),
    ],
)
def test_a_compile_error_names_the_innermost_cause_and_the_line_in_the_users_file(session, kernel, kind, text, marker):
    x, o = torch.zeros(64), torch.zeros(64)
    with session() as found, pytest.raises(KernelCompileError) as caught:
        kernel[(1,)](x, o, B=64)
    error = caught.value
    line = Path(__file__).read_text().splitlines()[error.line - 1]
    assert marker in line
    assert error.excerpt == line.split("#")[0].strip() or error.excerpt == line.strip()
    assert error.exception_type == kind
    assert text in error.diagnostic
    assert error.kernel_name == kernel.fn.__name__
    assert found.launches == []


def test_a_refused_kernel_is_refused_again_without_compiling(session):
    phases = []
    cache = CompileCache()
    for _ in range(2):
        with session(compile_cache=cache, progress=lambda *phase: phases.append(phase)), pytest.raises(KernelCompileError):
            wrong_block_size[(1,)](torch.zeros(64), torch.zeros(64), B=64)
    assert phases == [("compile", "wrong_block_size")]


def test_progress_tells_compiling_from_checking(session):
    phases = []
    with session(compile_cache=CompileCache(), progress=lambda *phase: phases.append(phase)):
        for _ in range(2):
            scale[(1,)](torch.zeros(4), torch.zeros(4), 4, 1.0)
    assert phases == [("compile", "scale"), ("check", "scale"), ("check", "scale")]


def test_what_the_assembler_refuses_is_a_compile_error_with_its_message(session):
    x, o = torch.zeros(64), torch.zeros(64)
    with session(), pytest.raises(KernelCompileError) as caught:
        contradicting_modifiers[(1,)](x, o, B=64)
    assert caught.value.exception_type == "PTXASError"
    assert "cannot be combined" in caught.value.diagnostic


@pytest.mark.parametrize("target", list(TARGETS))
def test_every_target_compiles_and_reports_what_the_kernel_occupies(session, target):
    x, o = torch.randn(64), torch.zeros(64)
    with session(target=target) as found:
        scale[(1,)](x, o, 64, 2.0)
    resources = found.launches[0].resources
    assert torch.equal(o, x * 2)
    assert 0 < resources.registers < 64
    assert (resources.spill_bytes, resources.num_warps, resources.num_ctas) == (0, 4, 1)


@pytest.mark.parametrize(("target", "limit"), [("sm_89", 101_376), ("sm_90", 232_448), ("gfx942", 65_536)])
def test_shared_memory_over_the_targets_limit_is_refused_with_both_figures(session, target, limit):
    a, o = torch.zeros(128, 2048), torch.zeros(128, 128)
    with session(target=target, mode="compile_only"), pytest.raises(LaunchRefused) as caught:
        big_tiles[(1,)](a, a, o, B=128, num_stages=3)
    assert caught.value.available == limit
    assert caught.value.asked > limit
    assert f"{caught.value.asked} bytes of shared memory" in str(caught.value)
    assert str(limit) in str(caught.value)


def test_too_many_threads_for_wide_warps_are_refused(session):
    with session(target="gfx942"), pytest.raises((LaunchRefused, KernelCompileError)) as caught:
        scale[(1,)](torch.zeros(4), torch.zeros(4), 4, 1.0, num_warps=32)
    assert "threads" in str(caught.value) or isinstance(caught.value, KernelCompileError)


def test_spilled_registers_are_reported(session):
    x = torch.zeros(1024)
    with session(mode="compile_only") as found:
        normalise[(1,)](x, x, B=1024, num_warps=1, maxnreg=24)
        normalise[(1,)](x, x, B=1024, num_warps=4)
    squeezed, roomy = (launch.resources for launch in found.launches)
    assert squeezed.spill_bytes > 0
    assert squeezed.registers <= 24
    assert roomy.spill_bytes == 0


def test_a_grid_wider_than_the_hardware_takes_is_refused(session):
    with session(), pytest.raises(LaunchRefused, match="65536 programs"):
        scale[(1, 65_536)](torch.zeros(4), torch.zeros(4), 4, 1.0)


def test_what_compiles_but_cannot_be_interpreted_says_so_and_is_no_compile_error(session):
    x, o = torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    with session() as found, pytest.raises(NotInterpretable, match="inline assembly"):
        assembly[(1,)](x, o, B=64)
    with session(mode="compile_only") as compiled:
        assembly[(1,)](x, o, B=64)
    assert found.launches == []
    assert compiled.launches[0].resources is not None


def test_host_tensors_are_refused_where_the_device_is_told_apart(session):
    with session(require_cuda=True), pytest.raises(ValueError, match="cannot be accessed from Triton"):
        scale[(1,)](torch.zeros(4), torch.zeros(4), 4, 1.0)


def test_compile_only_launches_run_nothing(session):
    o = torch.full((64,), 5.0)
    with session(mode="compile_only") as found:
        scale[(1,)](torch.zeros(64), o, 64, 1.0)
    assert torch.all(o == 5.0)
    assert len(found.launches) == 1


def test_a_warm_up_compiles_and_its_handle_launches(session):
    x, o = torch.randn(64), torch.zeros(64)
    with session() as found:
        handle = scale.warmup(x, o, 64, 2.0, B=64, grid=(1,))
        handle._init_handles()
        assert found.launches == []
        assert handle.n_regs > 0
        assert handle.metadata.shared == 0
        assert "ptx" in handle.asm
        handle[(1, 1, 1)](x, o, 64, 2.0, None, 64, False)
    assert torch.equal(o, x * 2)
    properties_seen = []
    with session():
        driver = triton.runtime.driver.active
        properties_seen.append(driver.utils.get_device_properties(driver.get_current_device()))
        assert driver.get_current_target().arch == 90
    assert properties_seen[0]["multiprocessor_count"] == 132


def test_heuristics_set_constants(session):
    wrapped = triton.heuristics({"B": lambda arguments: triton.next_power_of_2(arguments["n"])})(add_one)
    x = torch.zeros(100)
    with session() as found:
        wrapped[(1,)](x, 100)
    assert torch.all(x == 1)
    assert found.launches[0].constexprs["B"] == "128"


def test_autotuning_without_restore_applies_every_configuration(session):
    tuned = triton.autotune(configs=_configs(64, 128), key=["n"])(add_one)
    x = torch.zeros(100)
    with session() as found:
        tuned[_grid(100)](x, 100)
        assert torch.all(x == 3)
        tuned[_grid(100)](x, 100)
    assert torch.all(x == 4)
    assert len(found.launches) == 2


def test_autotuning_with_restore_applies_the_kernel_once(session):
    tuned = triton.autotune(configs=_configs(64, 128), key=["n"], restore_value=["x"])(add_one)
    x = torch.zeros(100)
    with session():
        tuned[_grid(100)](x, 100)
    assert torch.all(x == 1)


def test_autotuning_with_reset_starts_from_zero(session):
    tuned = triton.autotune(configs=_configs(64, 128), key=["n"], reset_to_zero=["x"])(add_one)
    x = torch.full((100,), 9.0)
    with session():
        tuned[_grid(100)](x, 100)
    assert torch.all(x == 1)


def test_the_pre_hook_of_a_configuration_runs(session):
    seen = []
    tuned = triton.autotune(configs=_configs(64, 128, pre_hook=lambda arguments: seen.append(arguments["B"])), key=["n"])(add_one)
    with session():
        tuned[_grid(100)](torch.zeros(100), 100)
    assert seen == [64, 128, 64]


def test_a_configuration_that_does_not_fit_is_passed_over(session):
    tuned = triton.autotune(configs=_configs(128, 32), key=[])(big_tiles)
    a, o = torch.zeros(128, 2048), torch.zeros(128, 128)
    with session(mode="compile_only", target="gfx942") as found:
        tuned[(1,)](a, a, o)
    assert found.launches[0].constexprs == {"B": "32"}


def test_in_full_mode_every_configuration_is_compiled_and_the_best_estimate_wins(session):
    tuned = triton.autotune(configs=_configs(16, 1024, 32), key=["n"])(add_one)
    phases = []
    x = torch.zeros(100_000)
    with session(mode="full", compile_cache=CompileCache(), progress=lambda *phase: phases.append(phase)) as found:
        tuned[_grid(100_000)](x, 100_000)
    assert phases.count(("compile", "add_one")) == 3
    assert found.launches[0].constexprs["B"] == "1024"
    assert torch.all(x == 0)


def test_the_choice_at_full_shape_does_not_decide_the_judged_one(session):
    tuned = triton.autotune(configs=_configs(64, 1024), key=[])(add_one)
    with session(mode="full"):
        tuned[_grid(100_000)](torch.zeros(100_000), 100_000)
    assert tuned.cache == {}


def test_neither_an_environment_variable_nor_a_gpu_is_needed():
    script = (
        "import torch, triton, triton.language as tl, os\n"
        "assert 'TRITON_INTERPRET' not in os.environ and not torch.cuda.is_available()\n"
        "from adaexplore_evaluator.runner.triton_cpu import TritonSession\n"
        "assert not triton.knobs.runtime.interpret\n"
        "print(TritonSession(mode='judge', target='sm_80').launches)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_an_unknown_target_is_a_value_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match="sm_90"):
        TritonSession(mode="judge", target="sm_1")
