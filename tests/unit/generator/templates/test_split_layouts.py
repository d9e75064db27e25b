"""Kernels that share a row among programs send no tile of it through shared memory to change its layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from adaexplore_generator.domain import Move
from adaexplore_generator.templates import TemplateRequest
from adaexplore_generator.templates.candidate import make_plan, write_candidate
from adaexplore_generator.templates.lowering import lower
from adaexplore_generator.templates.recipe import GroupChoice, Recipe
from unit.generator.templates.graphs import describe
from unit.generator.templates.running import failures, run_worker
from unit.generator.templates.tasks import TASKS, SmallTask

TILE = 512

# Broadcasts statistics that it reduces from a small tile to the tiles of a row.
BROADCASTING = """import torch
import triton
import triton.language as tl


@triton.jit
def centre_kernel(x_ptr, parts_ptr, out_ptr, size, BLOCK: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    parts = tl.load(parts_ptr + row * SPLITS + tl.arange(0, SPLITS)[None, :])
    total = tl.sum(parts * parts, axis=1, keep_dims=True)
    mean = tl.sum(parts, axis=1, keep_dims=True) / total
    shift = parts - mean
    scale = tl.math.rsqrt(tl.sum(shift * shift, axis=1, keep_dims=True) / total + 1e-5)
    for start in range(0, size, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + row * size + cols, mask=cols < size, other=0.0)
        tl.store(out_ptr + row * size + cols, (x - mean) * scale, mask=cols < size)


class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x):
        out = torch.empty_like(x)
        centre_kernel[(x.shape[0],)](x, x, out, x.shape[1], BLOCK=4096, SPLITS=16, num_warps=16)
        return out
"""


def task_named(name: str) -> SmallTask:
    return next(task for task in TASKS if task.name == name)


def rewritten(forward: str) -> SmallTask:
    """The softmax task with another forward."""
    softmax = task_named("softmax")
    return replace(softmax, name=forward, source=softmax.source.replace("return torch.softmax(x, dim=1)", forward))


def split_source(task: SmallTask, **knobs: int | str) -> str:
    description = describe(task.source, task.judged)
    plan = make_plan(TemplateRequest(task.source, task.name, description, Move.STRUCTURAL), lower(description))
    groups = tuple(GroupChoice("split", tuple(knobs.items())) for _ in plan.groups(()))
    return write_candidate(plan, Recipe((), groups))


def job(task: SmallTask, kernel: str, source: str, constants: dict[str, int]) -> dict:
    return {"name": task.name, "task": task.source, "constants": constants, "source": source, "kernel": kernel, "tile": TILE}


def split_jobs(shapes: Sequence[tuple[int, int, int]], constants: dict[str, int]) -> list[dict]:
    """Split kernels of several tasks; a shape is rows and columns of a tile and warps of a program."""
    found = []
    for name, group in (("layernorm", "norm_0"), ("softmax", "softmax_0"), ("rmsnorm_residual", "reduce_0")):
        task = task_named(name)
        for rows, block, warps in shapes:
            for accumulate in ("row", "tile"):
                source = split_source(task, ROWS=rows, BLOCK=block, num_warps=warps, SPLITS=16, accumulate=accumulate)
                about = f"{name} {rows} {block} {warps} {accumulate}"
                found.append(job(task, f"{group}_finish_kernel", source, constants) | {"name": about})
    return found


def test_split_kernels_convert_the_layout_of_no_tile(tmp_path: Path) -> None:
    jobs = split_jobs(((1, 512, 2), (1, 4096, 16), (2, 2048, 8), (4, 1024, 4)), {})
    assert failures(jobs, run_worker("conversions", jobs, tmp_path)) == {}


def test_statistics_that_are_reduced_and_broadcast_in_one_kernel_are_seen_to_convert_tiles(tmp_path: Path) -> None:
    jobs = [job(task_named("layernorm"), "centre_kernel", BROADCASTING, {})]
    assert failures(jobs, run_worker("conversions", jobs, tmp_path)) == {"layernorm": "centre_kernel converts 1x4096"}


def test_split_kernels_compute_what_the_reference_does_at_odd_sizes(tmp_path: Path) -> None:
    jobs = [*split_jobs(((2, 512, 4),), {"rows": 5, "cols": 37}), *split_jobs(((1, 512, 4),), {"rows": 3, "cols": 9001})]
    assert failures(jobs, run_worker("interpret", jobs, tmp_path)) == {}


def test_masks_and_results_of_a_row_come_out_right_where_several_programs_share_it(tmp_path: Path) -> None:
    forwards = (
        "return torch.where(x.mean(1, keepdim=True) > 0, x - x.mean(1, keepdim=True), x * 2)",
        "total = x.sum(1, keepdim=True)\n        return total, x * total",
        "return x.exp().sum(1), x.exp()",
        "return x * torch.rsqrt(x.square().mean(0, keepdim=True) + 1e-6)",
    )
    jobs = []
    for task in map(rewritten, forwards):
        source = split_source(task, ROWS=2, BLOCK=16, num_warps=4, SPLITS=8)
        assert "_combine_kernel[" in source
        jobs.append(job(task, "", source, {"rows": 37, "cols": 300}))
    assert failures(jobs, run_worker("interpret", jobs, tmp_path)) == {}
