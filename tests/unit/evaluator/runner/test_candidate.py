"""The candidate role over pipes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from adaexplore_evaluator.runner.wire import encode_types

SCALE = """import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    w = tl.load(w_ptr + at % columns, mask=mask)
    tl.store(y_ptr + at, x * w, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(features))

    def forward(self, x):
        assert x.is_cuda
        y = torch.empty_like(x)
        n = x.numel()
        scale_kernel[(triton.cdiv(n, 256),)](x, self.weight, y, n, x.shape[1], BLOCK=256)
        return y
"""


def load(runner, path, **changes):
    fields = {"path": path, "entry_points": ["ModelNew"], "format": "module", "target": "sm_90", "precision": "fp32"} | changes
    return runner.ask("load_candidate", **fields)


def prepare(runner, path, init_inputs=(), state=None, **changes):
    assert load(runner, path, **changes)["ok"]
    runner.get("construct", init_inputs=runner.buffers.encode(list(init_inputs)), seed=1)
    if state is not None:
        return runner.get("load_state", state=runner.buffers.encode(state))
    return None


def run(runner, *inputs, poison=1, **fields):
    tree = runner.buffers.encode(list(inputs))
    return tree, runner.ask("run", inputs=tree, poison=poison, order_seed=0, interpret=True, **fields)


def outputs(runner, reply):
    assert reply["ok"], reply
    return runner.buffers.decode(reply["outputs"], shared=False)


def forward(body, before=""):
    indented = "\n        ".join(body.splitlines())
    return f"import torch\n{before}\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        {indented}\n"


def test_a_triton_candidate_is_loaded_given_its_state_and_run(candidate, write):
    state = {"weight": torch.nn.Parameter(torch.linspace(1, 2, 40))}
    prepare(candidate, write(SCALE), [40], state)
    x = torch.randn(30, 40)
    _, reply = run(candidate, x)
    torch.testing.assert_close(outputs(candidate, reply), x * state["weight"])
    (launch,) = reply["launches"]
    assert (launch["kind"], launch["name"], launch["grid"], launch["line"]) == ("triton", "scale_kernel", [5], 7)
    assert launch["constexprs"] == {"BLOCK": "256"}
    assert reply["violations"] == []
    assert reply["devices"] == ["cuda"]
    assert {item["phase"] for item in candidate.progress} >= {"load", "setup", "compile", "check"}


def test_at_full_shape_launches_are_compiled_and_counted_without_memory(candidate, write):
    prepare(candidate, write(SCALE), [40])
    rows, columns = 2_000_000, 1024
    x = torch.empty(rows, columns, device="meta")
    reply = candidate.get("run_full", init_inputs=candidate.buffers.encode([columns]), inputs=encode_types([x]))
    (launch,) = reply["launches"]
    assert launch["grid"] == [rows * columns // 256]
    assert launch["resources"]["registers"] > 0
    assert launch["traffic"]["dram_write_bytes"] == pytest.approx(rows * columns * 4, rel=0.05)
    assert reply["outputs"]["shape"] == [rows, columns]
    status = Path(f"/proc/{candidate.process.pid}/status").read_text()
    assert int(status.partition("VmHWM:")[2].split()[0]) < 2_000_000  # KiB


def test_a_call_after_the_full_shape_uses_the_judged_instance(candidate, write):
    prepare(candidate, write(SCALE), [40], {"weight": torch.full((40,), 3.0)})
    x = torch.randn(2, 40)
    candidate.get("run_full", init_inputs=candidate.buffers.encode([4096]), inputs=encode_types([torch.empty(64, 4096, device="meta")]))
    torch.testing.assert_close(outputs(candidate, run(candidate, x)[1]), x * 3)


def test_operators_of_the_full_shape_are_those_of_the_judged_shape(candidate, write):
    body = "y = x.view(x.shape[0], -1) @ x.t()\ny += 1\nreturn torch.softmax(torch.cat([y, y], 1), 1), y.sum().item() > 5"
    prepare(candidate, write(forward(body)))
    judged = run(candidate, torch.rand(6, 4))[1]["launches"]
    full = candidate.get("run_full", init_inputs=encode_types([]), inputs=encode_types([torch.empty(60_000, 1000, device="meta")]))[
        "launches"
    ]
    names = ["aten.mm.default", "aten.add_.Tensor", "aten.cat.default", "aten._softmax.default", "aten.sum.default"]
    assert [launch["name"] for launch in judged] == names
    assert [launch["name"] for launch in full] == names
    assert full[0]["flops"] == 2.0 * 60_000**2 * 1000
    assert full[0]["bytes_written"] == 60_000**2 * 4


def test_repeated_launches_are_one_record_with_a_count(candidate, write):
    prepare(candidate, write(forward("for _ in range(7):\n    x = torch.relu(x)\nreturn x")))
    (launch,) = run(candidate, torch.rand(3))[1]["launches"]
    assert (launch["name"], launch["count"], launch["line"]) == ("aten.relu.default", 7, 6)


def test_missing_names_are_listed_and_extra_names_are_fine(candidate, write):
    source = forward("return x * self.mine").replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n        self.register_buffer('mine', torch.ones(3))\n\n    def forward",
    )
    result = prepare(candidate, write(source), state={"weight": torch.ones(3), "bias": torch.ones(1)})
    assert result["missing"] == ["weight", "bias"]
    assert prepare(candidate, write(source), state={})["missing"] == []
    result = prepare(candidate, write(source), state={"mine": torch.ones(4)})
    assert result["mismatched"] == [{"name": "mine", "expected": "float32[4]", "found": "float32[3]"}]


def test_after_load_sees_the_loaded_values(candidate, write):
    source = SCALE.replace(
        "    def forward(self, x):", "    def after_load(self):\n        self.weight.mul_(2)\n\n    def forward(self, x):"
    )
    prepare(candidate, write(source), [8], {"weight": torch.full((8,), 5.0)})
    torch.testing.assert_close(outputs(candidate, run(candidate, torch.ones(2, 8))[1]), torch.full((2, 8), 10.0))


def test_memory_never_written_differs_between_poisons(candidate, write):
    prepare(candidate, write(forward("y = torch.empty_like(x)\ny[:-1] = x[:-1]\nreturn y")))
    x = torch.rand(5)
    first, second, again = (outputs(candidate, run(candidate, x, poison=poison)[1]) for poison in (1, 2, 1))
    assert torch.equal(first[:-1], second[:-1])
    assert first[-1] != second[-1]
    assert torch.equal(first, again)
    assert torch.isfinite(first).all()


def test_a_mutated_input_is_seen_through_its_buffer(candidate, write):
    prepare(candidate, write(forward("x.add_(1)\nreturn x * 2")))
    tree, reply = run(candidate, torch.zeros(3))
    assert reply["ok"]
    assert torch.equal(candidate.buffers.decode(tree, shared=False)[0], torch.ones(3))


@pytest.mark.parametrize(
    ("source", "kind", "exception_type", "line"),
    [
        ("def f(:\n", "syntax", "SyntaxError", 1),
        ("return 1\n", "syntax", "SyntaxError", 1),
        ("import torch\nraise ValueError('no')\n", "runtime", "ValueError", 2),
        ("import sys\nsys.exit(0)\n", "runtime", "SystemExit", 2),
        ("import os\nclass Stop(BaseException): pass\nraise Stop\n", "runtime", "adaexplore_candidate.Stop", 3),
        ("x = 1\n", "contract", "", 0),
        ("ModelNew = 3\n", "contract", "", 0),
    ],
)
def test_a_file_that_cannot_be_imported_is_a_typed_error(candidate, write, source, kind, exception_type, line):
    reply = load(candidate, write(source))
    assert not reply["ok"]
    error = reply["error"]
    assert (error["kind"], error["exception_type"], error["line"]) == (kind, exception_type, line)


def test_a_missing_entry_point_is_named(candidate, write):
    error = load(candidate, write("x = 1\n"), entry_points=["softmax", "kernel_function"])["error"]
    assert "softmax or kernel_function" in error["message"]


def test_a_function_candidate_may_use_either_name(candidate, write):
    source = "def kernel_function(x, k):\n    return x * k\n"
    reply = load(candidate, write(source), entry_points=["scale", "kernel_function"], format="function")
    assert reply["entry_point"] == "kernel_function"
    candidate.get("construct", init_inputs=candidate.buffers.encode([]), seed=0)
    assert torch.equal(outputs(candidate, run(candidate, torch.ones(2), 4)[1]), torch.full((2,), 4.0))


def test_a_constructor_of_another_signature_is_a_contract_error(candidate, write):
    load(candidate, write(SCALE))
    error = candidate.error("construct", init_inputs=candidate.buffers.encode([1, 2]), seed=0)
    assert error["kind"] == "contract"
    assert "constructor arguments" in error["message"]


@pytest.mark.parametrize(
    ("body", "kind", "exception_type"),
    [
        ("return x @ x", "runtime", "RuntimeError"),
        ("raise MemoryError", "out_of_memory", "MemoryError"),
        ("raise SystemExit", "runtime", "SystemExit"),
        ("return x.to_sparse()", "lazy_output", ""),
        ("return x.as_subclass(Lazy)", "lazy_output", ""),
        ("return object()", "contract", "adaexplore_evaluator.runner.wire.WireError"),
        ("return x + torch.ones(3)", "runtime", "RuntimeError"),
    ],
)
def test_a_call_that_fails_is_a_typed_error_at_its_line(candidate, write, body, kind, exception_type):
    prepare(candidate, write(forward(body, "class Lazy(torch.Tensor): pass")))
    _, reply = run(candidate, torch.rand(2, 3))
    assert not reply["ok"]
    error = reply["error"]
    assert (error["kind"], error["exception_type"]) == (kind, exception_type)
    if kind in ("runtime", "out_of_memory"):
        assert error["line"] == 5
        assert ">    5 | " in error["excerpt"]
        assert "line 5, in forward" in error["detail"]


def test_an_error_text_is_cut_and_without_control_characters(candidate, write):
    prepare(candidate, write(forward("raise ValueError('\\x1b[31m' + 'y' * 100_000 + 'end')")))
    error = run(candidate, torch.rand(1))[1]["error"]
    assert "\x1b" not in error["detail"] + error["message"]
    assert len(error["detail"]) <= 4000
    assert error["detail"].endswith("end")


def test_a_kernel_that_does_not_compile_names_kernel_line_and_exception(candidate, write):
    prepare(candidate, write(SCALE.replace("x * w", "tl.math.no_such(x)")), [8])
    error = run(candidate, torch.rand(2, 8))[1]["error"]
    assert (error["kind"], error["kernel_name"], error["line"]) == ("compile", "scale_kernel", 12)
    assert "no_such" in error["message"]


def test_an_access_out_of_bounds_is_a_violation(candidate, write):
    prepare(candidate, write(SCALE.replace("mask = at < n", "mask = at < n + 9")), [8])
    _, reply = run(candidate, torch.rand(2, 8))
    assert reply["ok"]
    assert {item["kind"] for item in reply["violations"]} == {"out_of_bounds"}
    assert all(item["kernel_name"] == "scale_kernel" and item["line"] for item in reply["violations"])


def test_printing_and_patching_print_do_not_disturb_the_protocol(candidate, write):
    prepare(candidate, write(forward("print('x' * 10_000)\nos.write(1, b'noise')\nreturn x", "import os\nprint('loaded')")))
    assert run(candidate, torch.rand(1))[1]["ok"]


def test_a_forked_child_does_not_answer_for_its_parent(start_runner, write):
    runner = start_runner("candidate")
    prepare(runner, write(forward("os.fork()\nreturn x", "import os")))
    for _ in range(3):
        assert run(runner, torch.rand(1))[1]["ok"]


def test_where_an_output_lives_is_recorded(candidate, write):
    prepare(candidate, write(forward("return x, x.cpu(), torch.zeros(2), torch.zeros(2, device='cuda')")))
    assert run(candidate, torch.rand(2))[1]["devices"] == ["cuda", "cpu", "cpu", "cuda"]


def test_a_kernel_is_not_given_memory_of_the_cpu(candidate, write):
    prepare(candidate, write(SCALE.replace("torch.empty_like(x)", "torch.empty(x.shape)")), [8])
    error = run(candidate, torch.rand(2, 8))[1]["error"]
    assert (error["kind"], error["exception_type"]) == ("runtime", "ValueError")
    assert "cpu tensor" in error["message"]


def test_a_snippet_is_compiled_to_artifacts(candidate):
    source = SCALE.partition("class ModelNew")[0]
    signature = {"x_ptr": "*fp32", "w_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "columns": "i32", "BLOCK": "constexpr"}
    fields = {"function_name": "scale_kernel", "constexprs": {"BLOCK": 128}, "num_warps": 4, "num_stages": 2, "target": "sm_80"}
    reply = candidate.get("compile_snippet", source=source, signature=signature, **fields)
    files = {item["kind"]: candidate.buffers_path / item["file"] for item in reply["artifacts"]}
    assert ".target sm_80" in files["ptx"].read_text()
    assert reply["resources"]["num_warps"] == 4
    error = candidate.error("compile_snippet", source=source.replace("x * w", "x ** w"), signature=signature, **fields)
    assert error["kind"] == "compile"


def test_an_autotuned_kernel_lists_the_chosen_launch_alone(candidate, write):
    configs = "[triton.Config({'BLOCK': 128}), triton.Config({'BLOCK': 512})]"
    source = SCALE.replace("@triton.jit", f"@triton.autotune({configs}, key=['n'], reset_to_zero=['y_ptr'])\n@triton.jit")
    source = source.replace(", BLOCK=256", "").replace("[(triton.cdiv(n, 256),)]", "[lambda m: (triton.cdiv(n, m['BLOCK']),)]")
    prepare(candidate, write(source), [40])
    x = torch.randn(30, 40)
    _, reply = run(candidate, x)
    torch.testing.assert_close(outputs(candidate, reply), x)
    assert [launch["name"] for launch in reply["launches"]] == ["scale_kernel"]
    inputs = encode_types([torch.empty(4096, 1024, device="meta")])
    full = candidate.get("run_full", init_inputs=candidate.buffers.encode([1024]), inputs=inputs)
    assert [launch["name"] for launch in full["launches"]] == ["scale_kernel"]


@pytest.mark.parametrize("instead", ["return x", "raise RuntimeError('the launch failed')"])
def test_a_kernel_that_cannot_be_interpreted_is_told_whatever_the_candidate_makes_of_it(candidate, write, instead):
    assembly = "tl.inline_asm_elementwise('ex2.approx.f32 $0, $1;', '=f,f', [x], dtype=tl.float32, is_pure=True, pack=1)"
    source = SCALE.replace("x * w", assembly)
    body = f"        try:\n            return self.compute(x)\n        except Exception:\n            {instead}\n"
    source = source.replace("def forward(self, x):", "def compute(self, x):") + f"\n    def forward(self, x):\n{body}"
    prepare(candidate, write(source), [8])
    error = run(candidate, torch.rand(2, 8))[1]["error"]
    assert (error["kind"], error["kernel_name"]) == ("not_interpretable", "scale_kernel")


def test_a_kernel_that_the_interpreter_is_too_slow_for_is_told_apart(candidate, write):
    prepare(candidate, write(SCALE), [8])
    error = run(candidate, torch.rand(2, 8), interpreting_s=-1.0)[1]["error"]
    assert (error["kind"], error["kernel_name"]) == ("too_slow", "scale_kernel")
    assert "programs" in error["message"]


def test_a_candidate_may_use_torch_compile_and_dynamo(candidate, write):
    before = "import torch._dynamo\ntorch._dynamo.config.cache_size_limit = 8\n@torch.compile\ndef double(x):\n    return x * 2\n"
    prepare(candidate, write(forward("return double(x)", before)))
    assert outputs(candidate, run(candidate, torch.ones(1))[1]).item() == 2


ROWS = """import torch
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0){cast}
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0))
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + row * columns + at, at + total, mask=at < columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        row_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
        return y
