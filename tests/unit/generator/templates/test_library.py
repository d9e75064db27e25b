"""Products that stay with the vendor's library: which may, when they are tried, and that what surrounds them is fused and right."""

from __future__ import annotations

import ast
import itertools
import json
from pathlib import Path

import pytest
from adaexplore_generator.domain import ContextKernel, Feedback, Move, Outcome
from adaexplore_generator.templates import TemplateProposal, TemplateRequest, propose
from adaexplore_generator.templates.candidate import Plan, make_plan, write_candidate
from adaexplore_generator.templates.functions import SPELLINGS
from adaexplore_generator.templates.library import THIN_DEPTH
from adaexplore_generator.templates.lowering import lower
from adaexplore_generator.templates.recipe import GroupChoice, Recipe, embedded
from adaexplore_generator.templates.space import algorithms, defaults
from unit.generator.templates.graphs import describe
from unit.generator.templates.running import failures, run_worker
from unit.generator.templates.skills import KNOWN_PITFALLS, pitfall
from unit.generator.templates.tasks import TASKS, SmallTask, small_task

from adaexplore.runtime.sources import kernel_digest

TWO_INPUTS = "[torch.randn(rows, cols), torch.randn(cols, 48)]"

PRODUCTS = (
    *(task for task in TASKS if task.name in {"swiglu", "linear_relu", "attention_scores", "transposed", "sequence"}),
    small_task("addmm_vector", "self.b = nn.Parameter(torch.ones(48))", "return torch.relu(torch.addmm(self.b, x, y))", TWO_INPUTS, "x, y"),
    small_task(
        "addmm_matrix",
        "",
        "return torch.exp(torch.addmm(z, x, y, beta=0.5, alpha=0.01))",
        "[torch.randn(rows, cols), torch.randn(cols, 48), torch.randn(rows, 48)]",
        "x, y, z",
    ),
    small_task(
        "baddbmm",
        "",
        "return torch.relu(torch.baddbmm(z, x, y))",
        "[torch.randn(3, rows, cols), torch.randn(3, cols, 48), torch.randn(3, rows, 48)]",
        "x, y, z",
    ),
    small_task(
        "between",
        "self.up = nn.Linear(size, 64)\nself.down = nn.Linear(64, 40)",
        "return torch.relu(self.down(torch.sigmoid(self.up(x * 2.0)))) + 1.0",
        "[torch.randn(rows, cols)]",
    ),
    small_task(
        "product_groupnorm",
        "self.linear = nn.Linear(size, 48)\nself.shift = nn.Parameter(torch.ones(48))\nself.norm = nn.GroupNorm(6, 48)",
        "y = self.linear(x)\nreturn self.norm(torch.sigmoid(y) * y + self.shift)",
        "[torch.randn(rows, cols)]",
    ),
)
NAMED = {task.name: task for task in PRODUCTS}


def asked(task: SmallTask, move: Move = Move.STRUCTURAL, **fields: object) -> TemplateRequest:
    return TemplateRequest(task.source, task.name, describe(task.source, task.judged), move, **fields)


def proposed(task: SmallTask, **fields: object) -> TemplateProposal:
    proposal = propose(asked(task, **fields))
    assert proposal.outcome is Outcome.KERNEL, proposal.message
    return proposal


def planned(task: SmallTask, **fields: object) -> Plan:
    request = asked(task, **fields)
    return make_plan(request, lower(request.description))


def source_of(plan: Plan, library: tuple[int, ...]) -> str:
    groups = tuple(GroupChoice(algorithms(group)[0], defaults(group, algorithms(group)[0])) for group in plan.groups((), library))
    return write_candidate(plan, Recipe((), groups, library=library))


