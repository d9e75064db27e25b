"""Reads code out of a model's reply; whatever the model wrote becomes a typed outcome."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from adaexplore_generator.domain import FinishReason, Outcome, Reply

_MAX_SOURCE_BYTES = 1 << 20
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*$")
_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_PYTHON = frozenset({"", "python", "python3", "py", "triton"})
_REFUSAL = re.compile(
    r"^\W*(?:i(?:['’]?m| am) (?:sorry|unable)|sorry|i apologi[sz]e|i (?:can['’]?t|cannot|won['’]?t)|as an ai)\b",
    re.IGNORECASE,
)
_IMPORT = re.compile(r"^(?:import|from) \w", re.MULTILINE)
_CODE_LINE = re.compile(r"^(?:import |from \w[\w.]* import |class \w|def \w|@\w)", re.MULTILINE)


@dataclass(frozen=True)
class Extraction:
    """What a reply holds.

    Attributes:
        outcome: KERNEL, NO_CODE, EMPTY, TRUNCATED, REFUSED or INVALID_PYTHON.
        source: The code; empty if there is none.
        message: One line that says why there is no usable code; empty for KERNEL.
        prose: The reply's text outside of the code, shortened.

    """

    outcome: Outcome
    source: str = ""
    message: str = ""
    prose: str = ""


@dataclass(frozen=True)
class CodeBlock:
    """One fenced block of a reply; `closed` if its end was there."""

    language: str
    text: str
    closed: bool


def extract_code(reply: Reply, entry_points: Sequence[str]) -> Extraction:
    """Return the Python file that a reply holds.

    Args:
        reply: The reply.
        entry_points: Names one of which the file should define; they choose between several code blocks.

    """
    text = visible_text(reply.text)
    if reply.refusal or reply.finish is FinishReason.FILTERED:
        return Extraction(
            Outcome.REFUSED, message=one_line(f"the model refused: {reply.refusal or 'its content filter stopped the reply'}")
        )
    cut = reply.finish is FinishReason.LENGTH
    if not text.strip():
        if cut:
            return Extraction(Outcome.TRUNCATED, message="the reply was cut at the token limit before any text came")
        return Extraction(Outcome.EMPTY, message="the reply was empty")
    blocks = python_blocks(text)
    source, closed = _choose(blocks, entry_points) if blocks else (_bare_code(text), not cut)
    if not source:
        return _without_code(text, cut)
    return _judge(source, cut and not closed, prose_of(text))


def code_blocks(text: str) -> list[CodeBlock]:
    """Return the fenced blocks of a reply in order; the language is in lower case and may be empty."""
    blocks: list[CodeBlock] = []
    fence, language, lines = "", "", list[str]()
    for line in text.replace("\r\n", "\n").split("\n"):
        match = _FENCE.match(line)
        if not fence and match:
            fence, language, lines = match.group(1), match.group(2).lower(), []
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            blocks.append(CodeBlock(language, _dedented(lines), True))
            fence = ""
        elif fence:
            lines.append(line)
    if fence:
        blocks.append(CodeBlock(language, _dedented(lines), False))
    return blocks


def visible_text(text: str) -> str:
    """Return a reply without the thoughts that some models write into it."""
    stripped = _THINKING.sub("", text)
    # Some chat templates open the thought in the prompt, so that only its end is in the reply.
    head, separator, tail = stripped.rpartition("</think>")
    return tail if separator else head + stripped if head else stripped


def prose_of(text: str, limit: int = 300) -> str:
    """Return the first words of a reply outside of its code blocks, at most `limit` characters, as one line."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if match and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else match.group(1)
        elif not fence:
            kept.append(line)
    return one_line(" ".join(kept), limit)


def one_line(text: str, limit: int = 300) -> str:
    """Return text as one line of at most `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def python_problem(source: str) -> str:
    """Return why a source is not Python, with its line; empty if it is."""
    return _facts(source)[0]


def parsed_python(source: str) -> ast.Module | None:
    """Return the syntax tree of a source; None if it is not Python."""
    return None if python_problem(source) else _parse(source)


def python_blocks(text: str) -> list[CodeBlock]:
    """Return the blocks of a reply that may hold Python and are not empty."""
    return [block for block in code_blocks(text) if block.language in _PYTHON and block.text.strip()]


def defined_names(source: str) -> frozenset[str]:
    """Return the names of the functions and classes that a file defines at its top level; empty if it is not Python."""
    return _facts(source)[1]


@lru_cache(maxsize=16)
def _facts(source: str) -> tuple[str, frozenset[str]]:
    """Return why a source is not Python and what it defines; one reply asks for the same several times, and to parse it takes long."""
    if len(source.encode()) > _MAX_SOURCE_BYTES:
        return "the code is longer than 1 MiB", frozenset()
    try:
        tree = _parse(source)
    except SyntaxError as error:
        return f"line {error.lineno or 0}: {error.msg}", frozenset()
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "the code is nested too deeply", frozenset()
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "", frozenset(node.name for node in tree.body if isinstance(node, kinds))


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in the model's code is not ours to report
        return ast.parse(source)


def _dedented(lines: Sequence[str]) -> str:
    filled = [line for line in lines if line.strip()]
    width = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    return "\n".join(line[width:] if line.strip() else "" for line in lines).strip("\n") + "\n"


def _choose(blocks: Sequence[CodeBlock], entry_points: Sequence[str]) -> tuple[str, bool]:
    wanted = set(entry_points)
    defining = [index for index, block in enumerate(blocks) if wanted & defined_names(block.text)]
    for index in reversed(defining):
        if _IMPORT.search(blocks[index].text):
            return blocks[index].text, blocks[index].closed
    # A file that imports nothing is a part: some models spread one file over several blocks.
    parts = blocks[: defining[-1] + 1] if defining else blocks
    joined = "\n\n\n".join(block.text.rstrip("\n") for block in parts) + "\n"
    if wanted & defined_names(joined):
        return joined, parts[-1].closed
    named = [block for block in blocks if any(re.search(rf"\b{re.escape(name)}\b", block.text) for name in wanted)]
    best = max(named or blocks, key=lambda block: len(block.text))
    return best.text, best.closed


def _bare_code(text: str) -> str:
    if not _CODE_LINE.search(text):
        return ""
    if not python_problem(text):
        return text.strip("\n") + "\n"
    first = _CODE_LINE.search(text)
    return text[first.start() :].strip("\n") + "\n" if first else ""


def _without_code(text: str, cut: bool) -> Extraction:
    prose = prose_of(text)
    if _REFUSAL.match(text.strip()):
        return Extraction(Outcome.REFUSED, message=one_line(f"the model refused: {prose}"), prose=prose)
    if cut:
        return Extraction(Outcome.TRUNCATED, message="the reply was cut at the token limit before any code came", prose=prose)
    return Extraction(Outcome.NO_CODE, message=one_line(f"the reply holds no code: {prose}"), prose=prose)


def _judge(source: str, cut: bool, prose: str) -> Extraction:
    problem = python_problem(source)
    if len(source.encode()) > _MAX_SOURCE_BYTES:
        source = ""  # no kernel may be that long, and no message of the API can hold what models may write
    if cut:
        return Extraction(Outcome.TRUNCATED, source, "the reply was cut at the token limit inside the code", prose)
    if problem:
        return Extraction(Outcome.INVALID_PYTHON, source, one_line(f"the code is not Python: {problem}"), prose)
    return Extraction(Outcome.KERNEL, source, "", prose)
