"""Reads small answers out of replies: rules, judgements. What is not as asked for becomes "nothing", never a guess."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from adaexplore_generator.extract import one_line, visible_text

_MAX_RULE_CHARS = 500
_RULE = re.compile(r"^[\s>*\-\"'`]*(You cannot\b.*)$", re.IGNORECASE | re.MULTILINE)
_INSTEAD = re.compile(r"^[\s>*\-\"'`]*Instead\b\**\s*[:,]\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'`*]*\s+(?=[A-Z\"`(])")


@dataclass(frozen=True)
class Rule:
    """A rule and what to do instead; both are empty if the reply teaches nothing."""

    rule: str = ""
    instead: str = ""


@dataclass(frozen=True)
class Verdict:
    """Index of the rule that says the same, None if none does, and the confidence between 0 and 1."""

    duplicate_of: int | None
    confidence: float


def read_rule(reply: str) -> Rule:
    """Return the first sentence that begins with "You cannot", at most 500 characters; nothing if there is none."""
    text = visible_text(reply)
    found = _RULE.search(text)
    if found is None:
        return Rule()
    sentences = _SENTENCE_END.split(found.group(1).strip())
    sentence = "You cannot" + _without_quotes(sentences[0])[len("You cannot") :]
    same_line = next((item for item in sentences[1:] if item.lower().startswith("instead")), "")
    instead = _INSTEAD.search(same_line) or _INSTEAD.search(text, found.end())
    return Rule(one_line(sentence, _MAX_RULE_CHARS), one_line(_without_quotes(instead.group(1)), _MAX_RULE_CHARS) if instead else "")


def read_verdict(reply: str, count: int) -> Verdict:
    """Return a judgement over `count` known rules; no duplicate, with confidence 0, if the reply cannot be read as one."""
    decoder = json.JSONDecoder()
    text = visible_text(reply)
    for start in (match.start() for match in re.finditer(r"\{", text)):
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "duplicate_of" in value:
            return _checked(value["duplicate_of"], value.get("confidence"), count)
    return Verdict(None, 0.0)


def _checked(index: object, confidence: object, count: int) -> Verdict:
    sure = float(confidence) if isinstance(confidence, int | float) and not isinstance(confidence, bool) else 0.0
    sure = sure if 0.0 <= sure <= 1.0 else 0.0
    if index is None:
        return Verdict(None, sure)
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
        return Verdict(None, 0.0)
    return Verdict(index, sure)


def _without_quotes(text: str) -> str:
    return text.strip().strip("\"'`*").strip()