def forward_of(source: str) -> list[str]:
    """Functions that `forward` calls, in order."""
    model = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    forward = next(node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
    calls = [ast.unparse(node.value.func) for node in forward.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    return [call.rsplit(".", 1)[-1] for call in calls]


def launches_of(source: str) -> int:
    return sum(call.startswith("launch_") for call in forward_of(source))


def test_every_choice_of_products_for_the_library_computes_what_the_reference_does(tmp_path: Path) -> None:
    jobs = []
    for task in PRODUCTS:
        plan = planned(task)
        assert any(plan.programs), task.name
        for library in filter(None, plan.programs):
            about = {"name": f"{task.name} {library}", "task": task.source, "constants": task.judged, "source": source_of(plan, library)}
            jobs.append(about | {"budget": 1e-4})
    assert failures(jobs, run_worker("interpret", jobs, tmp_path)) == {}


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_the_first_proposal_leaves_float32_products_to_the_library_and_fuses_what_follows(precision: str) -> None:
    for seed in range(3):
        first = proposed(NAMED["linear_relu"], precision=precision, seed=seed)
        assert forward_of(first.source) == ["linear", "launch_pointwise_0"]
        assert "self.linear.bias" in first.source
        assert "tl.dot(" not in first.source


def test_the_proposals_after_the_first_write_products_in_triton_too() -> None:
    known: set[str] = set()
    kinds = []
    for seed in range(6):
        source = proposed(NAMED["linear_relu"], seed=seed, known_digests=frozenset(known)).source
        known.add(kernel_digest(source))
        kinds.append("tl.dot(" in source)
    assert not kinds[0]
    assert any(kinds[1:])


def test_a_rule_against_the_first_proposals_spelling_makes_it_a_new_one() -> None:
    task = NAMED["addmm_matrix"]
    first = proposed(task)
    ((function, ident),) = embedded(first.source).spelling
    spelling = next(option for option in SPELLINGS[function] if option.ident == ident)
    rule = pitfall(spelling.names[0])
    second = proposed(task, skills=(rule,), known_digests=frozenset({kernel_digest(first.source)}))
    assert embedded(second.source).library == (0,)
    assert second.respected_skills == (rule.name,)


@pytest.mark.parametrize("track", ["no_vendor_library", "triton_only"])
def test_no_track_against_libraries_gets_a_product_of_one(track: str) -> None:
    for name, seed in itertools.product(("swiglu", "linear_relu"), range(6)):
        proposal = proposed(NAMED[name], track=track, seed=seed)
        assert json.loads(proposal.recipe)["library"] == []
        assert "linear(" not in proposal.source.split("def forward")[1]


def test_a_call_without_a_template_leaves_nothing_to_propose_where_the_track_forbids_it() -> None:
    task = next(task for task in TASKS if task.name == "stays_partly")
    assert proposed(task, track="no_vendor_library").source
    proposal = propose(asked(task, track="triton_only"))
    assert proposal.outcome is Outcome.EXHAUSTED
    assert "cumsum" in proposal.message


def test_a_recipe_for_the_library_is_not_taken_up_where_the_track_forbids_it() -> None:
    first = proposed(NAMED["linear_relu"])
    plan = planned(NAMED["linear_relu"], track="triton_only")
    assert embedded(first.source).library not in plan.programs


def test_a_pure_product_is_never_left_to_the_library() -> None:
    task = small_task("pure", "", "return x @ y", TWO_INPUTS, "x, y")
    assert tuple(planned(task).programs) == ((),)
    assert "tl.dot(" in proposed(task).source


def test_a_thin_product_is_not_the_librarys_at_first() -> None:
    thin = f"[torch.randn(rows, {THIN_DEPTH}), torch.randn({THIN_DEPTH}, cols)]"
    task = small_task("thin", "", "return torch.relu(x @ y)", thin, "x, y")
    assert any("tl.dot(" in proposed(task, seed=seed).source for seed in range(8))
    assert any("tl.dot(" not in proposed(task, seed=seed).source for seed in range(8))


def test_products_in_half_precision_are_not_the_librarys_at_first() -> None:
    assert any("tl.dot(" in proposed(NAMED["linear_relu"], precision="bf16", seed=seed).source for seed in range(8))


def test_products_run_before_what_needs_them_so_that_one_kernel_follows() -> None:
    source = source_of(planned(NAMED["swiglu"]), (0, 1))
    assert forward_of(source) == ["linear", "linear", "launch_pointwise_0"]


def test_a_vector_is_added_by_the_library_and_a_matrix_by_the_kernel_that_follows() -> None:
    vector, matrix = (source_of(planned(NAMED[name]), (0,)) for name in ("addmm_vector", "addmm_matrix"))
    assert forward_of(vector) == ["addmm", "launch_pointwise_0"]
    assert forward_of(matrix) == ["mm", "launch_pointwise_0"]
    assert forward_of(source_of(planned(NAMED["baddbmm"]), (0,))) == ["bmm", "launch_pointwise_0"]


def test_a_group_norm_holds_all_that_lies_between_it_and_the_product() -> None:
    plan = planned(NAMED["product_groupnorm"])
    assert launches_of(source_of(plan, (0,))) == 1
    assert [group.kind for group in plan.groups((), ())] == ["product", "rows"]


def test_a_recipe_of_the_first_version_is_read_as_one_without_library() -> None:
    recipe = Recipe((2,), (GroupChoice("flat", (("BLOCK", 1024),)),), (("exp", "tl.exp"),))
    old = json.loads(recipe.to_json())
    del old["library"]
    assert embedded(f"pass\n\n# adaexplore-recipe: {json.dumps(old | {'version': 1})}\n") == recipe
    assert embedded(f"pass\n\n# adaexplore-recipe: {json.dumps(old | {'version': 3})}\n") is None


def test_a_local_move_keeps_the_products_where_they_are() -> None:
    first = proposed(NAMED["linear_relu"])
    parent = ContextKernel(first.source, feedback=Feedback("PASSED"), recipe=first.recipe)
    for seed in range(3):
        child = proposed(NAMED["linear_relu"], move=Move.LOCAL, parents=(parent,), seed=seed, skills=KNOWN_PITFALLS)
        assert json.loads(child.recipe)["library"] == [0]
