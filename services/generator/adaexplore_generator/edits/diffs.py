"""Reads unified diffs as models write them: what a hunk says is taken from its lines; its numbers are a hint at most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from adaexplore_generator.edits.lines import split_lines
from adaexplore_generator.edits.values import Edit, ParsedEdits

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(\w*)[^`]*$")
_HUNK = re.compile(r"^@@(?:[ \t]*-(\d{1,7})(?:,(\d{1,7}))?[ \t]+\+(\d{1,7})(?:,(\d{1,7}))?)?[^@]*(?:@@)?(.*)$")
_HEADING = re.compile(r"\b(?:def|class)[ \t]+(\w+)")
_FILE_HEADER = re.compile(r"^(?:diff --git |index [0-9a-f]|(?:new|deleted) file mode|\*\*\* (?:Begin|End|Update|Add) |--- \S|\+\+\+ \S)")


@dataclass
class _Hunk:
    """A hunk that is being read; `counts` are the lengths that its header claims."""

    line: int = 0
    heading: str = ""
    counts: tuple[int, int] | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        return any(line[:1] in {"+", "-"} for line in self.lines)

    @property
    def short(self) -> bool:
        """True if the hunk holds fewer lines than its header says."""
        old = sum(line[:1] != "+" for line in self.lines)
        new = sum(line[:1] != "-" for line in self.lines)
        return self.counts is not None and (old < self.counts[0] or new < self.counts[1])


def parse_diff(reply: str, source: str) -> ParsedEdits:
    """Return the hunks of the unified diffs in a reply as edits; none if it holds no diff.

    A diff is what stands in a fence marked `diff` or `patch`, and elsewhere what follows a line that begins with `@@` or a pair of
    lines `---` and `+++`. The source serves to tell how lines that are not changed are written, with or without a leading blank.
    """
    hunks, cut = _hunks(split_lines(reply))
    if cut and hunks:
        return ParsedEdits((), f"hunk {len(hunks)} of the diff is not closed; the reply may have been cut")
    known = {line.rstrip() for line in split_lines(source)}
    return ParsedEdits(tuple(_edit(hunk, known) for hunk in hunks))


def _hunks(lines: Sequence[str]) -> tuple[list[_Hunk], bool]:
    """Return hunks that change something, and whether the last one may have been cut."""
    hunks: list[_Hunk] = []
    fence, inside = "", False
    for number, line in enumerate(lines):
        fenced = _FENCE.match(line)
        if fenced and (not fence or line.strip() == fence):
            fence = "" if fence else fenced.group(1)
            inside = bool(fence) and fenced.group(2).lower() in {"diff", "patch", "udiff"}
            if inside:
                hunks.append(_Hunk())
        elif _FILE_HEADER.match(line) and _is_header(lines, number):
            inside = True
            hunks.append(_Hunk())
        elif line.startswith("@@") and (header := _HUNK.match(line)):
            inside = True
            hunks.append(_headed(header))
        elif inside and not line.startswith("\\"):
            hunks[-1].lines.append(line)
    if not fence and hunks:
        _drop_prose(hunks[-1])
    kept = [hunk for hunk in hunks if hunk.changes]
    return kept, bool(kept) and inside and (bool(fence) or kept[-1].short)


def _is_header(lines: Sequence[str], number: int) -> bool:
    """Return whether a line is a header of a file and not a removed or added line that looks like one."""
    line, after = lines[number], lines[number + 1] if number + 1 < len(lines) else ""
    if line.startswith("--- "):
        return after.startswith("+++ ")
    return not line.startswith("+++ ") or (number > 0 and lines[number - 1].startswith("--- "))


def _headed(header: re.Match[str]) -> _Hunk:
    counted = header.group(2) is not None and header.group(4) is not None
    counts = (int(header.group(2)), int(header.group(4))) if counted else None
    heading = _HEADING.search(header.group(0))
    return _Hunk(int(header.group(1) or 0), heading.group(1) if heading else "", counts)


def _drop_prose(hunk: _Hunk) -> None:
    """Leave out what follows the last hunk of a diff without a fence, from the first blank line that text comes after."""
    changed = [number for number, line in enumerate(hunk.lines) if line[:1] in {"+", "-"}]
    for number in range(changed[-1] + 1 if changed else 0, len(hunk.lines)):
        rest = hunk.lines[number:]
        if not rest[0].strip() and any(line[:1] not in {"", " "} for line in rest):
            del hunk.lines[number:]
            return
    while hunk.lines and not hunk.lines[-1]:
        hunk.lines.pop()


def _edit(hunk: _Hunk, known: set[str]) -> Edit:
    marker_and_blank = _blank_follows_marker(hunk.lines, known)
    bare = _are_bare(hunk.lines, known)
    search: list[str] = []
    replace: list[str] = []
    for line in hunk.lines:
        mark, text = line[:1], line[1:]
        if mark in {"+", "-"}:
            changed = text[1:] if marker_and_blank else text
            (search if mark == "-" else replace).append(changed)
        else:
            unchanged = _unchanged(line, known, bare)
            search.append(unchanged)
            replace.append(unchanged)
    return Edit(tuple(search), tuple(replace), hunk.line, hunk.heading)


def _unchanged(line: str, known: set[str], bare: bool) -> str:
    """Return a line that is not changed without the blank before it, if one was written."""
    if not line.startswith(" "):
        return line
    if line[1:].rstrip() in known:
        return line[1:]
    return line if bare or line.rstrip() in known else line[1:]


def _are_bare(lines: Sequence[str], known: set[str]) -> bool:
    """Return whether lines that are not changed are written without the blank that a diff puts before them."""
    unchanged = [line for line in lines if line.strip() and line[0] not in "+-"]
    without = sum(line.rstrip() in known for line in unchanged)
    return without > sum(line[1:].rstrip() in known for line in unchanged if line[0] == " ")


def _blank_follows_marker(lines: Sequence[str], known: set[str]) -> bool:
    """Return whether a blank that belongs to no line follows each `+` and `-`."""
    changed = [line for line in lines if line[:1] in {"+", "-"} and line[1:].strip()]
    if not all(line[1:2] == " " for line in changed):
        return False
    removed = [line for line in changed if line[0] == "-"]
    return sum(line[2:].rstrip() in known for line in removed) > sum(line[1:].rstrip() in known for line in removed)
