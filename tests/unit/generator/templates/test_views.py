"""Views between operators: what precedes and follows one is computed in the kernel on its other side, and rightly so."""

from __future__ import annotations

from pathlib import Path

import pytest
from adaexplore_generator.domain import Move
from adaexplore_generator.templates import TemplateRequest
from adaexplore_generator.templates.candidate import Plan, make_plan, write_candidate
from adaexplore_generator.templates.lowering import lower
from adaexplore_generator.templates.recipe import GroupChoice, Recipe
from adaexplore_generator.templates.space import algorithms, defaults
from unit.generator.templates.graphs import describe
from unit.generator.templates.running import failures, run_worker
from unit.generator.templates.tasks import SmallTask, small_task

NORM = "self.norm = nn.GroupNorm(3, 6)\nself.scale = nn.Parameter(torch.ones(6, 1, 1))"
IMAGE = "[torch.randn(3, 6, rows, 9)]"
IMAGES = "[torch.randn(3, 6, rows, 9), torch.randn(3, 6, rows, 9)]"

# A task, and the fewest kernels that it takes.
TAKEN = (
    (small_task("before", NORM, "return self.norm(torch.relu(x) * self.scale + 1.0)", IMAGE), 1),
    (small_task("after", NORM, "y = self.norm(x)\nreturn torch.sigmoid(y) * y * self.scale", IMAGE), 1),
    (small_task("around", NORM, "return torch.relu(self.norm(x * self.scale)) - 0.5", IMAGE), 1),
    (small_task("residual", NORM, "return torch.relu(self.norm(x)) + residual", IMAGES, "x, residual"), 1),
    (small_task("mask", NORM, "y = self.norm(x)\nreturn torch.where(y > residual, y, residual)", IMAGES, "x, residual"), 1),
    (small_task("both", NORM, "y = self.norm(x)\nreturn y, torch.exp(y)", IMAGE), 1),
    (small_task("then_rows", NORM, "return torch.softmax(torch.relu(self.norm(x)), dim=-1)", IMAGE), 2),
    (small_task("operand_read_twice", NORM, "y = torch.relu(x)\nreturn self.norm(y), y * 2.0", IMAGE), 3),
    (small_task("made_by_a_kernel", NORM, "return self.norm(x) + torch.exp(residual)", IMAGES, "x, residual"), 2),
    (small_task("flattened", "", "return torch.relu(torch.relu(x).reshape(3, -1) + 1.0)", IMAGE), 1),
    (small_task("channels_differ", NORM, "return torch.relu(self.norm(x)).view(3, -1) * 2.0", IMAGE), 1),
    (
        small_task(
            "convolved", NORM + "\nself.conv = nn.Conv2d(6, 6, 3)", "return torch.relu(self.norm(F.hardswish(self.conv(x))))", IMAGE
        ),
        1,
    ),
    (small_task("spread", NORM, "return self.norm(x * pale)", "[torch.randn(3, 6, rows, 9), torch.randn(3, 1, rows, 9)]", "x, pale"), 1),
)


def plan_of(task: SmallTask) -> Plan:
    request = TemplateRequest(task.source, task.name, describe(task.source, task.judged), Move.STRUCTURAL)
    return make_plan(request, lower(request.description))


def source_of(plan: Plan) -> str:
    chosen = tuple(GroupChoice(algorithms(group)[0], defaults(group, algorithms(group)[0])) for group in plan.groups(()))
    return write_candidate(plan, Recipe((), chosen, (("tanh", "libdevice.tanh"),)))


@pytest.mark.parametrize(("task", "kernels"), TAKEN, ids=[task.name for task, _ in TAKEN])
def test_as_few_kernels_as_views_allow_are_written(task: SmallTask, kernels: int) -> None:
    assert len(plan_of(task).groups(())) == kernels


def test_what_is_moved_across_a_view_computes_what_the_reference_does(tmp_path: Path) -> None:
    jobs = [
        {"name": task.name, "task": task.source, "constants": task.judged, "source": source_of(plan_of(task)), "budget": 1e-4}
        for task, _ in TAKEN
    ]
    assert failures(jobs, run_worker("interpret", jobs, tmp_path)) == {}
