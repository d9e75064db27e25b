"""What the templates write compiles for a GPU and computes what the reference computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from adaexplore_generator.domain import ContextKernel, Feedback, Move, Outcome
from adaexplore_generator.templates import TemplateRequest, propose
from unit.generator.templates.graphs import describe
from unit.generator.templates.running import failures, run_worker
from unit.generator.templates.skills import KNOWN_PITFALLS
from unit.generator.templates.tasks import TASKS

# Seeds that between them draw every algorithm; a task has the seed of its place unless it is named here.
SEEDS = {"min_mean": 4, "linear_relu": 1, "channel_scale": 2, "layernorm": 3, "attention_scores": 5}


@pytest.fixture(scope="module")
def jobs() -> list[dict]:
    """One structural proposal a task, and a local move away from every third."""
    found = []
    for number, task in enumerate(TASKS):
        description = describe(task.source, task.judged)
        request = TemplateRequest(
            task.source, task.name, description, Move.STRUCTURAL, skills=KNOWN_PITFALLS, seed=SEEDS.get(task.name, number)
        )
        proposal = propose(request)
        assert proposal.outcome is Outcome.KERNEL, f"{task.name}: {proposal.message}"
        if number % 3 == 0:
            parent = ContextKernel(proposal.source, feedback=Feedback("PASSED"), recipe=proposal.recipe)
            proposal = propose(
                TemplateRequest(task.source, task.name, description, Move.LOCAL, parents=(parent,), skills=KNOWN_PITFALLS, seed=number)
            )
            assert proposal.outcome is Outcome.KERNEL, f"{task.name}: {proposal.message}"
        found.append({"name": task.name, "task": task.source, "constants": task.judged, "source": proposal.source})
    return found


def test_proposals_compute_what_the_reference_does_at_odd_sizes(jobs: list[dict], tmp_path: Path) -> None:
    strided = [
        {**job, "name": f"{job['name']} strided", "noncontiguous": True} for job in jobs if job["name"] in {"softmax", "linear_relu"}
    ]
    every = [*jobs, *strided]
    assert failures(every, run_worker("interpret", every, tmp_path)) == {}


def test_every_row_algorithm_treats_infinities_and_nan_as_torch_does(tmp_path: Path) -> None:
    found = {}
    for task in TASKS:
        if task.name in {"softmax", "logsumexp", "min_mean"}:
            description = describe(task.source, task.judged)
            for seed in range(12):
                request = TemplateRequest(task.source, task.name, description, Move.STRUCTURAL, skills=KNOWN_PITFALLS, seed=seed)
                proposal = propose(request)
                chosen = tuple(group["algorithm"] for group in json.loads(proposal.recipe)["groups"])
                job = {"name": f"{task.name} {chosen}", "task": task.source, "constants": task.judged, "source": proposal.source}
                found.setdefault((task.name, chosen), job)
    assert {"one_pass", "looped", "online", "split"} <= {algorithm for _, chosen in found for algorithm in chosen}
    assert failures(list(found.values()), run_worker("special", list(found.values()), tmp_path)) == {}


def test_proposals_compile_for_sm_90(jobs: list[dict], tmp_path: Path) -> None:
    # Products in float32 compile for tens of seconds; the bfloat16 ones below stand for them.
    quick = [job for job in jobs if "tl.dot(" not in job["source"]]
    assert len(quick) > 12
    assert failures(quick, run_worker("compile", quick, tmp_path)) == {}


def test_proposals_in_bfloat16_compile_for_sm_90(tmp_path: Path) -> None:
    found = []
    for task in TASKS:
        if task.name in {"swiglu", "layernorm", "bias_gelu_residual"}:
            description = describe(task.source, task.judged, dtype=torch.bfloat16)
            request = TemplateRequest(task.source, task.name, description, Move.STRUCTURAL, precision="bf16", skills=KNOWN_PITFALLS, seed=1)
            source = propose(request).source
            assert "input_precision" not in source
            found.append({"name": task.name, "task": task.source, "constants": task.judged, "source": source, "dtype": "bfloat16"})
    assert failures(found, run_worker("compile", found, tmp_path)) == {}


def test_a_spelling_that_this_triton_lacks_does_not_compile(tmp_path: Path) -> None:
    task = next(task for task in TASKS if task.name == "bias_gelu_residual")
    description = describe(task.source, task.judged)
    drawn = (propose(TemplateRequest(task.source, task.name, description, Move.STRUCTURAL, seed=seed)).source for seed in range(40))
    source = next(source for source in drawn if "tl.math.tanh(" in source)
    job = {"name": task.name, "task": task.source, "constants": task.judged, "source": source}
    assert "CompilationError" in failures([job], run_worker("compile", [job], tmp_path))[task.name]
