"""Moves of the templates: what they choose, what they change, and when they have nothing left."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
from adaexplore_generator.domain import ContextKernel, Feedback, Move, Outcome, Pattern, Skill
from adaexplore_generator.graph import TaskDescription, TaskFormat
from adaexplore_generator.templates import TemplateProposal, TemplateRequest, propose
from unit.generator.templates.graphs import describe
from unit.generator.templates.skills import pitfall
from unit.generator.templates.tasks import TASKS

from adaexplore.runtime.sources import kernel_digest

SOURCES = {task.name: task for task in TASKS}

RELU = """import torch
import torch.nn as nn

LIMIT = 3


def unused():
    return 7


def doubled(n):
    return 2 * n


class Model(nn.Module):
    def __init__(self, size):
        super(Model, self).__init__()
        self.size = doubled(size) + LIMIT

    def forward(self, x):
        return torch.relu(x)


rows = 64


def get_inputs():
    return [torch.randn(rows, 40)]


def get_init_inputs():
    return [rows]
"""


@cache
def description(name: str) -> TaskDescription:
    task = SOURCES[name]
    return describe(task.source, task.judged)


@cache
def relu_description() -> TaskDescription:
    return describe(RELU, {"rows": 5})


def request(name: str, move: Move = Move.STRUCTURAL, **fields: object) -> TemplateRequest:
    return TemplateRequest(SOURCES[name].source, name, description(name), move, **fields)


def structural(name: str, **fields: object) -> TemplateProposal:
    proposal = propose(request(name, **fields))
    assert proposal.outcome is Outcome.KERNEL, proposal.message
    return proposal


def shown(kernel: TemplateProposal, verdict: str = "PASSED", cause: str = "", message: str = "") -> ContextKernel:
    return ContextKernel(kernel.source, feedback=Feedback(verdict, cause, message=message), recipe=kernel.recipe)


def local(name: str, parent: ContextKernel, **fields: object) -> TemplateProposal:
    proposal = propose(request(name, Move.LOCAL, parents=(parent,), **fields))
    assert proposal.outcome is Outcome.KERNEL, proposal.message
    return proposal


def differences(before: str, after: str) -> list[tuple[str, object, object]]:
    """Leaves of two recipes that differ."""

    def leaves(value: object, path: str) -> dict[str, object]:
        if isinstance(value, dict):
            return {key: leaf for name, item in value.items() for key, leaf in leaves(item, f"{path}/{name}").items()}
        if isinstance(value, list):
            return {key: leaf for at, item in enumerate(value) for key, leaf in leaves(item, f"{path}/{at}").items()}
        return {path: value}

    old, new = leaves(json.loads(before), ""), leaves(json.loads(after), "")
    assert old.keys() == new.keys()
    return [(path, old[path], new[path]) for path in old if old[path] != new[path]]


def test_the_same_seed_gives_the_same_proposal_and_seeds_differ() -> None:
    assert structural("softmax", seed=3) == structural("softmax", seed=3)
    assert len({structural("softmax", seed=seed).source for seed in range(8)}) > 2


def test_known_sources_are_never_proposed_again() -> None:
    known: set[str] = set()
    for _ in range(12):
        found = kernel_digest(structural("bias_gelu_residual", seed=1, known_digests=frozenset(known)).source)
        assert found not in known
        known.add(found)


def test_a_comment_does_not_make_a_known_source_new() -> None:
    source = structural("softmax", seed=0).source
    assert kernel_digest(source) == kernel_digest("# mine\n" + source.replace("    x = x.contiguous()", "\n    x =  x.contiguous()"))


def test_structural_moves_end_when_every_structure_was_proposed() -> None:
    known: set[str] = set()
    asked = TemplateRequest(RELU, "relu", relu_description(), Move.STRUCTURAL)
    while (proposal := propose(replace(asked, known_digests=frozenset(known)))).outcome is Outcome.KERNEL:
        known.add(kernel_digest(proposal.source))
        assert len(known) < 20
    assert len(known) == 2
    assert proposal.outcome is Outcome.EXHAUSTED
    assert "every structure" in proposal.message


def test_a_structure_of_the_pool_is_not_proposed_again() -> None:
    asked = TemplateRequest(RELU, "relu", relu_description(), Move.STRUCTURAL)
    first = propose(asked)
    second = propose(replace(asked, parents=(shown(first),)))
    assert json.loads(first.recipe)["groups"][0]["algorithm"] != json.loads(second.recipe)["groups"][0]["algorithm"]


def test_a_rule_changes_exactly_the_choices_it_forbids() -> None:
    rule = pitfall("triton.language.math.tanh")
    changed = 0
    for seed in range(16):
        free, ruled = structural("bias_gelu_residual", seed=seed), structural("bias_gelu_residual", seed=seed, skills=(rule,))
        if "tl.math.tanh(" in free.source:
            changed += 1
            assert "tl.math.tanh(" not in ruled.source
            assert ruled.respected_skills == (rule.name,)
        else:
            assert ruled.respected_skills == ()
    assert 0 < changed < 16


def test_rules_against_every_spelling_leave_nothing_to_propose() -> None:
    skills = tuple(pitfall(f"triton.language.{name}") for name in ("math", "tanh", "exp", "extra.libdevice"))
    proposal = propose(request("bias_gelu_residual", skills=skills))
    assert proposal.outcome is Outcome.EXHAUSTED
    assert "tanh" in proposal.message


def test_a_forbidden_statement_does_not_occur_in_a_kernel() -> None:
    rule = Skill("skills/loops", "PITFALL", "You cannot loop.", patterns=(Pattern(statement_kind="For"),))
    for seed in range(4):
        tree = ast.parse(structural("layernorm", seed=seed, skills=(rule,)).source)
        assert not any(isinstance(node, ast.For) for node in ast.walk(tree))


@pytest.mark.parametrize("name", ["softmax", "linear_relu", "channel_scale"])
def test_a_local_move_changes_one_knob_of_a_parent_that_passed(name: str) -> None:
    parent = structural(name, seed=2)
    for seed in range(6):
        child = local(name, shown(parent), seed=seed)
        ((path, _, _),) = differences(parent.recipe, child.recipe)
        assert "/knobs/" in path
        assert kernel_digest(child.source) != kernel_digest(parent.source)


def test_a_local_move_continues_from_the_recipe_in_the_source() -> None:
    parent = structural("softmax", seed=2)
    assert local("softmax", replace(shown(parent), recipe=""), seed=1) == local("softmax", shown(parent), seed=1)


def test_after_a_compile_error_the_named_spelling_is_repaired() -> None:
    parent = next(found for seed in range(40) if "tl.math.tanh(" in (found := structural("bias_gelu_residual", seed=seed)).source)
    failed = shown(parent, "FAILED", "COMPILE", "module 'triton.language.math' has no attribute 'tanh'")
    ((path, old, new),) = differences(parent.recipe, local("bias_gelu_residual", failed, seed=1).recipe)
    assert (path, old) == ("/spelling/tanh", "tl.math.tanh")
    assert new != old


def test_after_an_overflow_of_shared_memory_something_gets_smaller() -> None:
    parent = structural("linear_relu", seed=0, track="triton_only")
    failed = shown(parent, "FAILED", "LAUNCH", "out of resource: shared memory")
    for seed in range(4):
        ((path, old, new),) = differences(parent.recipe, local("linear_relu", failed, seed=seed, track="triton_only").recipe)
        assert path.rsplit("/", 1)[-1] in {"BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages"}
        assert new < old


def test_local_moves_of_a_kernel_without_recipe_change_one_literal() -> None:
    source = "BLOCK = 128  # elements\n\ndef run(x):\n    kernel[(1,)](x, BLOCK, num_warps=4)\n"
    seen = set()
    for seed in range(16):
        child = local("softmax", ContextKernel(source), seed=seed)
        assert child.recipe == ""
        seen.add(child.source)
    assert seen == {
        source.replace(old, new)
        for old, new in (("128", "64"), ("128", "256"), ("num_warps=4", "num_warps=2"), ("num_warps=4", "num_warps=8"))
    }


def test_local_moves_of_a_kernel_without_parameters_have_nothing_to_offer() -> None:
    proposal = propose(request("softmax", Move.LOCAL, parents=(ContextKernel("def run(x):\n    return x\n"),)))
    assert proposal.outcome is Outcome.EXHAUSTED


def test_a_task_without_a_graph_is_exhausted_with_the_reason() -> None:
    empty = TaskDescription(graph_absent_reason="torch.export: data-dependent branch")
    proposal = propose(TemplateRequest(RELU, "relu", empty, Move.STRUCTURAL))
    assert proposal.outcome is Outcome.EXHAUSTED
    assert "data-dependent branch" in proposal.message


def test_a_candidate_keeps_what_the_constructor_needs_and_nothing_else() -> None:
    source = propose(TemplateRequest(RELU, "relu", relu_description(), Move.STRUCTURAL)).source
    names = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"ModelNew", "doubled"} <= names
    assert not names & {"Model", "unused", "get_inputs", "get_init_inputs"}
    assert "LIMIT = 3" in source
    assert "super(ModelNew, self)" in source


def test_sizes_come_from_the_tensors_and_not_from_the_task() -> None:
    for name in ("groupnorm", "layernorm", "sequence", "attention_scores"):
        for seed in range(3):
            code = structural(name, seed=seed).source
            host = [line for line in code.splitlines() if "torch.empty" in line or ".reshape(" in line or "size = " in line]
            assert not any(number in line for line in host for number in ("96", "320")), host


def test_a_function_task_gets_a_function_of_its_name() -> None:
    source = "import torch\n\n\ndef cut(x):\n    return torch.relu(x)\n\n\ndef get_inputs():\n    return [torch.randn(64, 40)]\n"
    task = replace(relu_description(), format=TaskFormat.FUNCTION, entry_point="cut")
    written = propose(TemplateRequest(source, "cut", task, Move.STRUCTURAL)).source
    names = [node.name for node in ast.parse(written).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert names[-1] == "cut"
    assert not {"ModelNew", "get_inputs"} & set(names)


def test_an_argument_may_have_any_name() -> None:
    source = RELU.replace("forward(self, x)", "forward(self, mask)").replace("relu(x)", "relu(mask)")
    written = propose(TemplateRequest(source, "relu", describe(source, {"rows": 5}), Move.STRUCTURAL)).source
    assert "def forward(self, mask):" in written
    assert "launch_pointwise_0(mask)" in written


def test_the_precision_class_decides_how_products_round() -> None:
    for precision, expected in (("fp32", "ieee"), ("tf32", "tf32")):
        assert f'input_precision="{expected}"' in structural("linear_relu", precision=precision, track="triton_only").source


def test_the_templates_import_neither_torch_nor_triton() -> None:
    code = "import sys, adaexplore_generator.templates; sys.exit(bool({'torch', 'triton', 'grpc'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
