"""From where an edit stands to what changes: lines that it keeps stay as the text has them, new ones take over its indentation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from adaexplore_generator.edits.lines import Unit, indent_of, names, tokens
from adaexplore_generator.edits.values import Edit, MisfitError

if TYPE_CHECKING:
    from adaexplore_generator.edits.placing import Placement


_UNLIKE = "its lines are indented otherwise than the kernel's, and not all in the same way"


@dataclass(frozen=True)
class Group:
    """Units of SEARCH that are replaced, and the units of REPLACE that come in their place; either may be empty."""

    old: range
    new: range


@dataclass(frozen=True)
class Change:
    """Lines of the text, 0-based, that are replaced."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Rewrite:
    """What an edit changes, in order, and the lines that it was found by."""

    start: int
    end: int
    changes: tuple[Change, ...]


def change_groups(search: Sequence[Unit], replace: Sequence[Unit]) -> list[Group]:
    """Return what differs between the two parts of an edit, in order."""
    before, after = ([(unit.indent if unit.key != ("",) else 0, unit.key) for unit in part] for part in (search, replace))
    groups: list[Group] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if groups and not any(names(tokens(" ".join(unit.key))) for unit in search[groups[-1].old.stop : i1]):
            # Brackets and blank lines between two changes say nothing about where these are.
            last = groups.pop()
            groups.append(Group(range(last.old.start, i2), range(last.new.start, j2)))
        else:
            groups.append(Group(range(i1, i2), range(j1, j2)))
    return groups


def rewrite(lines: Sequence[str], edit: Edit, placement: Placement) -> Rewrite:
    """Return what an edit changes where it was placed.

    Raises:
        MisfitError: The text has lines between those that are replaced or beside an insertion, or the new lines' indentation cannot
            be told.

    """
    changes = tuple(
        Change(*_span(placement, group), tuple(_new_lines(lines, edit, placement, group)))
        for group in change_groups(placement.search, placement.replace)
    )
    held = [placement.kernel[place] for place in placement.at if place is not None]
    return Rewrite(held[0].start, held[-1].end, changes)


def _span(placement: Placement, group: Group) -> tuple[int, int]:
    kernel, at = placement.kernel, placement.at
    if group.old:
        places = [at[number] for number in group.old]
        first = places[0]
        if first is None or places != list(range(first, first + len(places))):
            raise MisfitError("the kernel has other lines between those that it replaces")
        return kernel[first].start, kernel[first + len(places) - 1].end
    before = next((at[number] for number in range(group.old.start - 1, -1, -1) if at[number] is not None), None)
    after = next((at[number] for number in range(group.old.start, len(at)) if at[number] is not None), None)
    beside = [number for number in (group.old.start - 1, group.old.start) if 0 <= number < len(at)]
    if not any((place := at[number]) is not None and kernel[place].key == placement.search[number].key for number in beside):
        raise MisfitError("the lines beside those that it adds are not in the kernel")
    if before is not None and after is not None and after != before + 1:
        raise MisfitError("the kernel has other lines where it adds some")
    at_line = kernel[before].end if before is not None else kernel[after].start if after is not None else 0
    return at_line, at_line


def _new_lines(lines: Sequence[str], edit: Edit, placement: Placement, group: Group) -> list[str]:
    if not group.new:
        return []
    first = placement.replace[group.new.start - 1].end if group.new.start else 0
    kept = {line.strip() for line in edit.search}
    while first < placement.replace[group.new.start].start and edit.replace[first].strip() in kept | {""}:
        first += 1
    if placement.exact:
        return list(edit.replace[first : placement.replace[group.new.stop - 1].end])
    indents = _Indents(placement)
    tabs = any(line.startswith("\t") for line in lines)
    written: list[str] = []
    for number in group.new:
        unit = placement.replace[number]
        shift = indents.of(group, number) - unit.indent if unit.key != ("",) else 0
        written.extend(_indented(line, indent_of(line) + shift, tabs) for line in edit.replace[first : unit.end])
        first = unit.end
    return written


class _Indents:
    """Says how far a new line is indented, from how far the searched lines are in the edit and in the text."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        pairs = zip(placement.search, placement.at, strict=True)
        self._pairs = [(unit.indent, placement.kernel[at].indent) for unit, at in pairs if at is not None and unit.key != ("",)]
        (there, here), *rest = self._pairs
        # Many models lose the indentation of the very first line, in both parts of the edit.
        self._first_lost = there < here and bool(rest) and all(one == other for one, other in rest)

    def of(self, group: Group, number: int) -> int:
        """Return the indentation of a unit of REPLACE.

        Raises:
            MisfitError: It cannot be told.

        """
        width = self._placement.replace[number].indent
        if len(group.old) == len(group.new) == 1 and self._placement.search[group.old.start].indent == width:
            at = self._placement.at[group.old.start]
            if at is not None:
                return self._placement.kernel[at].indent
        if not self._first_lost:
            return _told(width, self._pairs)
        if width != self._pairs[0][0]:
            return width
        if number == 0:
            return self._pairs[0][1]
        raise MisfitError(_UNLIKE)


def _told(width: int, pairs: Sequence[tuple[int, int]]) -> int:
    """Return the indentation in the text that one in the edit stands for, if the same one always stands for the same one."""
    points = sorted(set(pairs))
    if any(x == a or y >= b for (x, y), (a, b) in itertools.pairwise(points)):
        raise MisfitError(_UNLIKE)
    known = dict(points)
    if width in known:
        return known[width]
    least, here = points[0]
    steps = {(b - y) / (a - x) for (x, y), (a, b) in itertools.pairwise(points)} or {1.0}
    told = here + (width - least) * min(steps)
    if width < least and told != width:
        raise MisfitError("its REPLACE part is indented less than its SEARCH part, and the kernel is indented otherwise")
    if len(steps) > 1 or told != int(told):
        raise MisfitError(_UNLIKE)
    return int(told)


def _indented(line: str, width: int, tabs: bool) -> str:
    text = line.strip()
    if not text:
        return ""
    width = max(0, width)
    return ("\t" * (width // 4) + " " * (width % 4) if tabs else " " * width) + text
