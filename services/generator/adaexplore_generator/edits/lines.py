"""Lines of code: what they say apart from spacing, and how far they are indented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>\#.*)
    |(?P<string>[rbufRBUF]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<word>\w+)
    |(?P<operator>\*\*=|//=|>>=|<<=|\.\.\.|->|:=|==|!=|<=|>=|\+=|-=|\*=|/=|%=|&=|\|=|\^=|@=|\*\*|//|<<|>>|.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_STRING = re.compile(r"\"([^\"'\\]*)\"")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
# What stands for lines that are left out: a bare ellipsis, a comment that begins or ends with one or says so, or our own mark.
_LEFT_OUT = re.compile(
    r"""\s*(?:
      (?:\.\.\.|…)\s*(?:\#.*)?
      |\#\s*(?:\.{2,}|…).*
      |\#.*(?:\.{3}|…)\s*
      |\#\W*(?:the\s+)?(?:rest|remainder)\s+(?:of\s+(?:the\s+|your\s+)?(?:code|kernel|file|function|class|body|method|loop|logic|program|forward)
          |is\b|remains\b|stays\b|unchanged\b|as\b|same\b).*
      |\#\W*(?:existing|unchanged|same|previous|other|remaining)\s+(?:code|lines|as|body|logic|kernel|implementation)\b.*
      |\#\W*(?:no\s+changes?|unchanged|code\s+(?:unchanged|omitted)|keep\s+(?:the\s+)?(?:rest|existing|same|as))\b.*
      |\[…\ \d+\ lines\ left\ out\ …\]
      |<[^<>]*(?:unchanged|omitted|existing\ code)[^<>]*>
    )""",
    re.VERBOSE | re.IGNORECASE,
)


Units = Callable[[Sequence[str]], "list[Unit]"]


@dataclass(frozen=True)
class Unit:
    """One piece of code that is matched as a whole: a line, or a statement over several lines.

    Attributes:
        start: Its first line, 0-based.
        end: The line after its last.
        key: What it says; equal keys say the same.
        indent: Width of its indentation.

    """

    start: int
    end: int
    key: tuple[str, ...]
    indent: int


class Text:
    """A text in lines, with its units of each kind, made once.

    Args:
        lines: Its lines.

    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._units: dict[Units, list[Unit]] = {}
        self._places: dict[Units, dict[tuple[str, ...], list[int]]] = {}

    def units(self, kind: Units) -> list[Unit]:
        """Return its units of a kind."""
        if kind not in self._units:
            self._units[kind] = kind(self.lines)
        return self._units[kind]

    def places(self, kind: Units) -> dict[tuple[str, ...], list[int]]:
        """Return for each key which units of a kind have it."""
        if kind not in self._places:
            found: dict[tuple[str, ...], list[int]] = {}
            for number, unit in enumerate(self.units(kind)):
                found.setdefault(unit.key, []).append(number)
            self._places[kind] = found
        return self._places[kind]


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends; form feeds and separators inside string literals end no line."""
    return text.replace("\r\n", "\n").split("\n")


def indent_of(line: str) -> int:
    """Return the width of a line's indentation; a tab reaches to the next multiple of four."""
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def tokens(line: str) -> tuple[str, ...]:
    """Return what a line says: its tokens without spacing and comment, plain strings in single quotes."""
    found = []
    for match in _TOKEN.finditer(line):
        if match.lastgroup not in {"space", "comment"}:
            found.append(_PLAIN_STRING.sub(r"'\1'", match.group()) if match.lastgroup == "string" else match.group())
    return tuple(found)


def names(key: Iterable[str]) -> frozenset[str]:
    """Return the identifiers among tokens."""
    return frozenset(token for token in key if token.isidentifier())


def is_left_out(line: str) -> bool:
    """Return whether a line stands for lines that are left out."""
    return _LEFT_OUT.fullmatch(line) is not None


def elides_inside(line: str) -> bool:
    """Return whether a line leaves out a part of itself: an ellipsis that is no index."""
    depth: list[str] = []
    for part in tokens(line):
        if part in _OPENING:
            depth.append(part)
        elif part in _CLOSING and depth:
            depth.pop()
        elif part == "…" or (part == "..." and (not depth or depth[-1] != "[")):
            return True
    return False


def line_units(lines: Sequence[str]) -> list[Unit]:
    """Return each line as a unit, blank ones too; the key is its text without trailing whitespace and indentation."""
    return [Unit(number, number + 1, (line.strip(),), indent_of(line)) for number, line in enumerate(lines)]


def filled_units(lines: Sequence[str]) -> list[Unit]:
    """Return each line that is not blank as a unit."""
    return [unit for unit in line_units(lines) if unit.key != ("",)]


def code_units(lines: Sequence[str]) -> list[Unit]:
    """Return each line that holds code as a unit; the key is its tokens."""
    keys = ((number, line, tokens(line)) for number, line in enumerate(lines))
    return [Unit(number, number + 1, key, indent_of(line)) for number, line, key in keys if key]


def statement_units(lines: Sequence[str]) -> list[Unit]:
    """Return each statement as a unit, however it is broken over lines; none if brackets are left open or closed too often."""
    units: list[Unit] = []
    start, depth, parts = 0, 0, list[str]()
    for unit in code_units(lines):
        start = unit.start if not parts else start
        parts.extend(unit.key)
        depth += sum((token in _OPENING) - (token in _CLOSING) for token in unit.key)
        if depth < 0:
            return []
        if depth == 0:
            units.append(Unit(start, unit.end, _without_last_commas(parts), indent_of(lines[start])))
            parts = []
    return [] if depth else units


def _without_last_commas(parts: Sequence[str]) -> tuple[str, ...]:
    """Return tokens without a comma before a closing bracket, where the bracket holds another: `(a,)` is a tuple."""
    kept: list[str] = []
    commas = [0]
    for part in parts:
        if part in _OPENING:
            commas.append(0)
        elif part in _CLOSING and len(commas) > 1:
            if kept[-1] == "," and commas[-1] > 1:
                kept.pop()
            commas.pop()
        elif part == ",":
            commas[-1] += 1
        kept.append(part)
    return tuple(kept)
