"""Finds where an edit stands in a text: rule by rule from the strictest on, and only where it stands in one place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adaexplore_generator.edits.lines import Text, Unit, Units, code_units, filled_units, line_units, split_lines, statement_units
from adaexplore_generator.edits.values import Edit, MisfitError

# How far from the code of an edit its comments may stand.
_NEAR = 3


@dataclass(frozen=True)
class Placement:
    """Where the units of an edit stand.

    Attributes:
        kernel: Units of the text.
        search: Units of the edit's SEARCH part.
        replace: Units of its REPLACE part.
        at: For each unit of `search` its unit of `kernel`; None if the text holds none.
        exact: True if the lines are the same but for whitespace at their ends.

    """

    kernel: Sequence[Unit]
    search: Sequence[Unit]
    replace: Sequence[Unit]
    at: tuple[int | None, ...]
    exact: bool = False


@dataclass(frozen=True)
class _Rule:
    """One rule: which units are compared, and whether a window of the text is the same as the SEARCH part."""

    units: Units
    same: Callable[[_Window], bool]
    exact: bool = False


@dataclass(frozen=True)
class _Window:
    lines: Sequence[str]
    units: Sequence[Unit]
    searched_lines: Sequence[str]
    searched: Sequence[Unit]


def place(text: Text, edit: Edit) -> Placement | None:
    """Return where an edit stands by the first rule that finds it; None if none does.

    The rules: the same lines; but for whitespace at their ends; with another indentation of all lines; blank lines apart; the same
    tokens in each line, comments apart; the same tokens in each statement, however it is broken over lines.

    Raises:
        MisfitError: It stands in several places, or its code stands in one and its comments in another.

    """
    for rule in _RULES:
        kernel, search, replace = text.units(rule.units), rule.units(edit.search), rule.units(edit.replace)
        if not search or (rule.units is statement_units and not replace and edit.replace):
            continue
        starts = _starts(rule, text, edit, search)
        if len(starts) > 1:
            starts = _decided(starts, text, kernel, edit, len(search), rule.exact)
        if starts:
            if rule.units in (code_units, statement_units):
                refuse_foreign_comments(text, edit, kernel[starts[0]].start, kernel[starts[0] + len(search) - 1].end)
            return Placement(kernel, search, replace, tuple(range(starts[0], starts[0] + len(search))), rule.exact)
    return None


def refuse_foreign_comments(text: Text, edit: Edit, start: int, end: int) -> None:
    """Refuse an edit that holds a comment which the text does not have there, but elsewhere: it may mean that other place.

    Raises:
        MisfitError: It does.

    """
    code = code_units(edit.search)
    for number, line in enumerate(edit.search):
        # A comment of the edit stands before, among or after its code, and so must that of the text.
        low, high = (start, end) if code and code[0].start < number < code[-1].start else (start - _NEAR, start)
        low, high = (end, end + _NEAR) if code and number > code[-1].start else (low, high)
        near = [other.strip() for other in text.lines[max(0, low) : high]]
        if line.strip().startswith("#") and line.strip() not in near and (places := text.places(filled_units).get((line.strip(),))):
            place = text.units(filled_units)[places[0]].start
            raise MisfitError(f"its SEARCH part mixes lines of several places of the kernel, one of them line {place + 1}", (place,))


def definition_spans(text: Text, name: str) -> list[range]:
    """Return the lines of each function or class of a name."""
    spans = []
    begins = re.compile(rf"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+{re.escape(name)}\b")
    units, lines = text.units(code_units), text.lines
    for number, unit in enumerate(units):
        if begins.match(lines[unit.start]):
            after = (other for other in units[number + 1 :] if other.indent <= unit.indent and other.key[0] not in {")", "]", "}"})
            last = next(after, None)
            spans.append(range(unit.start, last.start if last else len(lines)))
    return spans


def _starts(rule: _Rule, text: Text, edit: Edit, search: Sequence[Unit]) -> list[int]:
    kernel, size = text.units(rule.units), len(search)
    candidates = (start for start in text.places(rule.units).get(search[0].key, ()) if start + size <= len(kernel))
    return [start for start in candidates if rule.same(_Window(text.lines, kernel[start : start + size], edit.search, search))]


def _decided(starts: list[int], text: Text, kernel: Sequence[Unit], edit: Edit, size: int, exact: bool) -> list[int]:
    """Return the one place that a diff's heading or, among exact places, its line number names."""
    headed = starts
    if edit.heading and len(spans := definition_spans(text, edit.heading)) == 1:
        headed = [start for start in starts if kernel[start].start in spans[0] and kernel[start + size - 1].end <= spans[0].stop]
    stated = [start for start in starts if exact and kernel[start].start + 1 == edit.line]
    for chosen, others in ((headed, stated), (stated, headed)):
        if len(chosen) == 1 and (not others or chosen[0] in others):
            return chosen
    found = tuple(kernel[start].start for start in starts)
    raise MisfitError("its SEARCH part fits in several places, at lines " + ", ".join(str(line + 1) for line in found[:5]), found)


def _identical(window: _Window) -> bool:
    return [window.lines[unit.start] for unit in window.units] == [window.searched_lines[unit.start] for unit in window.searched]


def _identical_but_for_ends(window: _Window) -> bool:
    return all(
        window.lines[unit.start].rstrip() == window.searched_lines[other.start].rstrip()
        for unit, other in zip(window.units, window.searched, strict=True)
    )


def _shifted(window: _Window) -> bool:
    pairs = [(unit, other) for unit, other in zip(window.units, window.searched, strict=True)]
    shifts = {unit.indent - other.indent for unit, other in pairs if unit.key != ("",)}
    return len(shifts) <= 1 and _same_keys(window)


def _same_keys(window: _Window) -> bool:
    return all(unit.key == other.key for unit, other in zip(window.units, window.searched, strict=True))


_RULES = (
    _Rule(line_units, _identical, exact=True),
    _Rule(line_units, _identical_but_for_ends, exact=True),
    _Rule(line_units, _shifted),
    _Rule(filled_units, _shifted),
    _Rule(code_units, _same_keys),
    _Rule(statement_units, _same_keys),
)


def place_in_line(lines: Sequence[str], edit: Edit) -> tuple[int, str] | None:
    """Return the line that holds a one-line SEARCH as a whole argument or value, and what becomes of that line.

    None if either part is not one line, or if the text holds it not exactly once, or inside a longer expression.
    """
    search, replace = edit.search[0].strip(), edit.replace[0].strip() if len(edit.replace) == 1 else ""
    text = "\n".join(lines)
    if len(edit.search) != 1 or not replace or len(search) < 3 or text.count(search) != 1 or _open(search) or _open(replace):
        return None
    start = text.index(search)
    number, column = text.count("\n", 0, start), start - (text.rfind("\n", 0, start) + 1)
    inside = _open("\n".join([*lines[:number], lines[number][:column]]))
    before, after = text[:start].rstrip(), text[start + len(search) :]
    begins, ends = (r"[(\[{,=]\Z", r"\s*[)\]},]") if inside else (r"=\Z|\breturn\Z", r"[ \t]*(?:#|\n|\Z)")
    if not re.search(begins, before) or re.search(r"[=!<>+\-*/%&|^:@]=\Z", before) or not re.match(ends, after):
        return None
    if "#" in lines[number][:column]:
        return None
    return number, lines[number][:column] + replace + lines[number][column + len(search) :]


def _open(text: str) -> bool:
    """Return whether brackets of a text are left open, or closed too often."""
    return not statement_units(split_lines(text)) and bool(code_units(split_lines(text)))
