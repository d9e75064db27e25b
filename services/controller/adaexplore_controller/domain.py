"""What the controller speaks of: searches, steps, nodes, events.

Messages that it only passes on (a task, a skill, an evaluation) are kept in their wire form as `payload` (bytes; base64 in the store),
beside the few facts it acts on.
Names of verdicts, causes and phases are those of the protos without their prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

from pydantic import Base64UrlBytes as Payload

from adaexplore_controller.models import Ensemble
from adaexplore_controller.tree import Move, TreeNode


class Verdict(StrEnum):
    """Whether a candidate is right."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    REJECTED = "REJECTED"
    TASK_INVALID = "TASK_INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"


class Outcome(StrEnum):
    """What became of a generation; only KERNEL can be evaluated."""

    KERNEL = "KERNEL"
    NO_CODE = "NO_CODE"
    EMPTY = "EMPTY"
    TRUNCATED = "TRUNCATED"
    REFUSED = "REFUSED"
    INVALID_PYTHON = "INVALID_PYTHON"
    EDIT_MISMATCH = "EDIT_MISMATCH"
    DUPLICATE = "DUPLICATE"
    EXHAUSTED = "EXHAUSTED"
    COST_LIMIT = "COST_LIMIT"


class SearchState(StrEnum):
    """Where a search is in its life."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    INTERRUPTED = "INTERRUPTED"

    @property
    def ended(self) -> bool:
        """True if nothing continues a search in this state."""
        return self in (SearchState.SUCCEEDED, SearchState.FAILED, SearchState.CANCELLED)


class StopReason(StrEnum):
    """Why a search ended."""

    STEPS = "STEPS"
    WALL_TIME = "WALL_TIME"
    CANCELLED = "CANCELLED"
    TASK_INVALID = "TASK_INVALID"
    EXHAUSTED = "EXHAUSTED"
    ERROR = "ERROR"
    COST = "COST"


class Wish(StrEnum):
    """What a user wants of a search that a controller is driving."""

    NONE = "NONE"
    PAUSE = "PAUSE"
    CANCEL = "CANCEL"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One source file; `digest` is the SHA-256 of its normalised form, empty where nobody has computed it."""

    source: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """Name and settings of a policy; None takes the paper's value."""

    name: str = ""
    exploration: float | None = None
    expansion: float | None = None
    structural_probability: float | None = None


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """All that defines a search; `payload` is the whole of it, None for a wall time or a cost in micro-USD means no limit.

    `task_source` is the source of its task, empty in older searches; up to `max_in_flight` of its steps are made at one time.
    """

    payload: Payload
    seed: int
    max_steps: int
    max_wall_time_s: float | None = None
    policy: PolicySpec = PolicySpec()
    seed_kernels: tuple[Kernel, ...] = ()
    memory_off: bool = False
    max_cost_micro_usd: int | None = None
    task_source: str = ""
    ensemble: Ensemble | None = None
    max_in_flight: int = 1


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the evaluator found out about the task; `payload` is its whole answer, `message` says why an invalid task is invalid."""

    payload: Payload
    valid: bool
    task_digest: str
    message: str = ""
    triton_version: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money (micro-USD, None if a price is unknown).

    Calls whose usage never arrived count in `calls`, in the unconfirmed fields and, at their worst case, in the cost.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    cost_micro_usd: int | None = None
    cache_write_tokens: int = 0
    unconfirmed_calls: int = 0
    unconfirmed_tokens: int = 0
    unconfirmed_cost_micro_usd: int = 0

    def plus(self, other: Usage) -> Usage:
        """Return the sum; its cost is unknown as soon as calls of unknown cost are in it."""
        parts = [part for part in (self, other) if part.calls or part.cost_micro_usd is not None]
        costs = [part.cost_micro_usd for part in parts]
        known = [cost for cost in costs if cost is not None]
        sums = {item.name: getattr(self, item.name) + getattr(other, item.name) for item in fields(self) if item.name != "cost_micro_usd"}
        return Usage(**sums, cost_micro_usd=sum(known) if known and len(known) == len(costs) else None)


@dataclass(frozen=True, slots=True)
class GenerationEstimate:
    """What one generation can use at most and what it will probably use; `payload` is the generator's whole answer."""

    payload: Payload
    worst_case: Usage
    expected: Usage


