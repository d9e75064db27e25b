"""A candidate's choices as JSON: enough to write the same source again and to change one choice of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 2
_READABLE = (1, VERSION)
"""Version 1 knew no products left to the library."""
_LINE = re.compile(r"^# adaexplore-recipe: (\{.*\})\s*$", re.MULTILINE)

Knobs = tuple[tuple[str, int | str], ...]


@dataclass(frozen=True)
class GroupChoice:
    """How one kernel group is written."""

    algorithm: str
    knobs: Knobs = ()


@dataclass(frozen=True)
class Recipe:
    """All choices of a candidate: where kernels are broken, how each is written, how functions are spelled, which products stay in torch.

    `library` numbers these products in the order of the task's graph; `breaks` are places in the program that this leaves.
    """

    breaks: tuple[int, ...]
    groups: tuple[GroupChoice, ...]
    spelling: tuple[tuple[str, str], ...] = ()
    library: tuple[int, ...] = ()

    @property
    def structure(self) -> tuple[object, ...]:
        """What a structural move chooses."""
        return (self.library, self.breaks, tuple(group.algorithm for group in self.groups), self.spelling)

    def to_json(self) -> str:
        """The recipe in one line."""
        groups = [{"algorithm": group.algorithm, "knobs": dict(group.knobs)} for group in self.groups]
        spelling = dict(self.spelling)
        return json.dumps(
            {"version": VERSION, "library": list(self.library), "breaks": list(self.breaks), "groups": groups, "spelling": spelling}
        )


def parse(text: str) -> Recipe | None:
    """The recipe of a JSON text; None if it is none of a known version."""
    try:
        data = json.loads(text)
        if data["version"] not in _READABLE:
            return None
        groups = tuple(GroupChoice(str(group["algorithm"]), _knobs(group["knobs"])) for group in data["groups"])
        spelling = tuple(sorted((str(name), str(ident)) for name, ident in data["spelling"].items()))
        breaks, library = (tuple(int(at) for at in places) for places in (data["breaks"], data.get("library", ())))
        return Recipe(breaks, groups, spelling, library)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _knobs(data: Mapping[str, object]) -> Knobs:
    return tuple((str(name), value if isinstance(value, str) else int(value)) for name, value in data.items())  # type: ignore[call-overload]


def embedded(source: str) -> Recipe | None:
    """The recipe in the last line of a candidate; None if it has none."""
    found = _LINE.findall(source)
    return parse(found[-1]) if found else None


def recipe_of(recipe: str, source: str) -> Recipe | None:
    """The recipe handed over, or else the one in the source."""
    return parse(recipe) or embedded(source)
