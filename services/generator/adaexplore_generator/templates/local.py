"""Local moves: one knob of the parent, or, after a failure, what the failure concerns."""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import replace

from adaexplore_generator.domain import ContextKernel, Feedback, Skill
from adaexplore_generator.templates.candidate import Plan
from adaexplore_generator.templates.frames import Group
from adaexplore_generator.templates.functions import SPELLINGS
from adaexplore_generator.templates.recipe import GroupChoice, Recipe
from adaexplore_generator.templates.rules import forbidding
from adaexplore_generator.templates.space import Knob, knobs, permits
from adaexplore_generator.templates.structural import Draw

PAIRED = 2048
"""Most pairs of changes that are tried once single changes are used up."""

_RESOURCES = re.compile(r"shared memory|out of resource|register|spill", re.IGNORECASE)
_SIZES = frozenset({"BLOCK", "BLOCK_M", "BLOCK_N", "BLOCK_K", "ROWS", "num_stages", "SPLITS"})


def neighbours(plan: Plan, parent: ContextKernel, recipe: Recipe, skills: tuple[Skill, ...], rng: random.Random) -> Iterator[Draw]:
    """Changes of a parent's recipe in the order they should be tried, each at most once."""
    groups = plan.groups(recipe.breaks, recipe.library)
    seen = {recipe}
    for draw in _ordered(groups, parent, recipe, skills, rng):
        if draw.recipe not in seen:
            seen.add(draw.recipe)
            yield draw


def _ordered(
    groups: tuple[Group, ...], parent: ContextKernel, recipe: Recipe, skills: tuple[Skill, ...], rng: random.Random
) -> Iterator[Draw]:
    spellings = _respelled(parent.feedback, recipe, skills, rng)
    near, far = _knob_changes(groups, recipe, rng)
    said = parent.feedback
    failed = said is not None and not said.passed
    overflow = said is not None and (said.cause == "LAUNCH" or bool(_RESOURCES.search(said.message)))
    if failed and overflow:
        smaller = [changed for changed in near + far if _smaller(recipe, changed)]
        yield from (Draw(changed) for changed in smaller)
    elif failed:
        yield from spellings
    yield from (Draw(changed) for changed in near)
    yield from (Draw(changed) for changed in far)
    yield from (Draw(changed) for changed in _pairs(near + far, recipe, rng) if _permitted(groups, changed))
    if not failed:
        yield from spellings


def _respelled(said: Feedback | None, recipe: Recipe, skills: tuple[Skill, ...], rng: random.Random) -> list[Draw]:
    """Other spellings, those first that a rule forbids or that the parent's failure names."""
    message = said.message if said is not None else ""
    blamed: list[Draw] = []
    others: list[Draw] = []
    for position, (name, ident) in enumerate(recipe.spelling):
        options = [option for option in SPELLINGS.get(name, ()) if option.ident != ident]
        now = next((option for option in SPELLINGS.get(name, ()) if option.ident == ident), None)
        rules = forbidding(skills, now) if now is not None else ()
        named = ident != "formula" and re.search(rf"\b{re.escape(ident.rsplit('.', 1)[-1])}\b", message) is not None
        allowed = [option for option in options if not forbidding(skills, option)]
        rng.shuffle(allowed)
        for option in allowed:
            changed = list(recipe.spelling)
            changed[position] = (name, option.ident)
            draw = Draw(replace(recipe, spelling=tuple(changed)), rules)
            (blamed if rules or named else others).append(draw)
    rng.shuffle(others)
    return blamed or others


def _knob_changes(groups: tuple[Group, ...], recipe: Recipe, rng: random.Random) -> tuple[list[Recipe], list[Recipe]]:
    """Changes of one knob: to a neighbouring value, and to one further away."""
    near: list[Recipe] = []
    far: list[Recipe] = []
    for number, (group, choice) in enumerate(zip(groups, recipe.groups, strict=True)):
        for knob in knobs(group, choice.algorithm):
            now = dict(choice.knobs).get(knob.name, knob.default)
            for value in knob.values:
                changed = _with_knob(recipe, number, choice, knob.name, value)
                if value != now and permits(group, choice.algorithm, changed.groups[number].knobs):
                    (near if _distance(knob, now, value) <= 1 else far).append(changed)
    rng.shuffle(near)
    rng.shuffle(far)
    return near, far


