"""What counts as a failure that can teach, and how its text is made harmless."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from adaexplore_memory.domain import FailureReport

# Causes of FAILED that are the candidate's own doing. TIMEOUT is left out: a phase limit is ours, and a loaded machine reaches it too.
_CAUSES = (
    "SYNTAX CONTRACT COMPILE LAUNCH RUNTIME FAULT SHAPE DTYPE DEVICE NUMERIC SPECIAL_VALUES MEMORY NONDETERMINISTIC OUT_OF_MEMORY TRACK"
)
TEACHING_CAUSES = frozenset(_CAUSES.split())
TEACHING_PHASES = frozenset({"LOAD", "SETUP", "COMPILE", "TUNE", "CHECK"})
MAX_TEXT_CHARACTERS = 4_000
_MAX_DIAGNOSTIC_CHARACTERS = 600
_CARET_LINE = re.compile(r"^[ \t]*\^+[ \t]*$", re.MULTILINE)


def refusal(report: FailureReport) -> str:
    """Return why a report is not a lesson, in one sentence, or an empty string."""
    if report.verdict != "FAILED":
        return f"the verdict is {report.verdict}; only a FAILED candidate can teach something"
    if report.cause == "TIMEOUT":
        return "a TIMEOUT is a limit of ours and not a fault of the candidate's code alone"
    if report.cause not in TEACHING_CAUSES:
        return f"the cause {report.cause} is not a failure of the candidate's own code"
    if report.phase not in TEACHING_PHASES:
        return f"the verdict fell in the phase {report.phase}; only the phases from LOAD to CHECK run the candidate"
    return ""


def failure_id(request_id: str) -> str:
    """Return the id of the failure that a request records; the same request always gives the same id."""
    return hashlib.sha256(f"failure:{request_id}".encode()).hexdigest()[:16]


def clean(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return the last `limit` characters of a text without control and formatting characters; line breaks and tabs stay."""
    tail = text[-4 * limit :]
    return "".join(c for c in tail if c in "\n\t" or unicodedata.category(c)[0] != "C")[-limit:]


def diagnostic(report: FailureReport) -> str:
    """Return what the compiler or the exception says, without the source that it quotes.

    An error quotes the candidate, and a comment in a candidate can say anything; so only what stands below the last caret and after the
    last name of the exception is taken.
    """
    text = clean(report.detail) or clean(report.message)
    carets = list(_CARET_LINE.finditer(text))
    said = text[carets[-1].end() :] if carets else text
    marker = f"{report.exception_type.rpartition('.')[2]}: "
    if report.exception_type and marker in said:
        said = said[said.rindex(marker) + len(marker) :]
    return said.strip()[-_MAX_DIAGNOSTIC_CHARACTERS:]
