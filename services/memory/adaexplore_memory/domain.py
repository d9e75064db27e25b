"""What the memory knows, as plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_RULE_CHARACTERS = 500
RULE_START = "You cannot "


class SkillKind(StrEnum):
    """What a skill tells."""

    PITFALL = "PITFALL"
    TECHNIQUE = "TECHNIQUE"


class SkillState(StrEnum):
    """Where a skill is in its life."""

    CANDIDATE = "CANDIDATE"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"


@dataclass(frozen=True)
class Scope:
    """Where a skill holds; an empty field means everywhere.

    Attributes:
        triton_versions: PEP 440 specifier.
        backend: `cuda` or `hip`.
        architectures: For example `sm_90`.
        operator_families: For example `softmax`.

    """

    triton_versions: str = ""
    backend: str = ""
    architectures: tuple[str, ...] = ()
    operator_families: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snippet:
    """A stand-alone Triton kernel with all that is needed to compile it.

    Attributes:
        source: Python source that defines one jit function.
        function_name: Name of that function.
        signature: Triton type of each argument by name, constexprs left out.
        constexprs: Values of constexpr arguments as Python literals.
        num_warps: Warps a program; 0 means 4.
        num_stages: Pipeline stages; 0 means the target's default.

    """

    source: str
    function_name: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, str]
    num_warps: int = 0
    num_stages: int = 0


@dataclass(frozen=True)
class Pattern:
    """A predicate over a kernel's syntax tree; exactly one field is set.

    Attributes:
        name_used: Dotted name as it resolves through imports, used inside a jit function.
        statement_kind: Node class inside a jit function, for example `Break`.

    """

    name_used: str = ""
    statement_kind: str = ""


@dataclass(frozen=True)
class Proof:
    """What the evaluator showed about a skill.

    Attributes:
        reproducer_failed: True if the reproducer failed.
        repair_index: First repair that compiled; None if none did.
        triton_version: Version it was shown on.
        target: Target it was shown for.
        prove_time_us: When, in microseconds since the epoch; 0 when unknown.

    """

    reproducer_failed: bool
    repair_index: int | None = None
    triton_version: str = ""
    target: str = ""
    prove_time_us: int = 0


@dataclass(frozen=True)
class Evidence:
    """What a skill rests on.

    Attributes:
        task_digests: Distinct tasks whose failures taught it.
        failure_ids: Recorded failures, the newest 100.
        failure_count: All recorded failures.
        signature: Groups failures that teach the same.
        reproducer: Smallest kernel that shows the failure.
        repairs: Kernels that do the same and may compile, the likeliest first.
        proof: What the evaluator showed, once it has.

    """

    task_digests: tuple[str, ...] = ()
    failure_ids: tuple[str, ...] = ()
    failure_count: int = 0
    signature: str = ""
    reproducer: Snippet | None = None
    repairs: tuple[Snippet, ...] = ()
    proof: Proof | None = None


@dataclass(frozen=True)
class Counters:
    """How often a skill was shown, broken although shown, and avoided because of it."""

    shown: int = 0
    broken: int = 0
    avoided: int = 0


@dataclass(frozen=True)
class Skill:
    """One thing the memory knows.

    Attributes:
        name: Resource name, `skills/{id}`.
        kind: Pitfall or technique.
        state: Where it is in its life.
        rule: One sentence; a pitfall begins with "You cannot".
        instead: What to do instead; may be empty.
        scope: Where it holds.
        evidence: What it rests on.
        patterns: Machine-checkable forms.
        counters: Use and effect.
        create_time_us: Microseconds since the epoch.
        update_time_us: Microseconds since the epoch.
        revision: Number of writes, the source of the etag.
        retire_reason: Why it was retired; empty otherwise.
        distilled: True if the memory wrote its sentences itself.

    """

    name: str
    kind: SkillKind
    state: SkillState
    rule: str
    instead: str = ""
    scope: Scope = field(default_factory=Scope)
    evidence: Evidence = field(default_factory=Evidence)
    patterns: tuple[Pattern, ...] = ()
    counters: Counters = field(default_factory=Counters)
    create_time_us: int = 0
    update_time_us: int = 0
    revision: int = 0
    retire_reason: str = ""
    distilled: bool = False

    @property
    def etag(self) -> str:
        """Tag that changes with every write."""
        return hashlib.sha256(f"{self.name}:{self.create_time_us}:{self.revision}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Lesson:
    """What the distiller read from one failure; becomes a skill.

    Attributes:
        signature: Groups failures that teach the same.
        rule: Our own sentence.
        instead: What to do instead.
        scope: Where it holds.
        patterns: Machine-checkable forms.
        reproducer: Smallest kernel that shows the failure.
        repairs: Kernels that do the same and may compile, the likeliest first.

    """

    signature: str
    rule: str
    instead: str
    scope: Scope = field(default_factory=Scope)
    patterns: tuple[Pattern, ...] = ()
    reproducer: Snippet | None = None
    repairs: tuple[Snippet, ...] = ()


@dataclass(frozen=True)
class FailureReport:
    """One evaluation that did not pass, with the source it speaks of.

    Attributes:
        request_id: Counts once.
        task_digest: The task.
        kernel_digest: The candidate.
        source: The candidate's Python source.
        verdict: Name of the verdict, `FAILED`, ….
        cause: Name of the cause, `COMPILE`, ….
        phase: Name of the phase, `CHECK`, ….
        exception_type: Qualified name of what was raised; empty if nothing was.
        message: The evaluator's line about it.
        detail: Text of the exception; data from the candidate.
        line: Line of the source, 1-based; 0 when unknown.
        excerpt: Source around the line.
        evaluator_signature: Signature that the evaluator gave it.
        kernel_name: Triton kernel in which it happened.
        device: `CPU` or `CUDA`; empty when unknown.
        target: Compile target.
        triton_version: Version of Triton.

    """

    request_id: str
    task_digest: str
    kernel_digest: str
    source: str
    verdict: str
    cause: str
    phase: str
    exception_type: str = ""
    message: str = ""
    detail: str = ""
    line: int = 0
    excerpt: str = ""
    evaluator_signature: str = ""
    kernel_name: str = ""
    device: str = ""
    target: str = ""
    triton_version: str = ""


@dataclass(frozen=True)
class RecordedFailure:
    """Answer to a recorded failure.

    Attributes:
        failure_id: Id of the record.
        skill: The skill it taught or supports, if any.
        created: True if this failure created it.
        proof_wanted: True if the skill should be tried on this version of Triton.

    """

    failure_id: str
    skill: Skill | None
    created: bool
    proof_wanted: bool


@dataclass(frozen=True)
class OutcomeReport:
    """What came of a generation that was shown skills.

    Attributes:
        request_id: Counts once.
        shown: Names of the skills shown.
        respected: Of these, the ones that changed a choice.
        failed: True if the candidate was evaluated and FAILED.
        kernel_digest: The candidate; empty if it was never evaluated.
        task_digest: The task; empty if it was never evaluated.

    """

    request_id: str
    shown: tuple[str, ...]
    respected: tuple[str, ...] = ()
    failed: bool = False
    kernel_digest: str = ""
    task_digest: str = ""


@dataclass(frozen=True)
class Environment:
    """What will compile a kernel.

    Attributes:
        triton_version: PEP 440 version; empty when unknown.
        target: For example `sm_90`; empty when unknown.

    """

    triton_version: str = ""
    target: str = ""

    @property
    def backend(self) -> str:
        """`cuda` or `hip`, from the target; empty when unknown."""
        if self.target.startswith("sm_"):
            return "cuda"
        return "hip" if self.target.startswith("gfx") else ""


@dataclass(frozen=True)
class Violation:
    """One place where a source breaks a rule.

    Attributes:
        skill: The rule.
        line: 1-based.
        excerpt: The source line.

    """

    skill: Skill
    line: int
    excerpt: str


@dataclass(frozen=True)
class Selected:
    """A skill that was selected, why, and what it costs in a prompt (estimated tokens)."""

    skill: Skill
    reason: str
    tokens: int


class ImportOutcome(StrEnum):
    """What became of a skill that was to be imported."""

    IMPORTED = "IMPORTED"
    KNOWN = "KNOWN"
    REFUSED = "REFUSED"


@dataclass(frozen=True)
class Imported:
    """What became of one skill: the outcome, the skill that was made or is known (empty if refused), and why it was refused."""

    outcome: ImportOutcome
    skill_name: str = ""
    message: str = ""


@dataclass(frozen=True)
class Stats:
    """What the memory holds.

    Attributes:
        skills: How many by kind and state.
        failures: By cause, how many were recorded and how many of them taught or support a skill.
        failed_tasks: Distinct tasks among the failures.
        proven_skills: Skills whose reproducer failed where it was last tried.
        outcomes: Generations whose outcome was recorded.
        counters: Sum over all skills.

    """

    skills: Mapping[tuple[SkillKind, SkillState], int]
    failures: Mapping[str, tuple[int, int]]
    failed_tasks: int
    proven_skills: int
    outcomes: int
    counters: Counters


def skill_name(key: str) -> str:
    """Return the resource name of the skill with this signature or rule; the same key always gives the same name."""
    return f"skills/{hashlib.sha256(key.encode()).hexdigest()[:12]}"
