"""The example tasks compute what their docstrings say, at a size a laptop likes."""

from __future__ import annotations

import ast
import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
SMALL = {
    "bias_gelu_residual": {"batch_size": 5, "features": 24},
    "cross_entropy": {"batch_size": 6, "classes": 33},
    "layernorm": {"batch_size": 2, "sequence": 3, "features": 40},
    "logsumexp_rows": {"batch_size": 5, "dim": 37},
    "lowrank_gelu_residual": {"tokens": 7, "rank": 4, "width": 24},
    "matmul_bias_relu": {"batch_size": 6, "in_features": 8, "out_features": 10},
    "rmsnorm_residual": {"batch_size": 5, "features": 40},
    "softmax": {"batch_size": 5, "dim": 37},
    "swiglu": {"batch_size": 5, "hidden": 24},
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reduced(name: str) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    torch.manual_seed(7)
    module = load(name)
    for constant, value in SMALL[name].items():
        assert hasattr(module, constant)
        setattr(module, constant, value)
    model = module.Model(*module.get_init_inputs())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model, module.get_inputs()


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def exponential_share(x: torch.Tensor) -> torch.Tensor:
    weights = torch.exp(x - x.max(-1, keepdim=True).values)
    return weights / weights.sum(-1, keepdim=True)


State = dict[str, torch.Tensor]


def layer_norm(x: torch.Tensor, state: State) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * state["norm.weight"] + state["norm.bias"]


def rms_norm(hidden: torch.Tensor, state: State) -> torch.Tensor:
    return hidden / torch.sqrt((hidden**2).mean(-1, keepdim=True) + 1e-6) * state["weight"]


FORMULAS: dict[str, Callable[[list[torch.Tensor], State], torch.Tensor]] = {
    "bias_gelu_residual": lambda inputs, state: inputs[1] + gelu_tanh(inputs[0].double() + state["bias"]),
    "cross_entropy": lambda inputs, _: -torch.log(exponential_share(inputs[0].double())[torch.arange(6), inputs[1]]).mean(),
    "layernorm": lambda inputs, state: layer_norm(inputs[0].double(), state),
    "logsumexp_rows": lambda inputs, _: torch.exp(inputs[0].double()).sum(1).log(),
    "lowrank_gelu_residual": lambda inputs, state: inputs[1] + gelu_tanh(inputs[0].double() @ state["up.weight"].T + state["up.bias"]),
    "matmul_bias_relu": lambda inputs, state: (inputs[0].double() @ state["linear.weight"].T + state["linear.bias"]).clamp(min=0),
    "rmsnorm_residual": lambda inputs, state: rms_norm(inputs[0].double() + inputs[1], state),
    "softmax": lambda inputs, _: exponential_share(inputs[0].double()),
    "swiglu": lambda inputs, _: inputs[0].double()[:, :24] * torch.sigmoid(inputs[0].double()[:, :24]) * inputs[0].double()[:, 24:],
}


def test_every_example_is_covered_by_these_tests() -> None:
    assert set(SMALL) == set(FORMULAS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_computes_its_formula_at_a_reduced_size(name: str) -> None:
    model, inputs = reduced(name)
    with torch.no_grad():
        found = model(*inputs)
    state = {key: value.double() for key, value in model.state_dict().items()}
    torch.testing.assert_close(found.double(), FORMULAS[name](inputs, state), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_large_enough_that_latency_is_not_the_launch(name: str) -> None:
    module = load(name)
    with torch.device("meta"):
        inputs = module.get_inputs()
        outputs = module.Model(*module.get_init_inputs())(*inputs)
    largest = max(tensor.numel() * tensor.element_size() for tensor in (*inputs, outputs))
    assert largest >= 64 << 20


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_a_docstring_of_one_sentence_and_the_kernelbench_names(name: str) -> None:
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text())
    defined = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert set(defined) == {"Model", "get_inputs", "get_init_inputs"}
    docstring = ast.get_docstring(defined["Model"]) or ""
    assert docstring.endswith(".")
    assert docstring.count(".") == 1


def test_labels_of_the_cross_entropy_example_are_int64_classes() -> None:
    _, (logits, labels) = reduced("cross_entropy")
    assert labels.dtype is torch.int64
    assert 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]


def test_the_readme_lists_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert [name for name in NAMES if f"`{name}.py`" not in text] == []
