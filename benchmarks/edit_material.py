"""What answers to a request for edits are built from: kernels, right changes to them, and how an edit is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

FOLDER = Path(__file__).parent / "data" / "edits"
_BLOCK = re.compile(r"<<<<<<< SEARCH\n(.*?)\n=======\n(.*?)\n>>>>>>> REPLACE", re.DOTALL)


@dataclass(frozen=True)
class Kernel:
    """A kernel and the right changes to it, each as the lines to find, exactly once, and those in their place."""

    name: str
    source: str
    changes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Answer:
    """One reply and the kernel that must come of it; None where nothing may be applied. `cut`: the endpoint says it was cut."""

    kind: str
    text: str
    kernel: Kernel
    truth: str | None
    cut: bool = False


@dataclass(frozen=True)
class Hunk:
    """One change with lines around it: `start` is the line of the first of `old`; `before` and `after` are lines of both."""

    start: int
    before: list[str]
    old: list[str]
    new: list[str]
    after: list[str]

    @property
    def search(self) -> list[str]:
        return [*self.before, *self.old, *self.after]

    @property
    def replacement(self) -> list[str]:
        return [*self.before, *self.new, *self.after]


def load_kernels() -> list[Kernel]:
    """Return the kernels of the data folder with their changes."""
    kernels = []
    for path in sorted(FOLDER.glob("*.py")):
        changes = tuple(_BLOCK.findall(path.with_suffix(".edits").read_text()))
        kernels.append(Kernel(path.stem, path.read_text(), changes))
    return kernels


def hunks(rng: Random, kernel: Kernel, most: int = 2, context: tuple[int, int] = (0, 4)) -> tuple[list[Hunk], str]:
    """Return changes with context that makes each unique, and the kernel with all of them."""
    lines = kernel.source.split("\n")
    chosen = []
    for old, new in rng.sample(kernel.changes, rng.randint(1, most)):
        before = kernel.source[: kernel.source.index(old + "\n")].count("\n")
        chosen.append((before, old.split("\n"), new.split("\n")))
    chosen.sort()
    truth = list(lines)
    for start, old, new in reversed(chosen):
        truth[start : start + len(old)] = new
    found = []
    for number, (start, old, new) in enumerate(chosen):
        low = chosen[number - 1][0] + len(chosen[number - 1][1]) if number else 0
        high = chosen[number + 1][0] if number + 1 < len(chosen) else len(lines) - 1
        first = max(low, start - rng.randint(*context))
        last = min(high, start + len(old) + rng.randint(*context))
        found.append(Hunk(start, lines[first:start], old, new, lines[start + len(old) : last]))
    return found, "\n".join(truth)


def block(
    search: Sequence[str], new: Sequence[str], begin: str = "<<<<<<< SEARCH", divide: str = "=======", end: str = ">>>>>>> REPLACE"
) -> str:
    """Return a search/replace block."""
    return "\n".join([begin, *search, divide, *new, end])


def blocks(found: Sequence[Hunk]) -> str:
    """Return blocks of all changes."""
    return "\n\n".join(block(hunk.search, hunk.replacement) for hunk in found)


def mapped(hunk: Hunk, change: Callable[[str], str]) -> Hunk:
    """Return a change with every line changed."""
    return Hunk(hunk.start, *([change(line) for line in part] for part in (hunk.before, hunk.old, hunk.new, hunk.after)))


def drift(rng: Random, line: str) -> str:
    """Return a line that says the same in other spacing."""
    body, text = line[: len(line) - len(line.lstrip())], line.lstrip()
    choice = rng.randrange(6)
    if '"' not in text and choice == 0:
        text = re.sub(r", ", ",", text)
    elif '"' not in text and choice == 1:
        text = re.sub(r" ([=*+/-]) ", r"\1", text)
    elif choice == 2 and text:
        text += "  # " + rng.choice(["fast path", "was: 64", "TODO"]) if "#" not in text else ""
    elif choice == 3:
        text += rng.choice([" ", "\t", "   "])
    elif choice == 4:
        text = text.replace('"', "'") if "'" not in text else text
    elif '"' not in text:
        text = text.replace(" = ", "  =  ")
    return body + text
