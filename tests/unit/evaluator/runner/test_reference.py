"""The reference role over pipes."""

from __future__ import annotations

import pytest
import torch

SOFTMAX = """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.proj = nn.Linear(features, features)

    def forward(self, x):
        x = self.norm(x)
        x = self.proj(x)
        return torch.softmax(x, dim=-1)

batch_size = 16384
features = 3000

def get_inputs():
    return [torch.rand(batch_size, features)]

def get_init_inputs():
    return [features]
"""

FUNCTION = """import torch

def reference(x, y, scale):
    return x * y + scale, x.sum()

def get_inputs():
    return [torch.randn(8, 5), torch.randint(0, 9, (8, 5)), 0.5]
"""


def run_whole(reference, path, precision="fp32", seed=3):
    reference.get("load_task", path=path, precision=precision)
    reference.get("judged_shape")
    made = reference.get("make_inputs", seed=seed)
    state = reference.get("make_state", seed=seed, moved=True)["state"]
    arguments = {"inputs": made["inputs"], "init_inputs": made["init_inputs"], "state": state}
    outputs = {compute: reference.get("run_reference", **arguments, compute=compute)["outputs"] for compute in ("float64", "class")}
    return made, state, {name: reference.buffers.decode(tree, shared=False) for name, tree in outputs.items()}


def test_a_module_task_is_loaded_described_reduced_and_run(reference, write):
    path = write(SOFTMAX)
    loaded = reference.get("load_task", path=path, name="softmax", format="", precision="fp32")
    assert (loaded["format"], loaded["entry_point"], loaded["parameters"]) == ("module", "ModelNew", ["x"])
    full = reference.get("describe", shape="full")
    assert full["inputs"][0]["tensor"]["shape"] == [16384, 3000]
    assert full["init_inputs"] == [{"name": "features", "literal": "3000"}]
    assert [call["operator"] for call in full["graph"]["calls"]] == ["aten.layer_norm.default", "aten.linear.default", "aten.softmax.int"]
    assert reference.get("judged_shape", max_elements=50_000)["reduced"]
    judged = reference.get("describe", shape="judged")
    assert [call["operator"] for call in judged["graph"]["calls"]] == [call["operator"] for call in full["graph"]["calls"]]
    rows, columns = judged["inputs"][0]["tensor"]["shape"]
    assert columns < 3000
    assert columns % 8 == 0
    assert columns & (columns - 1)
    assert rows * columns <= 50_000


def test_the_truth_is_float64_and_the_class_agrees_with_it(reference, write):
    made, state, outputs = run_whole(reference, write(SOFTMAX))
    inputs = reference.buffers.decode(made["inputs"], shared=False)
    parameters = reference.buffers.decode(state, shared=False)
    assert outputs["float64"].dtype is torch.float64
    assert outputs["class"].dtype is torch.float32
    torch.testing.assert_close(outputs["class"].double(), outputs["float64"], rtol=1e-4, atol=1e-7)
    x = torch.nn.functional.layer_norm(inputs[0], (inputs[0].shape[1],), parameters["norm.weight"], parameters["norm.bias"])
    expected = torch.softmax(x @ parameters["proj.weight"].T + parameters["proj.bias"], -1)
    torch.testing.assert_close(outputs["class"], expected, rtol=1e-4, atol=1e-7)
    assert not torch.equal(parameters["norm.weight"], torch.ones_like(parameters["norm.weight"]))


def test_the_same_seed_makes_the_same_inputs_and_another_makes_others(reference, write):
    reference.get("load_task", path=write(FUNCTION))
    values = [reference.buffers.decode(reference.get("make_inputs", seed=seed)["inputs"], shared=False) for seed in (5, 5, 6)]
    assert torch.equal(values[0][0], values[1][0])
    assert not torch.equal(values[0][0], values[2][0])


def test_a_function_task_keeps_integer_inputs_in_every_class(reference, write):
    loaded = reference.get("load_task", path=write(FUNCTION), precision="bf16")
    assert (loaded["format"], loaded["entry_point"], loaded["parameters"]) == ("function", "reference", ["x", "y", "scale"])
    made, _, outputs = run_whole(reference, write(FUNCTION), precision="bf16")
    x, y, scale = reference.buffers.decode(made["inputs"], shared=False)
    assert (x.dtype, y.dtype, scale) == (torch.bfloat16, torch.int64, 0.5)
    assert isinstance(outputs["class"], tuple)
    assert outputs["class"][0].dtype is torch.bfloat16


