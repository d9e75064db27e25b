"""Finds where an edit stands although lines around what it changes have drifted; lines that it removes must still be there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from adaexplore_generator.edits.lines import Text, Unit, code_units, names
from adaexplore_generator.edits.placing import Placement, refuse_foreign_comments
from adaexplore_generator.edits.rewriting import change_groups
from adaexplore_generator.edits.values import Edit, MisfitError

# Least share of the SEARCH part that a place must hold, lines weighted by what they say.
LEAST_SCORE = 0.7
# By how many lines the next best place must be worse.
LEAST_LEAD = 0.5
# Lines that are less alike than this stand for different things.
_ALIKE = 0.6
_GAP = 0.3
# Lines of shorter tokens only, such as `else:`, say nothing about where they are.
_SHORT_TOKEN = 4
# Larger edits of larger kernels are not compared line by line.
_MOST_PAIRS = 20_000
_MOST_LINES = 3_000
_FULL_WEIGHT_TOKENS = 8
_NEVER = float("-inf")


@dataclass(frozen=True)
class _Table:
    """What each pairing of a searched with a present line is worth, and what it costs to pair a searched line with none."""

    worth: list[list[float]]
    gaps: list[float]
    total: float


def place_fuzzily(text: Text, edit: Edit) -> Placement | None:
    """Return the place where all lines that an edit changes stand, and most of those around them; None if there is none.

    Lines that are removed, and one line beside each insertion, must be the same token by token. The others may differ, be missing or
    be interrupted. The place must hold `LEAST_SCORE` of the SEARCH part, and lead the next best by `LEAST_LEAD`.

    Raises:
        MisfitError: Another place is nearly as good, or the new lines use a name that drifted lines have and the kernel has not.

    """
    kernel, search, replace = text.units(code_units), code_units(edit.search), code_units(edit.replace)
    fixed, places = _fixed(search, replace), text.places(code_units)
    if not search or len(kernel) * len(search) > _MOST_PAIRS or any(search[number].key not in places for number in fixed):
        return None
    table = _table(kernel, search, fixed)
    score, at = _align(table)
    if score < LEAST_SCORE * table.total or not any(place is not None for place in at):
        return None
    for anchor in _anchors(search, replace, at):
        again, elsewhere = _align(_without(table, anchor, at[anchor]))
        if again > score - LEAST_LEAD:
            found = tuple(kernel[place].start for way in (at, elsewhere) for place in way[anchor : anchor + 1] if place is not None)
            raise MisfitError("its SEARCH part is not in the kernel, and two places are alike", found)
    drifted = [unit for unit, place in zip(search, at, strict=True) if place is None or kernel[place].key != unit.key]
    held = [kernel[place] for place in at if place is not None]
    refuse_foreign_comments(text, edit, held[0].start, held[-1].end)
    _refuse_foreign_lines(kernel, drifted, places)
    _refuse_stale_names(kernel, search, replace, at, drifted)
    return Placement(kernel, search, replace, at)


def nearest(text: Text, edit: Edit) -> int | None:
    """Return the line, 0-based, at which the text is most like a SEARCH part; None if nothing is alike."""
    wanted = Counter(token for line in edit.search for unit in code_units([line]) for token in unit.key)
    kernel = text.units(code_units)
    if len(kernel) > _MOST_LINES:
        return None
    size = max(1, len(code_units(edit.search)))
    best, best_at = 0.0, None
    for start in range(max(1, len(kernel) - size + 1)):
        held = Counter(token for unit in kernel[start : start + size] for token in unit.key)
        alike = 2 * (wanted & held).total() / max(1, wanted.total() + held.total())
        if alike > best:
            best, best_at = alike, kernel[start].start
    return best_at


def _fixed(search: Sequence[Unit], replace: Sequence[Unit]) -> frozenset[int]:
    """Return the searched lines that are removed."""
    return frozenset(number for group in change_groups(search, replace) for number in range(group.old.start, group.old.stop))


def _anchors(search: Sequence[Unit], replace: Sequence[Unit], at: Sequence[int | None]) -> list[int]:
    """Return for each change one searched line that says where it goes."""
    found = set()
    for group in change_groups(search, replace):
        beside = [*group.old] or [number for number in (group.old.start - 1, group.old.start) if 0 <= number < len(search)]
        found.update([number for number in beside if at[number] is not None][:1])
    return sorted(found)


def _table(kernel: Sequence[Unit], search: Sequence[Unit], fixed: frozenset[int]) -> _Table:
    weights = [min(1.0, len(unit.key) / _FULL_WEIGHT_TOKENS) for unit in search]
    counts = [Counter(unit.key) for unit in kernel]
    worth = [
        [weight * _alike(unit, other, count, number in fixed) for other, count in zip(kernel, counts, strict=True)]
        for number, (unit, weight) in enumerate(zip(search, weights, strict=True))
    ]
    gaps = [_NEVER if number in fixed else -_GAP * weight for number, weight in enumerate(weights)]
    return _Table(worth, gaps, sum(weights))


def _alike(unit: Unit, other: Unit, count: Counter[str], fixed: bool) -> float:
    if unit.key == other.key:
        return 1.0
    lengths = sorted((len(unit.key), len(other.key)))
    if fixed or 2 * lengths[0] < _ALIKE * sum(lengths) or _shared(unit, other, count) < _ALIKE:
        return _NEVER
    ratio = SequenceMatcher(None, unit.key, other.key, autojunk=False).ratio()
    return ratio if ratio >= _ALIKE else _NEVER


def _shared(unit: Unit, other: Unit, count: Counter[str]) -> float:
    """Return an upper bound of the ratio, which is cheap."""
    return 2 * (Counter(unit.key) & count).total() / (len(unit.key) + len(other.key))


def _without(table: _Table, line: int, place: int | None) -> _Table:
    worth = [list(row) for row in table.worth]
    if place is not None:
        worth[line][place] = _NEVER
    gaps = [_NEVER if number == line else gap for number, gap in enumerate(table.gaps)]
    return _Table(worth, gaps, table.total)


def _align(table: _Table) -> tuple[float, tuple[int | None, ...]]:
    """Return the best way to pair the searched lines, in order, with lines of the text, and its worth."""
    width = len(table.worth[0])
    best = [0.0] * (width + 1)  # worth of the lines so far, the last of them paired before this column
    steps: list[list[str]] = []
    for number, row in enumerate(table.worth):
        line, step = [best[0] + table.gaps[number]], ["gap"]
        for column in range(1, width + 1):
            options = (
                (best[column - 1] + row[column - 1], "pair"),
                (best[column] + table.gaps[number], "gap"),
                (line[column - 1] - _GAP, "skip"),
            )
            worth, chosen = max(options)
            line.append(worth)
            step.append(chosen)
        best = line
        steps.append(step)
    end = max(range(width + 1), key=best.__getitem__)
    return best[end], _path(steps, end)


def _path(steps: list[list[str]], column: int) -> tuple[int | None, ...]:
    at: list[int | None] = [None] * len(steps)
    number = len(steps) - 1
    while number >= 0:
        step = steps[number][column]
        if step == "pair":
            column -= 1
            at[number] = column
            number -= 1
        elif step == "skip":
            column -= 1
        else:
            number -= 1
    return tuple(at)


def _refuse_foreign_lines(kernel: Sequence[Unit], drifted: Sequence[Unit], places: Mapping[tuple[str, ...], Sequence[int]]) -> None:
    """Refuse an edit that holds a line which the kernel does not have there, but elsewhere: it may mean that other place."""
    for unit in drifted:
        if unit.key in places and any(len(token) > _SHORT_TOKEN for token in unit.key):
            line = kernel[places[unit.key][0]].start
            raise MisfitError(f"its SEARCH part mixes lines of several places of the kernel, one of them line {line + 1}", (line,))


def _refuse_stale_names(
    kernel: Sequence[Unit], search: Sequence[Unit], replace: Sequence[Unit], at: Sequence[int | None], drifted: Sequence[Unit]
) -> None:
    """Refuse new lines that use a name of drifted lines which the kernel does not have there: it may call it otherwise."""
    places = [place for place in at if place is not None]
    here = frozenset(name for unit in kernel[places[0] : places[-1] + 1] for name in names(unit.key))
    stale = frozenset(name for unit in drifted for name in names(unit.key)) - here
    added = frozenset(name for group in change_groups(search, replace) for number in group.new for name in names(replace[number].key))
    if used := sorted(stale & added):
        raise MisfitError(f"its new lines use {used[0]!r}, which the lines of the kernel that are most like its own do not have")
