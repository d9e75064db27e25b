"""The operators that tasks are composed of; `scripts/operators.py` writes the list by trying what an installed torch offers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    """One operator on float32 tensors of one rank.

    Args:
        name: Qualified name, for example `torch.nn.Softmax`.
        rank: Dimensions of its argument.
        layer: Constructor call with {c} (extent of dimension 1) and {l} (of the last one); empty for a function.
        call: Expression with {x} (argument), {y} (second argument of the same shape) and {m} (the layer).
        out: For each dimension of the result (source, mul, div, add): `argument[source] * mul // div + add`; source -1 means `add`.

    """

    name: str
    rank: int
    layer: str
    call: str
    out: tuple[tuple[int, int, int, int], ...]

    def result(self, shape: Shape) -> Shape:
        """Return the shape of the result for an argument of this shape."""
        return tuple(add if source < 0 else shape[source] * mul // div + add for source, mul, div, add in self.out)


@cache
def load_operators() -> tuple[Operator, ...]:
    """Return the shipped operators, one entry for each name and rank."""
    text = (files("adaexplore_generator.synthesis") / "operators.json").read_text(encoding="utf-8")
    return tuple(
        Operator(item["name"], item["rank"], item["layer"], item["call"], tuple(tuple(dimension) for dimension in item["out"]))
        for item in json.loads(text)["operators"]
    )