def test_tf32_rounds_the_operands_of_products(reference, write):
    path = write(SOFTMAX.replace("torch.softmax(x, dim=-1)", "x"))
    _, _, exact = run_whole(reference, path, "fp32")
    _, _, rounded = run_whole(reference, path, "tf32")
    error = {name: (pair["class"].double() - pair["float64"]).abs().max() for name, pair in (("fp32", exact), ("tf32", rounded))}
    assert error["tf32"] > 30 * error["fp32"]


def test_a_huge_task_is_described_without_its_memory(reference, write):
    source = SOFTMAX.replace("batch_size = 16384", "batch_size = 4000000").replace("nn.Linear(features, features)", "nn.Identity()")
    reference.get("load_task", path=write(source))
    full = reference.get("describe", shape="full")
    assert full["inputs"][0]["tensor"]["shape"] == [4_000_000, 3000]
    assert full["minimum_bytes"] == 4 * (2 * 4_000_000 * 3000 + 2 * 3000)


@pytest.mark.parametrize(
    ("source", "kind", "line", "words"),
    [
        ("import torch\ndef f(:\n", "syntax", 2, ["line 2", "syntax"]),
        ("import torch\nclass Model: pass\n", "contract", 0, ["lacks get_inputs", "define"]),
        ("import torch\ndef get_inputs():\n    return []\n", "contract", 0, ["lacks Model"]),
        ("import torch\nraise KeyError('gone')\ndef reference(): pass\ndef get_inputs(): pass\n", "runtime", 2, ["KeyError", "gone"]),
        ("def a(): pass\ndef b(): pass\ndef get_inputs(): return []\n", "contract", 0, ["several", "a, b"]),
    ],
)
def test_a_task_that_cannot_be_loaded_is_a_typed_error(reference, write, source, kind, line, words):
    error = reference.error("load_task", path=write(source))
    assert (error["kind"], error["line"]) == (kind, line)
    assert all(word in error["message"] for word in words)


@pytest.mark.parametrize(
    ("body", "kind", "line"),
    [("return 7", "contract", 4), ("return x @ x", "runtime", 5), ("raise SystemExit(0)", "runtime", 5), ("exit()", "runtime", 5)],
)
def test_a_reference_that_fails_is_a_typed_error_and_the_runner_lives_on(reference, write, body, kind, line):
    path = write(f"import torch\n\n\ndef reference(x):\n    {body}\ndef get_inputs():\n    return [torch.rand(3, 4)]\n")
    reference.get("load_task", path=path)
    error = reference.error("describe", shape="full")
    assert (error["kind"], error["line"]) == (kind, line)
    assert f"{line} | " in error["excerpt"]
    assert reference.get("load_task", path=write(FUNCTION))["ok"]


def test_a_reference_larger_than_memory_is_out_of_memory(reference, write):
    makes = "def get_inputs():\n    return [torch.from_numpy(numpy.zeros(2**50))]\n"
    source = f"import torch\nimport numpy\ndef reference(x):\n    return x\n{makes}"
    reference.get("load_task", path=write(source))
    assert reference.error("describe", shape="full")["kind"] == "out_of_memory"


def test_a_huge_task_that_depends_on_values_is_refused_before_it_takes_the_memory(reference, write):
    source = FUNCTION.replace("return x * y", "x = x if x.max() > 0 else -x\n    return x * y").replace("(8, 5)", "(80_000, 50_000)")
    reference.get("load_task", path=write(source))
    error = reference.error("describe", shape="full")
    assert error["kind"] == "out_of_memory"
    assert "smaller" in error["message"]


def test_random_attributes_outside_of_the_state_are_the_same_in_every_run(reference, write):
    source = "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    source += "        self.shift = torch.randn(4)\n    def forward(self, x):\n        return x + self.shift\n"
    path = write(source + "def get_inputs():\n    return [torch.zeros(4)]\n")
    made, _, first = run_whole(reference, path, seed=7)
    assert torch.equal(first["float64"].float(), first["class"])
    reference.get("make_state", seed=9, moved=True)
    empty = reference.buffers.encode({})
    again = reference.get("run_reference", inputs=made["inputs"], init_inputs=made["init_inputs"], state=empty, compute="class")
    assert torch.equal(reference.buffers.decode(again["outputs"], shared=False), first["class"])


def test_a_task_that_names_a_gpu_runs_on_the_cpu(reference, write):
    source = "import torch\ndef scale(x):\n    return x.cuda() * torch.arange(3, device='cuda').to('cuda', torch.float32)\n"
    _, _, found = run_whole(reference, write(source + "def get_inputs():\n    return [torch.ones(2, 3, device='cuda')]\n"))
    assert found["class"].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_an_unknown_command_is_answered_and_the_runner_ends_with_its_pipe(start_runner):
    runner = start_runner("reference")
    assert "unknown command" in runner.error("dance")["message"]
    assert runner.close() == 0
