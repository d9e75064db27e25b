"""Checks a source against the patterns of rules, without running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adaexplore_memory.domain import Environment, Pattern, Skill, SkillKind, SkillState, Violation
from adaexplore_memory.patterns import sure_lines
from adaexplore_memory.select import in_scope
from adaexplore_memory.sources import ParsedSource, parse

_MAX_VIOLATIONS = 40


@dataclass(frozen=True)
class Lines:
    """A source that was read, and the lines where it surely matches each pattern."""

    source: ParsedSource
    lines: Mapping[Pattern, tuple[int, ...]]


def lines_of(text: str) -> Lines | None:
    """Return where a source matches patterns, or None if it is not Python that can be read."""
    source = parse(text)
    return Lines(source, sure_lines(source)) if source is not None else None


def check(found: Lines, skills: Iterable[Skill], environment: Environment) -> tuple[Violation, ...]:
    """Return where a source surely breaks ACTIVE rules that surely hold here, in order of line, one for a rule and line, at most 40."""
    broken = {
        (line, skill.name): skill
        for skill in skills
        if skill.state is SkillState.ACTIVE and skill.kind is SkillKind.PITFALL and in_scope(skill.scope, environment, certain=True)
        for pattern in skill.patterns
        for line in found.lines.get(pattern, ())
    }
    first = sorted(broken)[:_MAX_VIOLATIONS]
    return tuple(Violation(broken[key], key[0], found.source.line_text(key[0])) for key in first)
