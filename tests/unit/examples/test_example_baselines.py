"""The baselines of the example tasks, from the operator graphs that the evaluator really traces."""

from __future__ import annotations

import importlib.util
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from adaexplore_evaluator.devices.cpu import estimate_baselines
from adaexplore_evaluator.runner.graph import trace
from torch._subclasses.fake_tensor import FakeTensorMode

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MEASURED = EXAMPLES.parent / "benchmarks" / "data" / "h200.json"
# Device kernels of one call: eager, compiled.
LAUNCHES = {
    "bias_gelu_residual": (3, 1),
    "cross_entropy": (2, 2),
    "layernorm": (1, 1),
    "logsumexp_rows": (9, 1),
    "lowrank_gelu_residual": (3, 2),
    "matmul_bias_relu": (2, 2),
    "rmsnorm_residual": (7, 1),
    "softmax": (1, 1),
    "swiglu": (2, 1),
}


def traced(name: str) -> dict[str, Any]:
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"traced_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = module.get_inputs()
        model = module.Model(*module.get_init_inputs())
    return dict(trace(model, inputs, [f"input_{index}" for index in range(len(inputs))], str(path)))


def test_every_example_has_its_launches_counted_here() -> None:
    assert set(LAUNCHES) == {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize(("name", "launches"), LAUNCHES.items())
def test_an_example_launches_what_eager_and_torch_compile_launch(name: str, launches: tuple[int, int]) -> None:
    eager, compiled = estimate_baselines(traced(name), target="sm_90", precision="fp32")
    assert (eager.launches, compiled.launches) == launches
    assert 0 < compiled.median_us <= eager.median_us * 1.001


def test_the_baselines_of_the_examples_are_near_what_an_h200_measured() -> None:
    ratios = []
    for record in json.loads(MEASURED.read_text())["tasks"]:
        if record["task"] in LAUNCHES:
            for baseline in estimate_baselines(traced(record["task"]), target="sm_90", precision="fp32"):
                ratios.append(baseline.median_us / record[baseline.kind.value]["median_us"])
    assert len(ratios) == 2 * len(LAUNCHES)
    distances = [max(ratio, 1 / ratio) for ratio in ratios]
    assert statistics.median(distances) < 1.10
    assert max(distances) < 1.60


def test_the_low_rank_example_leaves_half_of_the_compiled_bytes_to_an_epilogue_fused_kernel() -> None:
    _, compiled = estimate_baselines(traced("lowrank_gelu_residual"), target="sm_90", precision="fp32")
    moved = sum(launch.dram_bytes for launch in compiled.estimate.launches)
    needed = 4 * 2 * 16384 * 4096
    assert moved / needed == pytest.approx(2.0, rel=0.02)
