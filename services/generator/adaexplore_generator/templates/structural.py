"""Structural moves: a new choice of fusion, algorithms and spellings, drawn from what was not tried yet."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from adaexplore_generator.domain import Skill
from adaexplore_generator.templates.candidate import Plan
from adaexplore_generator.templates.frames import Group
from adaexplore_generator.templates.functions import SPELLINGS, Spelling
from adaexplore_generator.templates.ir import Program
from adaexplore_generator.templates.library import preferred
from adaexplore_generator.templates.partition import break_points
from adaexplore_generator.templates.recipe import GroupChoice, Recipe
from adaexplore_generator.templates.rules import forbidding
from adaexplore_generator.templates.space import algorithms, defaults, functions_spelled

DRAWS = 48
"""Random draws before the space is walked in order."""

WALKED = 4096
"""Most structures walked in order."""


@dataclass(frozen=True)
class Draw:
    """A recipe, and the skills because of which it is not what would have been drawn without them."""

    recipe: Recipe
    respected: tuple[str, ...] = ()


class SpellingForbiddenError(Exception):
    """Rules forbid every known spelling of a function."""


def structures(plan: Plan, skills: tuple[Skill, ...], rng: random.Random) -> Iterator[Draw]:
    """Structures in the order they should be tried, each at most once: what an expert tries first, random ones, then all others."""
    seen: set[tuple[object, ...]] = set()
    walk = itertools.islice(_walked(plan, skills, rng), WALKED)
    for draw in itertools.chain(_known_best(plan, skills), (_drawn(plan, skills, rng) for _ in range(DRAWS)), walk):
        if draw.recipe.structure not in seen:
            seen.add(draw.recipe.structure)
            yield draw


def _break_sets(program: Program) -> list[tuple[int, ...]]:
    """Fuse everything, or break at one or two places."""
    points = break_points(program)
    return [(), *((point,) for point in points), *itertools.combinations(points, 2)]


def _known_best(plan: Plan, skills: tuple[Skill, ...]) -> Iterator[Draw]:
    """Products with the library that it is faster at, and everything around them fused.

    Every request draws the same one for a task, so that it is known once it was tried; a rule learned from its failure changes it.
    """
    library = preferred(plan.program(), plan.precision)
    if library and library in plan.programs:
        groups = plan.groups((), library)
        chosen = tuple(_choice(group, algorithms(group)[0]) for group in groups)
        spelling, respected = _spelled(groups, skills, random.Random(plan.task_name))  # noqa: S311
        yield Draw(Recipe((), chosen, spelling, library), respected)


def _drawn(plan: Plan, skills: tuple[Skill, ...], rng: random.Random) -> Draw:
    apart = [chosen for chosen in plan.programs if chosen]
    library = rng.choice(apart) if apart and rng.random() < 0.5 else ()
    sets = _break_sets(plan.program(library))
    breaks = () if rng.random() < 0.6 else rng.choice(sets)
    groups = plan.groups(breaks, library)
    chosen = tuple(_choice(group, rng.choice(algorithms(group))) for group in groups)
    spelling, respected = _spelled(groups, skills, rng)
    return Draw(Recipe(breaks, chosen, spelling, library), respected)


def _spelled(
    groups: tuple[Group, ...], skills: tuple[Skill, ...], rng: random.Random
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """A spelling of every function, and the skills that changed it."""
    spelling: list[tuple[str, str]] = []
    respected: list[str] = []
    for name in functions_spelled(groups):
        # The free choice comes first, so that a rule counts as respected only where it changed something.
        free = rng.choice(SPELLINGS[name])
        rules = forbidding(skills, free)
        if rules:
            respected.extend(rules)
            free = rng.choice(_allowed(name, skills))
        spelling.append((name, free.ident))
    return tuple(spelling), tuple(dict.fromkeys(respected))


def _choice(group: Group, algorithm: str) -> GroupChoice:
    return GroupChoice(algorithm, defaults(group, algorithm))


def _allowed(name: str, skills: tuple[Skill, ...]) -> list[Spelling]:
    found = [option for option in SPELLINGS[name] if not forbidding(skills, option)]
    if not found:
        raise SpellingForbiddenError(f"rules forbid every known spelling of {name}")
    return found


def _walked(plan: Plan, skills: tuple[Skill, ...], rng: random.Random) -> Iterator[Draw]:
    everything = ((library, breaks) for library, program in plan.programs.items() for breaks in _break_sets(program))
    for library, breaks in everything:
        groups = plan.groups(breaks, library)
        names = functions_spelled(groups)
        ways = [algorithms(group) for group in groups]
        spellings = [[(name, option.ident) for option in _allowed(name, skills)] for name in names]
        combined = list(itertools.islice(itertools.product(itertools.product(*ways), itertools.product(*spellings)), WALKED))
        rng.shuffle(combined)
        for chosen, spelling in combined:
            pairs = zip(groups, chosen, strict=True)
            yield Draw(Recipe(breaks, tuple(_choice(group, algorithm) for group, algorithm in pairs), tuple(spelling), library))
