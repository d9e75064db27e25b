"""What cannot be part of a task is refused by rule, when the list of operators is made."""

import json
import runpy
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "operators.py"))
SHAPE = (6, 12)


def tried(call, domain="{x}", layer=""):
    return SCRIPT["_run"](layer, call, domain, SHAPE)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("torch.unique({a}, dim=-1)", "depends on values"),
        ("torch.div({a}, {y})", "grows too fast"),
        ("torch.exp({a}) * 40", "grows too fast"),
        ("torch.floor({a})", "jumps"),
        ("torch.clone({a})", "changes next to nothing"),
        ("torch.nn.functional.dropout({a})", "random"),
        ("{a}.mul_(2)", "changes its input"),
        ("torch.zeros_like({a})", "nearly constant"),
        ("torch.argmax({a}, dim=-1)", "not one float32 tensor"),
    ],
)
def test_what_cannot_be_part_of_a_task_is_refused(call, why):
    with pytest.raises(ValueError, match=why):
        tried(call)


def test_a_jump_behind_a_bounded_argument_is_found():
    with pytest.raises(ValueError, match="jumps"):
        tried("torch.round({a})", "torch.tanh({x})")


def test_an_identity_behind_a_bounded_argument_is_found():
    with pytest.raises(ValueError, match="nothing"):
        tried("torch.clone({a})", "torch.tanh({x})")


def test_what_can_be_part_of_a_task_is_taken_with_the_shape_that_it_gives():
    assert tried("torch.softmax({a}, dim=-1)") == SHAPE
    assert tried("{m}({a})", layer="torch.nn.Linear(in_features={l}, out_features=24)") == (6, 24)


def test_the_shipped_list_tells_the_torch_that_it_was_made_with():
    shipped = json.loads((ROOT / "services/generator/adaexplore_generator/synthesis/operators.json").read_text())
    assert shipped["torch"].split(".")[:1] == torch.__version__.split(".")[:1]
    assert f"torch=={shipped['torch']}" in (ROOT / "constraints.txt").read_text()
