"""What happens to a search, as its watchers hear it and the store keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from adaexplore_controller.domain import Progress, Skill
from adaexplore_controller.tree import Move


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The search has changed its state."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step has begun."""

    step: int
    parent_step: int
    move: Move


@dataclass(frozen=True, slots=True)
class StepProgress:
    """A step has reached a stage: `generating`, `checking_source`, `evaluating` or `learning`."""

    step: int
    stage: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecorded:
    """A node was recorded; `best` if it is the best so far."""

    step: int
    best: bool


@dataclass(frozen=True, slots=True)
class SkillLearnt:
    """The memory learnt something from the failure of a step."""

    skill: Skill
    step: int


@dataclass(frozen=True, slots=True)
class SkillRespected:
    """A rule changed a choice of the generator, or (`by_check`) a source was sent back because of it."""

    skill: str
    rule: str
    step: int
    by_check: bool


EventBody = StateChanged | StepStarted | StepProgress | NodeRecorded | SkillLearnt | SkillRespected


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a search; sequences run from 1 without gaps."""

    sequence: int
    time: datetime
    body: EventBody
