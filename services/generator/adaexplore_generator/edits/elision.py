"""Lines that stand for others that are left out: an edit around them becomes one edit for each part that is written out."""

from __future__ import annotations

from collections.abc import Sequence

from adaexplore_generator.edits.lines import Text, elides_inside, is_left_out, line_units
from adaexplore_generator.edits.values import Edit, MisfitError


def written_out(edit: Edit, text: Text) -> list[Edit]:
    """Return an edit as edits without lines that stand for others.

    Such a line must stand in SEARCH and in REPLACE at the same place; the lines of the kernel that it stands for stay. A line that the
    kernel itself holds stands for itself.

    Raises:
        MisfitError: REPLACE leaves out what SEARCH does not, so that applying it would lose lines.

    """
    own = {key[0] for key in text.places(line_units)}
    search, replace = _parts(edit.search, own), _parts(edit.replace, own)
    if len(search) != len(replace):
        raise MisfitError("it leaves out lines (`...`) in one of its parts only; write all lines out")
    removed = {line.strip() for line in edit.search}
    for line in edit.replace:
        if elides_inside(line) and line.strip() not in own | removed and line not in _marks(edit.replace, own):
            raise MisfitError("a line of its REPLACE part leaves something out (`...`); write it out")
    if len(search) == 1:
        return [edit]
    if any(not _filled(old) and _filled(new) for old, new in zip(search, replace, strict=True)):
        raise MisfitError("it adds lines beside lines that are left out (`...`); copy a line beside them")
    edits = [Edit(tuple(old), tuple(new)) for old, new in zip(search, replace, strict=True) if _filled(old)]
    # A part that changes nothing need not be found: it says nothing about where the others are.
    return [part for part in edits if part.search != part.replace] or edits[:1]


def _marks(lines: Sequence[str], own: set[str]) -> list[str]:
    return [line for line in lines if is_left_out(line) and line.strip() not in own]


def _parts(lines: Sequence[str], own: set[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if is_left_out(line) and line.strip() not in own:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _filled(lines: Sequence[str]) -> bool:
    return any(line.strip() for line in lines)
