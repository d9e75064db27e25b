"""Errors as the protocol reports them: what went wrong, where in the user's file, and the part of the text that helps."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Final

import torch

MAX_DETAIL_CHARS: Final = 4000
MAX_MESSAGE_CHARS: Final = 500
EXCERPT_RADIUS: Final = 3
KINDS: Final = frozenset(
    """syntax contract compile launch runtime memory not_interpretable too_slow tune lazy_output out_of_memory fault tamper""".split()  # noqa: SIM905 - words
)


class RunnerError(Exception):
    """A failure whose kind is known where it is raised; `kind` is one of KINDS."""

    def __init__(self, kind: str, message: str, line: int = 0, kernel_name: str = "", detail: str = "", exception_type: str = "") -> None:
        super().__init__(message)
        if kind not in KINDS:
            raise ValueError(f"{kind} is no kind of the protocol")
        self.kind = kind
        self.message = message
        self.line = line
        self.kernel_name = kernel_name
        self.detail = detail
        self.exception_type = exception_type


class ContractError(RunnerError):
    """The file lacks something that its format demands."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__("contract", message, line)


def error_report(error: BaseException, path: str, kind: str = "runtime") -> dict[str, object]:
    """The protocol's ERROR for an exception raised while the file at `path` was at work.

    `kind` is the phase's own kind; an exception whose type says more overrides it.
    """
    line = _line_of(error, path)
    return {
        "kind": _kind_of(error, kind),
        "exception_type": _exception_type(error),
        "message": clean(_message_of(error), MAX_MESSAGE_CHARS),
        "detail": clean(_detail_of(error, path), MAX_DETAIL_CHARS, keep_end=True),
        "line": line,
        "excerpt": excerpt(path, line),
        "kernel_name": clean(str(getattr(error, "kernel_name", "") or ""), 200),
    }


def user_frames(trace: TracebackType | None, path: str) -> list[traceback.FrameSummary]:
    """Frames of a traceback that belong to the file at `path`, outermost first."""
    return [frame for frame in traceback.extract_tb(trace) if frame.filename == path]


def excerpt(path: str, line: int) -> str:
    """The numbered lines of a loaded file around `line`, marked; empty if the line is unknown."""
    lines = linecache.getlines(path)
    if not 0 < line <= len(lines):
        return ""
    first, last = max(1, line - EXCERPT_RADIUS), min(len(lines), line + EXCERPT_RADIUS)
    rows = (f"{'>' if number == line else ' '} {number:4d} | {lines[number - 1].rstrip()}" for number in range(first, last + 1))
    return clean("\n".join(rows), MAX_DETAIL_CHARS)


def clean(text: str, limit: int, keep_end: bool = False) -> str:
    """The text without control characters, cut to `limit` characters at its end or at its beginning."""
    plain = "".join(character for character in text if character in "\n\t" or character.isprintable())
    if len(plain) <= limit:
        return plain
    return "…" + plain[1 - limit :] if keep_end else plain[: limit - 1] + "…"


def qualified_name(cls: type) -> str:
    """Module and name of a class; the name alone for a builtin."""
    module = getattr(cls, "__module__", "builtins")
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def _exception_type(error: BaseException) -> str:
    if isinstance(error, RunnerError) and error.exception_type:
        return clean(error.exception_type, 200)
    raised = error.__cause__ if isinstance(error, RunnerError) else error
    return "" if raised is None else clean(qualified_name(type(raised)), 200)


def _kind_of(error: BaseException, kind: str) -> str:
    own = getattr(error, "kind", None)
    if isinstance(error, RunnerError) and isinstance(own, str):
        return own
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or _allocator_refused(error):
        return "out_of_memory"
    return kind


def _allocator_refused(error: BaseException) -> bool:
    """Torch's CPU allocator has no exception type of its own: a plain RuntimeError that no Python frame raised itself."""
    if type(error) is not RuntimeError or error.__traceback__ is None:
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return not (frames[-1].line or "").startswith("raise") and "DefaultCPUAllocator" in str(error)


def _line_of(error: BaseException, path: str) -> int:
    if isinstance(error, RunnerError) and error.line:
        return error.line
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 0
    for item in _chain(error):
        frames = user_frames(item.__traceback__, path)
        if frames:
            return frames[-1].lineno or 0
    return 0


def _message_of(error: BaseException) -> str:
    if isinstance(error, RunnerError):
        return error.message
    text = _text(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _detail_of(error: BaseException, path: str) -> str:
    if isinstance(error, RunnerError) and error.detail:
        return error.detail
    frames = user_frames(error.__traceback__, path)
    places = [f"line {frame.lineno}, in {frame.name}\n    {frame.line}" for frame in frames[-8:]]
    return "\n".join([*places, f"{qualified_name(type(error))}: {_text(error)}"])


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception class of the candidate may fail to print itself
        return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