"""


def violations_at(candidate, path, rows, columns):
    prepare(candidate, path)
    x = torch.empty(rows, columns, device="meta")
    return candidate.get("run_full", init_inputs=encode_types([]), inputs=encode_types([x]), store_programs=4)["violations"]


def test_an_offset_that_overflows_int32_at_full_shape_is_told(candidate, write):
    found = violations_at(candidate, write(ROWS.format(cast="")), 65_536, 40_960)
    assert {(item["kind"], item["kernel_name"], item["line"]) for item in found} == {
        ("offset_overflow", "row_kernel", 12),
        ("offset_overflow", "row_kernel", 15),
    }


@pytest.mark.parametrize(("cast", "rows"), [(".to(tl.int64)", 65_536), ("", 50_000)])
def test_offsets_that_fit_at_full_shape_are_no_violation(candidate, write, cast, rows):
    assert violations_at(candidate, write(ROWS.format(cast=cast)), rows, 40_960) == []


@pytest.mark.parametrize(
    ("precision", "before", "narrow"),
    [
        ("fp32", "", False),
        ("fp32", "torch.backends.cuda.matmul.allow_tf32 = True", True),
        ("fp32", "torch.set_float32_matmul_precision('high')", True),
        ("fp32", "torch.backends.cuda.matmul.fp32_precision = 'tf32'", True),
        ("tf32", "", True),
    ],
)
def test_products_of_torch_are_as_precise_as_its_switches_have_a_gpu_compute_them(candidate, write, precision, before, narrow):
    prepare(candidate, write(forward(f"{before}\nreturn x @ x")), precision=precision)
    x = torch.rand(32, 32)
    _, reply = run(candidate, x)
    error = (outputs(candidate, reply).double() - x.double() @ x.double()).abs().max()
    assert bool(error > 1e-4) is narrow
