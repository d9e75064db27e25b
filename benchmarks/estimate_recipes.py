"""Recipes of kernels that the product's own templates write for the example tasks: their sources, and what the cpu device counts.

    python -m benchmarks.estimate_recipes FOLDER

Needs the services and no GPU. Draws recipes (every algorithm of every task with its default knobs, then with knobs drawn at random,
extremes included) and writes one source a recipe, which estimate_candidates.py measures on a GPU.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from adaexplore_evaluator.runner.candidate import CandidateRole
from adaexplore_evaluator.runner.reference import ReferenceRole
from adaexplore_evaluator.runner.wire import BufferFolder, encode_types
from adaexplore_generator.convert import description
from adaexplore_generator.domain import Move
from adaexplore_generator.templates.candidate import Plan, make_plan, write_candidate
from adaexplore_generator.templates.frames import Group
from adaexplore_generator.templates.lowering import lower
from adaexplore_generator.templates.recipe import GroupChoice, Recipe
from adaexplore_generator.templates.request import TemplateRequest
from adaexplore_generator.templates.space import algorithms, defaults, functions_spelled, knobs
from google.protobuf import json_format

from adaexplore.types.v1 import task_pb2

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SEED = 20
TARGET = "sm_90"
TANH = ("tanh", "libdevice.tanh")
MOST_RESULTS = 256
"""Most results a thread of a product keeps; kernels with more take minutes to compile."""

MOST_STEPS = 8192
"""Most multiplications a thread of a float32 product is unrolled to."""

# Task, precision class, and how many recipes with drawn knobs beside the default of each algorithm.
DRAWN = (
    ("bias_gelu_residual", "fp32", 3),
    ("swiglu", "fp32", 4),
    ("softmax", "fp32", 2),
    ("layernorm", "fp32", 2),
    ("rmsnorm_residual", "fp32", 2),
    ("logsumexp_rows", "fp32", 2),
    ("cross_entropy", "fp32", 2),
    ("matmul_bias_relu", "fp32", 2),
    ("matmul_bias_relu", "bf16", 2),
    ("lowrank_gelu_residual", "fp32", 11),
    ("lowrank_gelu_residual", "tf32", 2),
)
Record = dict[str, Any]


def silent(_phase: str, _message: str) -> None:
    """Progress that nobody reads."""


class Task:
    """An example task in a precision class: the generator's plan of it, and the evaluator's full pass over its candidates."""

    def __init__(self, name: str, precision: str, folder: Path, examples: Path = EXAMPLES) -> None:
        self.name, self.precision = name, precision
        self._folder = folder
        path = examples / f"{name}.py"
        role = ReferenceRole(BufferFolder(folder, "r"), silent)
        loaded = role.load_task({"path": str(path), "precision": precision})
        self.described: Record = dict(role.commands()["describe"]({"shape": "full"}))
        found = json_format.ParseDict(self._message(loaded["format"]), task_pb2.TaskDescription(), ignore_unknown_fields=True)
        request = TemplateRequest(path.read_text(), name, description(found), Move.STRUCTURAL, precision=precision)
        self.plan: Plan = make_plan(request, lower(request.description))

    def _message(self, task_format: object) -> Record:
        return {"format": f"TASK_FORMAT_{str(task_format).upper()}", "graph": self.described["graph"]}

    def source(self, recipe: Recipe) -> str:
        """The candidate that a recipe describes."""
        return write_candidate(self.plan, recipe)

    def launches(self, source: str) -> list[Record]:
        """Launch records of a candidate's call at full shape, counted on the way that every candidate goes."""
        path = self._folder / "candidate.py"
        path.write_text(source)
        role = CandidateRole(BufferFolder(self._folder, "c"), silent)
        role.load_candidate(
            {"path": str(path), "entry_points": ["ModelNew"], "format": "module", "target": TARGET, "precision": self.precision}
        )
        init_inputs = [ast.literal_eval(item["literal"]) for item in self.described["init_inputs"]]
        inputs = [_on_meta(item["tensor"]) for item in self.described["inputs"]]
        answer = role.run_full({"init_inputs": encode_types(init_inputs), "inputs": encode_types(inputs)})
        found: list[Record] = answer["launches"]
        return found


