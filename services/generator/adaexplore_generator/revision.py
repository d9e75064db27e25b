"""What a reply that was asked for edits makes of a kernel: edits, a whole function, or the whole file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adaexplore_generator.domain import FinishReason, Outcome, Reply
from adaexplore_generator.edits import (
    Edit,
    Misfit,
    MisfitError,
    ParsedEdits,
    apply_edits,
    code_beside,
    is_whole_file,
    parse_edits,
    with_definitions,
)
from adaexplore_generator.extract import (
    Extraction,
    extract_code,
    one_line,
    prose_of,
    python_blocks,
    python_problem,
    visible_text,
)

_FIRST_MARKER = re.compile(r"^[ \t]*(?:<{3,}|@@|--- |<(?:search|old|original)\b)", re.MULTILINE | re.IGNORECASE)

# More edits than these that do not fit are no slip, and a short prompt cannot show them.
MOST_REPAIRED = 4


@dataclass(frozen=True)
class Revision:
    """What became of a reply.

    Attributes:
        found: Outcome and code.
        misfits: Edits that could not be applied; a short call may repair them. Empty for every outcome but EDIT_MISMATCH.
        fitting: Edits of the same reply that could have been applied.

    """

    found: Extraction
    misfits: tuple[Misfit, ...] = ()
    fitting: tuple[Edit, ...] = ()

    @property
    def repairable(self) -> bool:
        """True if there are edits that a short call may repair."""
        return 0 < len(self.misfits) <= MOST_REPAIRED


def revise(reply: Reply, source: str, entry_points: Sequence[str], kept: Sequence[Edit] = ()) -> Revision:
    """Return what a reply makes of a kernel.

    Args:
        reply: The reply.
        source: The kernel.
        entry_points: Names one of which a whole file defines.
        kept: Edits of an earlier reply that fit; they are applied together with those of this one.

    """
    text = visible_text(reply.text)
    stopped = bool(reply.refusal) or reply.finish is FinishReason.FILTERED
    parsed = ParsedEdits(()) if stopped else parse_edits(text, source)
    if len(parsed.edits) == 1 and not "".join(parsed.edits[0].search).strip() and not parsed.problem:
        # With nothing to find, some models put the whole file in its place.
        parsed, reply = ParsedEdits(()), replace(reply, text="\n".join(["```python", *parsed.edits[0].replace, "```"]))
    if not parsed.edits and not parsed.problem:
        return _rewritten(reply, source, entry_points, kept)
    summary = prose_of(_FIRST_MARKER.split(text, maxsplit=1)[0])
    if reply.finish is FinishReason.LENGTH:
        problem = parsed.problem or "more edits may have been to come"
        return Revision(Extraction(Outcome.TRUNCATED, message=f"the reply was cut at the token limit: {problem}", prose=summary))
    return _edited(text, source, parsed, (*kept, *parsed.edits), summary)


def _edited(text: str, source: str, parsed: ParsedEdits, edits: Sequence[Edit], summary: str) -> Revision:
    applied = apply_edits(source, edits)
    misfits = [*applied.misfits, *([Misfit(0, parsed.problem)] if parsed.problem else [])]
    if misfits or applied.source is None:
        return _mismatch(misfits, applied.fitting if applied.misfits else edits, summary)
    if beside := code_beside([block.text for block in python_blocks(text)], (source, applied.source)):
        reason = f"the reply defines `{beside}` beside its edits, otherwise than they do; answer with edits only"
        return _mismatch([Misfit(0, reason)], (), summary)
    if not applied.source.strip():
        return Revision(Extraction(Outcome.NO_CODE, message="the edits leave nothing of the kernel", prose=summary))
    broken = python_problem(applied.source)
    if broken:
        message = one_line(f"the edited code is not Python: {broken}")
        return Revision(Extraction(Outcome.INVALID_PYTHON, applied.source, message, summary))
    return Revision(Extraction(Outcome.KERNEL, applied.source, prose=summary))


def _mismatch(misfits: Sequence[Misfit], fitting: Sequence[Edit], summary: str) -> Revision:
    message = one_line(f"edits do not fit: {'; '.join(map(str, misfits))}")
    return Revision(Extraction(Outcome.EDIT_MISMATCH, message=message, prose=summary), tuple(misfits), tuple(fitting))


def _rewritten(reply: Reply, source: str, entry_points: Sequence[str], kept: Sequence[Edit]) -> Revision:
    """Return what a reply without edits is worth: some models answer with code in full instead."""
    found = extract_code(reply, entry_points)
    if found.outcome is not Outcome.KERNEL:
        return Revision(found)
    blocks = python_blocks(visible_text(reply.text))
    if any(not block.closed for block in blocks):
        return _mismatch([Misfit(0, "its code block is not closed; the reply may have been cut")], kept, found.prose)
    if kept:
        return _mismatch([Misfit(0, "the reply has code but no edits")], kept, found.prose)
    try:
        whole = is_whole_file(source, found.source, entry_points)
        code = found.source if whole else with_definitions(source, [block.text for block in blocks] or [found.source])
    except MisfitError as error:
        return _mismatch([Misfit(0, error.reason)], (), found.prose)
    broken = python_problem(code)
    if broken:
        return _mismatch([Misfit(0, f"the kernel is no Python with the code: {broken}")], (), found.prose)
    return Revision(Extraction(Outcome.KERNEL, code, prose=found.prose))
