"""What goes into the `templates` provider and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_generator.domain import ContextKernel, Move, Outcome, Skill, Violation
from adaexplore_generator.graph import TaskDescription


@dataclass(frozen=True)
class TemplateRequest:
    """One request; everything random follows from `seed`.

    `parents` are, for LOCAL, the kernels since the last structural node with the parent last; for STRUCTURAL, representatives of what was
    found so far. `precision` is the class in lower case (`fp32`, `tf32`, `bf16`, `fp16`, …); `track` is `any`, `no_vendor_library` or
    `triton_only`.
    """

    task_source: str
    task_name: str
    description: TaskDescription
    move: Move
    precision: str = "fp32"
    track: str = "any"
    parents: tuple[ContextKernel, ...] = ()
    skills: tuple[Skill, ...] = ()
    known_digests: frozenset[str] = frozenset()
    violations: tuple[Violation, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class TemplateProposal:
    """One proposal: a source with the recipe to continue from it, or, in `message`, why there is none."""

    outcome: Outcome
    source: str = ""
    recipe: str = ""
    summary: str = ""
    respected_skills: tuple[str, ...] = ()
    message: str = ""
