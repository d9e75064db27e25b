"""Which of many like launches are sampled: host code that launches a kernel for each row may do so thousands of times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compiling import Specialisation
from .coverage import Stored
from .model import Traffic
from .traffic import Grid

_EACH = 32


@dataclass(frozen=True)
class Sample:
    """What a launch moves, and what it stores; `stored` is None where that took too long, `has_stored` False where nobody asked."""

    traffic: Traffic
    stored: list[Stored] | None = None
    has_stored: bool = False


class Repeats:
    """Samples the first launches of a kind and, at random, ever fewer of the rest, for which the latest sample stands.

    Launches of a kind share the compiled kernel, the grid and the memory that they point into.

    Args:
        seed: Decides which; unknown to the code that launches.

    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._counts: dict[tuple[Any, ...], int] = {}
        self._latest: dict[tuple[Any, ...], Sample] = {}

    def sample(self, specialisation: Specialisation, grid: Grid, take: Callable[[], Sample]) -> Sample:
        """What `take` tells of this launch, or told of an earlier one of its kind."""
        places = [_storage(value) for value in specialisation.arguments.values()]
        kind = (*specialisation.key, grid, *places)
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= _EACH or self._random.random() * count < _EACH:
            self._latest[kind] = take()
        return self._latest[kind]


def _storage(value: Any) -> int:
    """Address of the memory that a tensor, or a descriptor of one, lies in; 0 for what is no tensor."""
    tensor = getattr(value, "base", value)
    return int(tensor.untyped_storage().data_ptr()) if hasattr(tensor, "untyped_storage") else 0