def _permitted(groups: tuple[Group, ...], recipe: Recipe) -> bool:
    return all(permits(group, choice.algorithm, choice.knobs) for group, choice in zip(groups, recipe.groups, strict=True))


def _distance(knob: Knob, now: int | str, value: int | str) -> int:
    return abs(knob.values.index(now) - knob.values.index(value)) if now in knob.values else 1


def _with_knob(recipe: Recipe, number: int, choice: GroupChoice, name: str, value: int | str) -> Recipe:
    changed = replace(choice, knobs=tuple((key, value if key == name else old) for key, old in choice.knobs))
    return replace(recipe, groups=(*recipe.groups[:number], changed, *recipe.groups[number + 1 :]))


def _changes(recipe: Recipe, changed: Recipe) -> list[tuple[int, str, int | str, int | str]]:
    """Knobs that differ: group, name, old and new value."""
    found = []
    for number, (old, new) in enumerate(zip(recipe.groups, changed.groups, strict=True)):
        found += [(number, name, a, b) for (name, a), (_, b) in zip(old.knobs, new.knobs, strict=True) if a != b]
    return found


def changes_between(parent: Recipe, recipe: Recipe) -> list[str]:
    """What a local move changed, in words."""
    knob_changes = [f"{name} of kernel {number} from {old} to {new}" for number, name, old, new in _changes(parent, recipe)]
    spelled = [f"{name} to {new}" for (name, old), (_, new) in zip(parent.spelling, recipe.spelling, strict=True) if old != new]
    return knob_changes + spelled


def _smaller(recipe: Recipe, changed: Recipe) -> bool:
    return all(name in _SIZES and int(new) < int(old) for _, name, old, new in _changes(recipe, changed))


def _pairs(changes: list[Recipe], recipe: Recipe, rng: random.Random) -> Iterator[Recipe]:
    """Two changes of different knobs at once."""
    singles = [_changes(recipe, changed)[0] for changed in changes]
    combined = list(itertools.islice(itertools.combinations(singles, 2), PAIRED))
    rng.shuffle(combined)
    for first, second in combined:
        if first[:2] == second[:2]:
            continue
        made = recipe
        for number, name, _, value in (first, second):
            made = _with_knob(made, number, made.groups[number], name, value)
        yield made


_TUNABLE = re.compile(r"^(num_warps|num_stages|.*BLOCK.*|.*TILE.*)$", re.IGNORECASE)


def foreign_neighbours(source: str, rng: random.Random) -> Iterator[str]:
    """Changes of a kernel without a recipe: one literal of warps, stages or a block size, halved or doubled."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    changes = [(constant, value) for name, constant in _literals(tree) for value in _near(name, constant)]
    rng.shuffle(changes)
    for constant, value in changes:
        yield _replaced(source, constant, value)


def _replaced(source: str, constant: ast.Constant, value: int) -> str:
    """The source with one literal replaced and everything else, comments included, as it was."""
    lines = source.splitlines(keepends=True)
    # The syntax tree counts columns in bytes.
    line = lines[constant.lineno - 1].encode()
    lines[constant.lineno - 1] = (line[: constant.col_offset] + str(value).encode() + line[constant.end_col_offset :]).decode()
    return "".join(lines)


def _literals(tree: ast.Module) -> list[tuple[str, ast.Constant]]:
    """Integers given to a tunable name: as a keyword, by assignment, or as a default."""
    found: list[tuple[str, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            found.append((node.arg, node.value))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.append((node.targets[0].id, node.value))
        elif isinstance(node, ast.Dict):
            found += [(str(key.value), value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)]
    return [
        (name, value)
        for name, value in found
        if _TUNABLE.match(name) and isinstance(value, ast.Constant) and type(value.value) is int and value.value > 0
    ]


def _near(name: str, constant: ast.Constant) -> list[int]:
    value = constant.value
    if not isinstance(value, int):
        return []
    if name.lower() == "num_stages":
        return [number for number in (value - 1, value + 1) if 1 <= number <= 6]
    low, high = (1, 32) if name.lower() == "num_warps" else (16, 65536)
    return [number for number in (value // 2, value * 2) if low <= number <= high and number & (number - 1) == 0]
