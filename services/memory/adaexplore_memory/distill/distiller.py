"""Asks each family in turn what a failure teaches."""

from __future__ import annotations

import re
from collections.abc import Callable

from adaexplore_memory.distill.blocks import refused_block
from adaexplore_memory.distill.constructs import unsupported
from adaexplore_memory.distill.diagnosis import Diagnosis, diagnose
from adaexplore_memory.distill.host import from_cause, launch, torch_error
from adaexplore_memory.distill.names import branch_variable, builtin_call, host_function, missing_name, tensor_method
from adaexplore_memory.domain import FailureReport, Lesson

_IDENTIFIER = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d_][^\WA-Z\d_]*")
_MOST_WORDS = 6
Teacher = Callable[[Diagnosis], Lesson | None]
_COMPILER: tuple[Teacher, ...] = (missing_name, unsupported, refused_block, tensor_method, host_function, builtin_call, branch_variable)
# An import fails before anything is compiled, so a missing name may also show as a run-time error of the file.
_RUNTIME: tuple[Teacher, ...] = (missing_name, torch_error)
_BY_CAUSE: dict[str, tuple[Teacher, ...]] = {"COMPILE": _COMPILER, "RUNTIME": _RUNTIME, "LAUNCH": (launch,)}


def distill(report: FailureReport) -> Lesson | None:
    """Return what a failure teaches, or None.

    The cause decides which families are asked, since it follows from structure; wrong values teach nothing that one sentence could say.
    """
    found = diagnose(report)
    if found is None:
        return None
    teachers = _BY_CAUSE.get(report.cause, (from_cause,))
    lesson = next((lesson for teacher in teachers if (lesson := teacher(found)) is not None), None)
    return None if lesson is None or _tells_a_story(f"{lesson.rule} {lesson.instead}") else lesson


def _tells_a_story(text: str) -> bool:
    """Whether an identifier in a text has more words than names of functions have: a candidate can name what it calls as it likes."""
    return any(len(_WORD.findall(identifier)) > _MOST_WORDS for identifier in _IDENTIFIER.findall(text))
