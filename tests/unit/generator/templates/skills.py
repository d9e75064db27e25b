"""Rules of the kind that the memory learns: names that the installed Triton does not have."""

from __future__ import annotations

from adaexplore_generator.domain import Pattern, Skill

_MISSING = (
    *(f"triton.language.math.{name}" for name in ("tanh", "log1p", "expm1", "sigmoid", "round", "pow", "atan")),
    *(f"triton.language.{name}" for name in ("tanh", "log1p", "expm1", "pow")),
)


def pitfall(dotted: str) -> Skill:
    return Skill(f"skills/{dotted}", "PITFALL", f"You cannot use {dotted}.", patterns=(Pattern(name_used=dotted),))


KNOWN_PITFALLS = tuple(pitfall(name) for name in _MISSING)
