"""Applies all edits of a reply to a text, or none of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adaexplore_generator.edits.definitions import all_definitions
from adaexplore_generator.edits.elision import written_out
from adaexplore_generator.edits.fuzzy import nearest, place_fuzzily
from adaexplore_generator.edits.lines import Text, split_lines
from adaexplore_generator.edits.placing import place, place_in_line
from adaexplore_generator.edits.rewriting import Change, Rewrite, rewrite
from adaexplore_generator.edits.values import Applied, Edit, Misfit, MisfitError
from adaexplore_generator.extract import parsed_python

_NEAR = 4
_SHOWN_PLACES = 3
_MOST_EDITS = 100
# What takes long for large kernels is done for so many edits of a reply only.
_MOST_LOOSE = 10


@dataclass(frozen=True)
class _Found:
    """Where one edit of a reply, or one part of it, goes."""

    number: int
    edit: Edit
    rewrite: Rewrite
    exact: bool


def apply_edits(source: str, edits: Sequence[Edit]) -> Applied:
    """Apply all edits to a text, or none of them.

    Every edit is looked up in the text as it was given, by the rules of `place`, then as a part of one line, then by `place_fuzzily`.
    Edits that do not stand there in one place, that overlap, or whose result is not Python although they were placed loosely are misfits.
    """
    if len(edits) > _MOST_EDITS:
        return Applied(None, (Misfit(0, f"the reply holds {len(edits)} edits; at most {_MOST_EDITS} are taken"),))
    lines = split_lines(source)
    text = Text(lines)
    found: list[_Found] = []
    misfits: list[Misfit] = []
    for number, edit in enumerate(edits, 1):
        loosely = len(misfits) + sum(not item.exact for item in found) < _MOST_LOOSE
        try:
            found.extend(_apart(found, _find(text, number, edit, loosely)))
        except MisfitError as error:
            misfits.append(Misfit(number, error.reason, edit, _shown(text, edit, error.lines, loosely)))
    exact = all(item.exact for item in found)
    if not misfits:
        written = _written(lines, [change for item in found for change in item.rewrite.changes])
        reason = _damage(source, written, found)
        if not reason:
            return Applied(written, exact=exact)
        loose = [item for item in found if not item.exact] or found
        misfits = [Misfit(item.number, reason, item.edit, _shown(text, item.edit, (item.rewrite.start,))) for item in loose]
    failed = {misfit.number for misfit in misfits}
    return Applied(None, tuple(misfits), tuple(edit for number, edit in enumerate(edits, 1) if number not in failed), exact)


def _find(text: Text, number: int, edit: Edit, loosely: bool) -> list[_Found]:
    if not any(line.strip() for line in edit.search):
        raise MisfitError("its SEARCH part is empty")
    parts = [_trimmed(part) for part in written_out(edit, text)]
    found = [replace(_locate(text, part, loosely), number=number, edit=edit) for part in parts]
    if any(one.rewrite.end > other.rewrite.start for one, other in itertools.pairwise(found)):
        raise MisfitError("its parts around lines that are left out are in another order in the kernel")
    return found


def _locate(text: Text, edit: Edit, loosely: bool) -> _Found:
    placement = place(text, edit)
    if placement is None and (in_line := place_in_line(text.lines, edit)) is not None:
        number, line = in_line
        return _Found(0, edit, Rewrite(number, number + 1, (Change(number, number + 1, (line,)),)), False)
    placement = placement or (place_fuzzily(text, edit) if loosely else None)
    if placement is None:
        raise MisfitError(f"its SEARCH part is not in the kernel: {_excerpt(edit.search[0])}")
    return _Found(0, edit, rewrite(text.lines, edit, placement), placement.exact)


def _apart(earlier: Sequence[_Found], found: Sequence[_Found]) -> list[_Found]:
    """Return what an edit changes unless an earlier one does the same.

    Raises:
        MisfitError: It overlaps an earlier one by more than lines that follow all changes of one and precede all of the other.

    """
    others = [item.rewrite for item in earlier]
    kept = [item for item in found if item.rewrite.changes not in [other.changes for other in others]]
    for item in kept:
        for other in others:
            first, second = sorted((item.rewrite, other), key=lambda rewrite: (rewrite.start, rewrite.end))
            if first.end > second.start and not _precedes(first, second):
                raise MisfitError("it overlaps an earlier edit")
    return kept


def _precedes(first: Rewrite, second: Rewrite) -> bool:
    return all(change.end <= second.start for change in first.changes) and all(change.start >= first.end for change in second.changes)


def _written(lines: Sequence[str], changes: Sequence[Change]) -> str:
    written = list(lines)
    # Where one edit adds lines and another replaces the line after them, the added ones come first.
    for change in sorted(changes, key=lambda change: (change.start, change.end), reverse=True):
        written[change.start : change.end] = change.lines
    return "\n".join(written)


def _damage(source: str, written: str, found: Sequence[_Found]) -> str:
    """Return what shows that an edit was put in a wrong place: nothing, or one line."""
    before = parsed_python(source)
    after = parsed_python(written)
    if before is None:
        return ""
    if after is None:
        return "" if all(item.exact for item in found) else "the kernel is no Python with it, where it seems to belong"
    changed = {line for item in found for change in item.rewrite.changes for line in range(change.start, change.end)}
    bare = {node.name for node in all_definitions(after.body) if not node.decorator_list}
    for node in all_definitions(before.body):
        if node.name in bare and node.decorator_list and not changed & set(range(node.decorator_list[0].lineno - 1, node.lineno - 1)):
            return f"it puts lines between `{node.name}` and its decorator; copy the decorator too"
    return ""


def _shown(text: Text, edit: Edit, places: Sequence[int], search: bool = True) -> tuple[str, ...]:
    """Return the pieces of a text that an edit may have meant."""
    size = len(edit.search)
    if not places and search:
        like = nearest(text, edit)
        places = () if like is None else (like,)
    return tuple("\n".join(text.lines[max(0, place - _NEAR) : place + size + _NEAR]) for place in places[:_SHOWN_PLACES])


def _trimmed(edit: Edit) -> Edit:
    """Return an edit without blank lines around SEARCH, and without as many around REPLACE."""
    lead = next(number for number, line in enumerate(edit.search) if line.strip())
    tail = next(number for number, line in enumerate(reversed(edit.search)) if line.strip())
    kept = list(edit.replace)
    for count, end in ((lead, 0), (tail, -1)):
        for _ in range(count):
            if kept and not kept[end].strip():
                kept.pop(end)
    line = edit.line + lead if edit.line else 0
    return Edit(edit.search[lead : len(edit.search) - tail], tuple(kept), line, edit.heading)


def _excerpt(line: str, limit: int = 80) -> str:
    text = line.strip()
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
