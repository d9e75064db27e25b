"""Checks a source against the patterns of rules, without running it."""

from __future__ import annotations

from collections.abc import Iterable

from adaexplore_memory.domain import Environment, Skill, SkillKind, SkillState, Violation
from adaexplore_memory.patterns import sure_lines
from adaexplore_memory.select import in_scope
from adaexplore_memory.sources import parse

_MAX_VIOLATIONS = 40


def check(text: str, skills: Iterable[Skill], environment: Environment) -> tuple[Violation, ...]:
    """Return where a source surely breaks ACTIVE rules that surely hold here, in order of line, one for a rule and line, at most 40.

    A source that is not Python has no violations.
    """
    source = parse(text)
    if source is None:
        return ()
    lines = sure_lines(source)
    found = {
        (line, skill.name): skill
        for skill in skills
        if skill.state is SkillState.ACTIVE and skill.kind is SkillKind.PITFALL and in_scope(skill.scope, environment, certain=True)
        for pattern in skill.patterns
        for line in lines.get(pattern, ())
    }
    first = sorted(found)[:_MAX_VIOLATIONS]
    return tuple(Violation(found[key], key[0], source.line_text(key[0])) for key in first)
