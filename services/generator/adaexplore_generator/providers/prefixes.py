"""Which part of a message stays the same from call to call, so that a provider can be told to keep it in its cache."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

# Providers cache no less than about 1,024 tokens; writing a shorter prefix only costs more.
_LEAST_CHARS = 4096
_MOST_LINES, _MOST_RECENT, _MOST_ENDS, _MOST_KNOWN = 64, 4, 3, 16


@dataclass
class _Line:
    """Messages under one system message: the latest, and prefixes that two of them had in common."""

    recent: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)


class PrefixMemory:
    """Learns common prefixes of the messages it is shown; holds the latest few alone."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, _Line] = OrderedDict()

    def ends(self, system: str, content: str) -> tuple[int, ...]:
        """Return where prefixes that earlier messages began with too end in a message, ascending; at most three.

        Args:
            system: The system message above it; messages under another one are not compared.
            content: The message.

        """
        name = hashlib.sha256(system.encode("utf-8", "replace")).hexdigest()
        line = self._lines.setdefault(name, _Line())
        self._lines.move_to_end(name)
        if len(self._lines) > _MOST_LINES:
            self._lines.popitem(last=False)
        for earlier in line.recent:
            # Cut behind a blank line, so that a prefix does not depend on how the parts behind it begin.
            common = content[: content.rfind("\n\n", 0, _shared_chars(earlier, content)) + 2]
            if len(common) >= _LEAST_CHARS and common not in line.known:
                line.known = [*line.known, common][-_MOST_KNOWN:]
        line.recent = [*line.recent, content][-_MOST_RECENT:]
        found = sorted(len(prefix) for prefix in line.known if content.startswith(prefix))
        return tuple(found[-_MOST_ENDS:])


def _shared_chars(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
