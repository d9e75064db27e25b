"""Reads search/replace blocks, in the form that is asked for and in the ones that models fall into."""

from __future__ import annotations

import re
from collections.abc import Sequence

from adaexplore_generator.edits.lines import split_lines
from adaexplore_generator.edits.values import Edit, ParsedEdits

_OLD = r"(?:SEARCH|ORIGINAL|HEAD|OLD|BEFORE|FIND)"
_NEW = r"(?:REPLACE|UPDATED?|NEW|AFTER|REPLACEMENT)"
_BEGIN = re.compile(rf"^[ \t]*(?:<{{3,10}}[ \t]*{_OLD}\b.*|<{{5,10}}[ \t]*)$", re.IGNORECASE)
_DIVIDER = re.compile(rf"^[ \t]*={{3,10}}[ \t]*(?:{_NEW})?[ \t]*$", re.IGNORECASE)
_STRICT_DIVIDER = re.compile(r"^[ \t]*={7}[ \t]*$")
_END = re.compile(rf"^[ \t]*(?:>{{3,10}}[ \t]*(?:END[ \t]+)?(?:{_OLD}|{_NEW})\b.*|>{{5,10}}[^>]*)$", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^`]*$")
_TAGS = {"search": "replace", "old": "new", "old_str": "new_str", "old_string": "new_string", "original": "updated"}
_OPEN_TAG = re.compile(rf"^[ \t]*<({'|'.join(_TAGS)})>", re.MULTILINE)


class _Reader:
    """Takes the lines of a reply one after the other."""

    def __init__(self) -> None:
        self.edits: list[Edit] = []
        self.problem = ""
        self._inside = False
        self._fenced = False
        self._closed_by_fence = False
        self._held: list[str] = []
        self.rest: list[str] = []

    def take(self, line: str) -> None:
        if not self._inside and not _BEGIN.match(line):
            self.rest.append(line)
        if self._inside and _BEGIN.match(line):
            self._fail("is not closed before the next one begins")
        elif self._inside and (_END.match(line) or self._fence_ends(line)):
            self._close()
        elif self._inside:
            self._held.append(line)
        elif _BEGIN.match(line):
            self._inside, self._closed_by_fence, self._held = True, False, []
        elif _END.match(line):
            if not self._closed_by_fence:
                self._fail("ends without a marker that begins it")
            self._closed_by_fence = False
        elif _FENCE.match(line):
            self._fenced = not self._fenced

    def end(self) -> None:
        if self._inside and not self.problem:
            self._fail("is not closed; the reply may have been cut")

    def _fence_ends(self, line: str) -> bool:
        """A fence that was opened around the block closes it too, where the last marker is missing."""
        if not (self._fenced and line.strip() in {"```", "~~~", "````"}):
            return False
        inner = sum(bool(_FENCE.match(held)) for held in self._held)
        ends = inner % 2 == 0 and any(_DIVIDER.match(held) for held in self._held)
        self._fenced, self._closed_by_fence = not ends, ends
        return ends

    def _close(self) -> None:
        dividers = [number for number, line in enumerate(self._held) if _DIVIDER.match(line)]
        if len(dividers) > 1:
            dividers = [number for number in dividers if _STRICT_DIVIDER.match(self._held[number])]
        if len(dividers) != 1:
            self._fail("has no divider" if not dividers else "has several dividers")
            return
        search, replace = self._held[: dividers[0]], self._held[dividers[0] + 1 :]
        self.edits.append(Edit(_unfenced(search), _unfenced(replace)))
        self._inside = False

    def _fail(self, why: str) -> None:
        self.problem = self.problem or f"edit {len(self.edits) + 1} {why}"
        self._inside = False


def parse_blocks(reply: str) -> tuple[ParsedEdits, str]:
    """Return the search/replace blocks of a reply, and its text without them.

    A block is `<<<<<<< SEARCH`, lines, `=======`, lines, `>>>>>>> REPLACE`, each marker alone on its line. Markers of other lengths and
    names are read too, and so are pairs of tags such as `<old>` and `<new>` where there is no such block.
    """
    reader = _Reader()
    for line in split_lines(reply):
        reader.take(line)
        if reader.problem:
            break
    reader.end()
    if not reader.edits and not reader.problem:
        return _tagged(reply), reply
    return ParsedEdits(tuple(reader.edits), reader.problem), "\n".join(reader.rest)


def _tagged(reply: str) -> ParsedEdits:
    """Return pairs of tags; each piece of the text is looked at once, for a reply may be long."""
    text, edits, at = reply.replace("\r\n", "\n"), list[Edit](), 0
    while opened := _OPEN_TAG.search(text, at):
        old, new = opened.group(1), _TAGS[opened.group(1)]
        middle = text.find(f"</{old}>", opened.end())
        begins = middle + len(f"</{old}>")
        between = text.find(f"<{new}>", begins)
        ends = text.find(f"</{new}>", between)
        if min(middle, between, ends) < 0 or text[begins:between].strip():
            return ParsedEdits(tuple(edits), f"edit {len(edits) + 1} is not closed; the reply may have been cut")
        parts = text[opened.end() : middle], text[between + len(f"<{new}>") : ends]
        search, replace = (_unfenced(part.removeprefix("\n").removesuffix("\n").split("\n")) for part in parts)
        edits.append(Edit(search, replace))
        at = ends
    return ParsedEdits(tuple(edits))


def _unfenced(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines without the code fence that some models put inside of a part."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if len(filled) > 1 and _FENCE.match(lines[filled[0]]) and _FENCE.match(lines[filled[-1]]):
        return tuple(lines[filled[0] + 1 : filled[-1]])
    return tuple(lines)