@dataclass(frozen=True, slots=True)
class SearchEstimate:
    """What a search would use; of several models, the dearest.

    Attributes:
        generations: One generation of each move.
        expected: All steps, if all goes as expected.
        worst_case: The most that all steps can use.
        affordable_steps: Steps that the search's money allows if all goes as expected; None without a limit or a price.

    """

    generations: Mapping[Move, GenerationEstimate]
    expected: Usage
    worst_case: Usage
    affordable_steps: int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a generation produced; `recipe` belongs to the provider alone, `message` says why there is no usable kernel.

    `lost` means that a provider had the request and its reply never arrived.
    """

    outcome: Outcome
    kernel: Kernel | None = None
    recipe: str = ""
    summary: str = ""
    respected_skills: tuple[str, ...] = ()
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    prompt_digest: str = ""
    message: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why something failed.

    The exception's type, the diagnostic in which the evaluator folds numbers, paths and the source's names, and its last line unfolded.
    """

    exception_type: str = ""
    text: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the evaluator said about a candidate; latencies in microseconds, `speedup` over the best baseline, None if unknown."""

    payload: Payload
    verdict: Verdict
    cause: str = ""
    phase: str = ""
    message: str = ""
    kernel_digest: str = ""
    median_us: float | None = None
    speedup: float | None = None
    diagnosis: Diagnosis = Diagnosis()


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing the memory knows; `repairs` counts the repairs that `payload` carries."""

    payload: Payload
    name: str
    rule: str = ""
    active: bool = False
    has_reproducer: bool = False
    repairs: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """What compiling a rule's reproducer and repairs showed: it failed or did not, and the first repair that compiled, None if none did."""

    reproducer_failed: bool
    repair_index: int | None
    triton_version: str
    target: str
    prove_time: datetime


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a source breaks a rule; `line` is 1-based."""

    skill: str
    rule: str
    line: int


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a search's tree; `visits` and `reward_sum` are what was backed up through it so far.

    `member` is the index in the ensemble of the model that was asked, None without one.
    """

    step: int
    parent_step: int
    depth: int
    move: Move
    context_steps: tuple[int, ...]
    candidate: Candidate
    evaluation: Evaluation | None
    reward: float
    shown_skills: tuple[str, ...]
    create_time: datetime
    visits: int = 1
    reward_sum: float = 0.0
    member: int | None = None

    @property
    def passed(self) -> bool:
        """True if the candidate is right."""
        return self.evaluation is not None and self.evaluation.verdict is Verdict.PASSED

    @property
    def digest(self) -> str:
        """Digest of the kernel as the evaluator, else the generator, computed it; empty without a kernel."""
        found = self.evaluation.kernel_digest if self.evaluation else ""
        return found or (self.candidate.kernel.digest if self.candidate.kernel else "")

    def in_tree(self) -> TreeNode:
        """Return what a policy may know of it."""
        speedup = self.evaluation.speedup if self.evaluation else None
        has_kernel = self.candidate.outcome is Outcome.KERNEL
        return TreeNode(self.step, self.parent_step, self.move, self.reward, has_kernel, self.passed, speedup)


@dataclass(frozen=True, slots=True)
class Progress:
    """All of a search that changes while it runs; `best_step` is None without a PASSED node."""

    state: SearchState = SearchState.RUNNING
    stop_reason: StopReason | None = None
    error_message: str = ""
    steps: int = 0
    best_step: int | None = None
    best_speedup: float | None = None
    usage: Usage = Usage()
    end_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """A search as the store holds it; `number` orders searches by age, `spent_s` is the wall time of all its runs in seconds."""

    id: str
    number: int
    spec: SearchSpec
    progress: Progress
    facts: TaskFacts | None
    create_time: datetime
    last_sequence: int
    version: int
    wish: Wish
    spent_s: float

    @property
    def name(self) -> str:
        """Resource name."""
        return f"searches/{self.id}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """An expansion that gave nothing new: where, how, and what the generator said."""

    parent_step: int
    move: Move
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Selection:
    """What a step expands: the parent, the move and the steps of the kernels that the generator is shown.

    `context` belongs to LOCAL moves (oldest first, the parent last), `pool` to STRUCTURAL ones (in order of the path from the root).
    """

    parent_step: int
    move: Move
    context: tuple[int, ...] = ()
    pool: tuple[int, ...] = ()


class StepPhase(StrEnum):
    """What is known and stored of a step in flight."""

    PLANNED = "PLANNED"
    GENERATED = "GENERATED"
    CHECKED = "CHECKED"
    LEARNING = "LEARNING"
    PROVING = "PROVING"


@dataclass(frozen=True, slots=True)
class StepState:
    """A step in flight; whoever continues the search continues from it.

    `attempt` numbers the calls of the generator from 1, `sent_back` counts sources that broke a rule, `usage` sums earlier attempts,
    `learnt` is the rule to prove.
    """

    step: int
    phase: StepPhase
    selection: Selection
    attempt: int = 1
    sent_back: int = 0
    skills: tuple[Skill, ...] = ()
    violations: tuple[Violation, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    usage: Usage = Usage()
    candidate: Candidate | None = None
    evaluation: Evaluation | None = None
    learnt: Skill | None = None
    learnt_is_new: bool = False
    member: int | None = None

    @property
    def unrecorded(self) -> Usage:
        """What the step has used and no node counts yet."""
        if self.phase in (StepPhase.LEARNING, StepPhase.PROVING):
            return Usage()
        return self.usage.plus(self.candidate.usage) if self.candidate else self.usage
