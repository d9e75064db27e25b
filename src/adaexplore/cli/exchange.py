"""Rules as text: JSON Lines with their evidence, and the paper's `rule||score`."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator

from google.protobuf.json_format import ParseDict, ParseError

from adaexplore.cli.failures import CliError
from adaexplore.cli.output import message_json
from adaexplore.types.v1 import skill_pb2

MAX_BATCH = 500
_MAX_BATCH_BYTES = 2_500_000
_MAX_LINE_CHARACTERS = 1_000_000


class RuleFormat(enum.StrEnum):
    """How rules are written: `jsonl`, one JSON object with evidence a line; `text`, one `rule||score` a line."""

    JSONL = "jsonl"
    TEXT = "text"


def to_line(skill: skill_pb2.Skill, style: RuleFormat) -> str:
    """Return a rule as one line without its end; the score of `text` is the number of distinct tasks."""
    if style is RuleFormat.TEXT:
        return f"{skill.rule}||{len(skill.evidence.task_digests)}"
    return json.dumps(message_json(skill), ensure_ascii=False)


def from_lines(lines: Iterable[str], style: RuleFormat | None) -> Iterator[tuple[int, skill_pb2.Skill]]:
    """Yield the rules of a file with their line numbers; blank lines are passed over.

    Args:
        lines: The file's lines.
        style: How they are written; None tells it from each line.

    Raises:
        CliError: A line is no rule; the message names it.

    """
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("\ufeff")
        if not text:
            continue
        if len(text) > _MAX_LINE_CHARACTERS:
            raise CliError(f"line {number} has more than {_MAX_LINE_CHARACTERS:,} characters; it is no rule")
        as_json = text.startswith("{") if style is None else style is RuleFormat.JSONL
        yield number, _from_json(text, number) if as_json else _from_text(text, number)


def batches(skills: Iterable[tuple[int, skill_pb2.Skill]]) -> Iterator[list[tuple[int, skill_pb2.Skill]]]:
    """Yield rules in lists that one call takes."""
    batch: list[tuple[int, skill_pb2.Skill]] = []
    size = 0
    for number, skill in skills:
        if batch and (len(batch) == MAX_BATCH or size + skill.ByteSize() > _MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((number, skill))
        size += skill.ByteSize()
    if batch:
        yield batch


def _from_json(text: str, number: int) -> skill_pb2.Skill:
    try:
        return ParseDict(json.loads(text), skill_pb2.Skill(), ignore_unknown_fields=True)
    except (ValueError, ParseError, RecursionError) as error:
        raise CliError(f"line {number} is no rule as `rules export` writes it: {str(error).splitlines()[0][:200]}") from None


def _from_text(text: str, number: int) -> skill_pb2.Skill:
    rule, bars, score = text.rpartition("||")
    if not bars or not score.strip().isdecimal():
        raise CliError(f"line {number} is not `rule||score` with a number for the score")
    # The score counts failures of somebody else's tasks, so it is not taken over.
    return skill_pb2.Skill(kind=skill_pb2.SKILL_KIND_PITFALL, rule=rule.strip())
