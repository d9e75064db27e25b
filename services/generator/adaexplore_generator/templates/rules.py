"""What the memory's rules forbid: spellings by the names they use, sources by the statements in their kernels."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from adaexplore_generator.domain import Skill
from adaexplore_generator.templates.functions import Spelling


def forbidding(skills: Sequence[Skill], spelling: Spelling) -> tuple[str, ...]:
    """Names of the skills that forbid a spelling."""
    return tuple(
        skill.name for skill in skills if any(_uses(name, pattern.name_used) for pattern in skill.patterns for name in spelling.names)
    )


def _uses(name: str, pattern: str) -> bool:
    """Whether a dotted name is what a pattern names; libdevice has several homes and is known by its last two parts."""
    if not pattern:
        return False
    if name == pattern or name.startswith(f"{pattern}."):
        return True
    parts = name.split(".")
    return parts[-2] == "libdevice" and pattern.split(".")[-2:] == parts[-2:]


def broken_by(skills: Sequence[Skill], source: str) -> tuple[str, ...]:
    """Names of the skills whose statement kind occurs in a `@triton.jit` function of a source."""
    if not any(pattern.statement_kind for skill in skills for pattern in skill.patterns):
        return ()
    kinds = {type(node).__name__ for function in _kernels(source) for node in ast.walk(function)}
    return tuple(
        skill.name for skill in skills if any(pattern.statement_kind and pattern.statement_kind in kinds for pattern in skill.patterns)
    )


def _kernels(source: str) -> list[ast.FunctionDef]:
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [node for node in functions if any(ast.unparse(decorator) == "triton.jit" for decorator in node.decorator_list)]
