"""Composes a task from random operators whose shapes fit, without running any of them."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from adaexplore_generator.errors import request_invalid
from adaexplore_generator.synthesis.operators import Operator, Shape, load_operators

_STEPS = (3, 6)
_ATTEMPTS = 400
_MAX_ELEMENTS = 1 << 20
_MIN_EXTENT = 6  # below it windows of three and more no longer fit the shapes that operators were tried on
_ARGUMENTS = {2: ((16, 64), (32, 256)), 3: ((4, 8), (16, 64), (24, 96)), 4: ((2, 4), (8, 32), (16, 40), (16, 40))}


@dataclass(frozen=True)
class ComposedTask:
    """A composed task: its source, the digest of its structure (extents aside) and the operators in order."""

    source: str
    digest: str
    operators: tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    operator: Operator
    argument: int
    second: int | None
    shape: Shape


def compose(seed: int, wanted: Sequence[str] = (), known: Collection[str] = ()) -> ComposedTask:
    """Compose a task; the same arguments always give the same one.

    Args:
        seed: What the random choices follow from.
        wanted: Qualified names of the operators to choose from; empty means all.
        known: Digests of structures that are not to be composed again.

    Returns:
        A task of three to six operators whose `forward` returns one float32 tensor.

    Raises:
        InvalidArgumentError: A name is not listed, or the names allow no further task (REQUEST_INVALID).

    """
    listed = load_operators()
    unknown = sorted(set(wanted) - {item.name for item in listed})
    if unknown:
        raise request_invalid(
            "operators", f"names {unknown[0]!r}, which the composer does not know; leave the field empty to use all it knows"
        )
    usable = [item for item in listed if not wanted or item.name in wanted]
    names = sorted({item.name for item in usable})
    rng = random.Random(seed)  # noqa: S311
    for _ in range(_ATTEMPTS):
        found = _draw(rng, usable, names)
        if found and found.digest not in known:
            return found
    raise request_invalid("operators", "allow no task of three operators that is not known yet; name more of them")


def _draw(rng: random.Random, usable: list[Operator], names: list[str]) -> ComposedTask | None:
    rank = rng.choice(sorted({item.rank for item in usable}))
    first = tuple(rng.randint(*bounds) for bounds in _ARGUMENTS[rank])
    shapes: list[Shape] = [(first[0], first[1] // 4 * 4, *first[2:])]
    steps: list[_Step] = []
    for _ in range(rng.randint(*_STEPS)):
        fitting = [item for item in usable if item.rank == len(shapes[-1]) and _fits(item.result(shapes[-1]))]
        if not fitting:
            return None
        name = rng.choice(sorted({item.name for item in fitting}))
        operator = next(item for item in fitting if item.name == name)
        second = rng.choice([i for i, shape in enumerate(shapes) if shape == shapes[-1]]) if "{y}" in operator.call else None
        if second == len(shapes) - 1:
            second = -1  # an operand equal to the other one is an identity for many operators: a second input stands in
        steps.append(_Step(operator, len(shapes) - 1, second, operator.result(shapes[-1])))
        shapes.append(steps[-1].shape)
    structure = "\n".join(f"{step.operator.name} {step.operator.rank} {step.second}" for step in steps)
    digest = hashlib.sha256(structure.encode()).hexdigest()
    return ComposedTask(_source(shapes, steps), digest, tuple(step.operator.name for step in steps))


def _fits(shape: Shape) -> bool:
    # Only the batch may be small: the operators were tried with channels in fours.
    tried = len(shape) in _ARGUMENTS and shape[0] >= 2
    return tried and shape[1] % 4 == 0 and min(shape[1:]) >= _MIN_EXTENT and math.prod(shape) <= _MAX_ELEMENTS


def _source(shapes: list[Shape], steps: list[_Step]) -> str:
    layers, body, inputs = [], [], [("x0", shapes[0])]
    for number, step in enumerate(steps, 1):
        argument = shapes[step.argument]
        if step.operator.layer:
            layers.append(f"        self.layer{number} = {step.operator.layer.format(c=argument[1], l=argument[-1])}")
        second = f"x{step.second}"
        if step.second == -1:
            second = f"y{number}"
            inputs.append((second, argument))
        call = step.operator.call.replace("{x}", f"x{step.argument}").replace("{y}", second).replace("{m}", f"self.layer{number}")
        body.append(f"        x{number} = {call}")
    drawn = ", ".join(f"torch.randn({', '.join(map(str, shape))})" for _, shape in inputs)
    return "\n".join([
        "import torch", "", "",
        "class Model(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *layers, "",
        f"    def forward(self, {', '.join(name for name, _ in inputs)}):",
        *body,
        f"        return x{len(steps)}", "", "",
        "def get_inputs():",
        f"    return [{drawn}]", "", "",
        "def get_init_inputs():",
        "    return []", "",
    ])  # fmt: skip
