"""What edits are, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement of consecutive lines.

    Attributes:
        search: Lines to find, without their line ends.
        replace: Lines to put there.
        line: Line of the kernel, 1-based, at which a diff says the first of `search` stands; 0 if nothing says so.
        heading: Name of the function or class in which a diff says it stands; empty if nothing says so.

    """

    search: tuple[str, ...]
    replace: tuple[str, ...]
    line: int = 0
    heading: str = ""


@dataclass(frozen=True)
class ParsedEdits:
    """The edits of a reply.

    Attributes:
        edits: Complete edits in order.
        problem: One line about a block that is malformed; empty if all are well formed.

    """

    edits: tuple[Edit, ...]
    problem: str = ""


@dataclass(frozen=True)
class Misfit:
    """An edit that was not applied.

    Attributes:
        number: Which edit of the reply, from 1; 0 for what belongs to no edit.
        reason: One line.
        edit: The edit; None if the block is malformed.
        nearest: Pieces of the kernel that it may have meant, each a few lines, for the model to copy from.

    """

    number: int
    reason: str
    edit: Edit | None = None
    nearest: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"edit {self.number}: {self.reason}" if self.number else self.reason


@dataclass(frozen=True)
class Applied:
    """What became of edits.

    Attributes:
        source: The edited text; None if any edit could not be applied.
        misfits: What could not be applied.
        fitting: Edits that would have been applied, had the others not failed.
        exact: True if every edit stood in the text character by character, but for whitespace at line ends.

    """

    source: str | None
    misfits: tuple[Misfit, ...] = ()
    fitting: tuple[Edit, ...] = ()
    exact: bool = True

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each edit that could not be applied."""
        return tuple(map(str, self.misfits))


class MisfitError(Exception):
    """An edit cannot be placed, or not surely.

    Args:
        reason: One line.
        lines: Lines of the kernel, 0-based, that it may have meant.

    """

    def __init__(self, reason: str, lines: tuple[int, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.lines = reason, lines
