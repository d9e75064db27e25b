"""Prompts: versioned files with sections that are filled in, each within its budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources

from adaexplore_generator.domain import Message, Prompt

BYTES_PER_TOKEN = 4
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_LONGEST_LINE = 600
_MARK_CHARS = 40


@dataclass(frozen=True)
class Budgets:
    """Most tokens of each section, at four bytes of UTF-8 a token; what is longer is cut on line bounds.

    Attributes:
        task_source: Source of the task.
        task_facts: Shapes, dtypes and state of the task.
        skills: All skills together.
        kernel: Source of one kernel.
        feedback: What the evaluator said about one kernel.
        improvements: What the reviser named.
        failed_edits: All edits that are asked for again, with the lines that they may have meant.
        repeated: Source that an answer repeated, where nothing else shows it.
        seed_task: Source of one seed task.
        known_rules: All known rules together.

    """

    task_source: int = 6_000
    task_facts: int = 1_500
    skills: int = 1_600
    kernel: int = 4_000
    feedback: int = 600
    improvements: int = 800
    failed_edits: int = 1_200
    repeated: int = 1_500
    seed_task: int = 2_000
    known_rules: int = 30_000

    def scaled(self, factor: float) -> Budgets:
        """Return the budgets times a factor, for models with a small context."""
        return Budgets(**{item.name: max(16, int(getattr(self, item.name) * factor)) for item in fields(self)})


@dataclass(frozen=True)
class PromptFile:
    """One prompt file: its name, its version, and the templates of its two messages."""

    name: str
    version: int
    system: str
    user: str

    def fill(self, sections: Mapping[str, str]) -> Prompt:
        """Return the prompt with its sections filled in; an empty section leaves no trace.

        Raises:
            KeyError: A placeholder of the file has no section.

        """
        # Paragraph by paragraph, so that blank lines inside a section stay as they are: edits must match them.
        filled = (_PLACEHOLDER.sub(lambda match: sections[match.group(1)].strip("\n"), part) for part in self.user.split("\n\n"))
        return Prompt((Message("system", self.system), Message("user", "\n\n".join(part for part in filled if part))))


def load_prompt(name: str) -> PromptFile:
    """Return a prompt file of this package by its name without ending, for example `proposer`."""
    text = resources.files("adaexplore_generator").joinpath("prompts", f"{name}.md").read_text("utf-8")
    match = re.fullmatch(r"version: (\d+)\n+# system\n(.*?)\n# user\n(.*)", text, re.DOTALL)
    if match is None:
        raise ValueError(f"prompts/{name}.md is not a version line, a system part and a user part")
    return PromptFile(name, int(match.group(1)), match.group(2).strip("\n"), match.group(3).strip("\n"))


def estimate_tokens(text: str) -> int:
    """Return the number of tokens that a text takes, estimated at four bytes of UTF-8 a token."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def data_block(title: str, text: str) -> str:
    """Return text under a title, between markers that it cannot close itself."""
    safe = text.replace("BEGIN DATA", "BEGIN_DATA").replace("END DATA", "END_DATA")
    return f"{title}\nBEGIN DATA\n{safe.strip(chr(10))}\nEND DATA"


def cut(text: str, tokens: int, *, tail_share: float = 0.5) -> str:
    """Return text within a budget: whole lines from its start and its end, with a line between that says how many are missing.

    No line is cut off, with one exception: if the text does not fit, a line of more than 600 characters keeps its first 560 or so, and
    ends with how many are missing.

    Args:
        text: The text.
        tokens: The budget.
        tail_share: Share of the budget that goes to the end of the text, 0 to 1.

    """
    if estimate_tokens(text) <= tokens:
        return text
    lines = [_shortened(line) for line in text.split("\n")]
    limit = max(0, tokens - 8) * BYTES_PER_TOKEN
    tail = _fitting(lines[::-1], int(limit * tail_share))
    head = _fitting(lines[: len(lines) - tail], limit - _size(lines[len(lines) - tail :]))
    missing = len(lines) - head - tail
    if missing == 0:
        return "\n".join(lines)
    return "\n".join([*lines[:head], f"[… {missing} lines left out …]", *lines[len(lines) - tail :]])


def _shortened(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    kept = line[: _LONGEST_LINE - _MARK_CHARS]
    return f"{kept}[… {len(line) - len(kept)} characters left out …]"


def _fitting(lines: list[str], limit_bytes: int) -> int:
    used = 0
    for number, line in enumerate(lines):
        used += _size([line])
        if used > limit_bytes:
            return number
    return len(lines)


def _size(lines: list[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)