def as_text(recipe: Recipe) -> str:
    """A recipe in one readable line: each kernel's algorithm and knobs."""
    return " + ".join(" ".join([group.algorithm, *(f"{name}={value}" for name, value in group.knobs)]) for group in recipe.groups)


def from_text(text: str, task: Task) -> Recipe:
    """The recipe of a line that `as_text` wrote, for a task without further breaks."""
    groups = []
    for part in text.split(" + "):
        algorithm, *words = part.split()
        pairs = (word.split("=") for word in words)
        groups.append(GroupChoice(algorithm, tuple((name, int(value) if value.isdigit() else value) for name, value in pairs)))
    return Recipe((), tuple(groups), spelling_of(task))


def spelling_of(task: Task) -> tuple[tuple[str, str], ...]:
    """Spellings with which a task's kernels compile for every target."""
    return (TANH,) if "tanh" in functions_spelled(task.plan.groups(())) else ()


def _on_meta(found: Record) -> torch.Tensor:
    dtype = getattr(torch, found["dtype"].removeprefix("D_TYPE_").lower())
    return torch.empty_strided(found["shape"], found["strides"], dtype=dtype, device="meta")


def recipes(task: Task, drawn: int, rng: random.Random) -> Iterator[Recipe]:
    """Every algorithm of the largest kernel with its defaults, then with up to three knobs drawn at random."""
    groups = task.plan.groups(())
    main = max(range(len(groups)), key=lambda number: sum(node.kind != "map" for node in groups[number].nodes))
    seen: set[GroupChoice] = set()
    for algorithm in algorithms(groups[main]):
        wanted, tries = len(seen) + 1 + drawn, 0
        choice = GroupChoice(algorithm, defaults(groups[main], algorithm))
        while len(seen) < wanted and tries < 100:
            if choice not in seen and _is_small(groups[main], choice, task.precision):
                seen.add(choice)
                others = [GroupChoice(name := algorithms(group)[0], defaults(group, name)) for group in groups]
                yield Recipe((), (*others[:main], choice, *others[main + 1 :]), spelling_of(task))
            choice, tries = _drawn(groups[main], algorithm, rng), tries + 1


def _drawn(group: Group, algorithm: str, rng: random.Random) -> GroupChoice:
    values = dict(defaults(group, algorithm))
    free = [knob for knob in knobs(group, algorithm) if len(knob.values) > 1 and knob.name != "accumulate"]
    for knob in rng.sample(free, min(len(free), rng.randint(1, 4))):
        values[knob.name] = rng.choice(knob.values)
    return GroupChoice(algorithm, tuple(values.items()))


def _is_small(group: Group, choice: GroupChoice, precision: str) -> bool:
    values = dict(choice.knobs)
    if group.kind != "product":
        return True
    results = int(values["BLOCK_M"]) * int(values["BLOCK_N"]) / (32 * int(values["num_warps"]))
    return results <= MOST_RESULTS and (precision != "fp32" or results * int(values["BLOCK_K"]) <= MOST_STEPS)


def main() -> int:
    """Write the sources, and `recipes.json` with what each is."""
    parser = argparse.ArgumentParser(description="Write the kernels that estimate_candidates.py measures.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED, help="another one draws other kernels")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for name, precision, drawn in DRAWN:
        with tempfile.TemporaryDirectory() as scratch:
            task = Task(name, precision, Path(scratch))
            for recipe in recipes(task, drawn, random.Random(f"{options.seed}/{name}/{precision}")):
                file = f"{len(records):03d}_{name}.py"
                (folder / file).write_text(task.source(recipe))
                records.append({"task": name, "precision": precision, "recipe": as_text(recipe), "file": file})
    (folder / "recipes.json").write_text(json.dumps(records))
    print(f"wrote {len(records)} candidates to {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
