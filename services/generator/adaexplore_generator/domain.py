"""What the generator speaks of, free of protos: requests, replies, candidates and usage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from adaexplore_generator.digests import sha256_of
from adaexplore_generator.graph import TaskDescription

DEFAULT_TEMPERATURE = 1.0
DEFAULT_MAX_OUTPUT_TOKENS = 16_384


class Move(Enum):
    """How far a proposal departs from its parent."""

    LOCAL = "local"
    STRUCTURAL = "structural"


class Outcome(Enum):
    """What became of a generation; the value is the name in the API."""

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


class FinishReason(Enum):
    """Why a model stopped."""

    STOP = "stop"
    LENGTH = "length"
    FILTERED = "filtered"


@dataclass(frozen=True)
class Task:
    """A task as the caller states it; `precision` and `track` are names in lower case, for example `fp32` and `triton_only`."""

    name: str
    source: str
    format: str = ""
    precision: str = "fp32"
    track: str = "any"


@dataclass(frozen=True)
class Device:
    """Where candidates are judged: `cpu`, `cuda` or empty, and the compile target, for example `sm_90`."""

    kind: str = ""
    target: str = ""


@dataclass(frozen=True)
class Baseline:
    """Latency of the reference, run as `eager` or `compiled`."""

    kind: str
    median_us: float
    launches: int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel launch as the evaluator reports it; None stands for what does not exist."""

    name: str
    count: int = 1
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    latency_us: float | None = None
    bound_by: str = ""
    dram_bytes: float = 0.0
    time_share: float | None = None

    @property
    def weight(self) -> float | None:
        """What it counts for in the time of one call, in a unit that the launches of one evaluation share; None if unknown."""
        if self.time_share is not None:
            return self.time_share
        return None if self.latency_us is None else self.count * self.latency_us


@dataclass(frozen=True)
class Feedback:
    """What the evaluator said about one kernel; `verdict`, `cause`, `phase` are names of the API without prefix."""

    verdict: str
    cause: str = ""
    phase: str = ""
    message: str = ""
    exception_type: str = ""
    detail: str = ""
    line: int = 0
    excerpt: str = ""
    timing: str = ""
    median_us: float | None = None
    speedup: float | None = None
    explanation: str = ""
    roofline_share: float | None = None
    launches: tuple[Launch, ...] = ()
    profile: str = ""

    @property
    def passed(self) -> bool:
        """True if the kernel is right."""
        return self.verdict == "PASSED"


@dataclass(frozen=True)
class ContextKernel:
    """A kernel shown to the generator, with what is known of it."""

    source: str
    digest: str = ""
    feedback: Feedback | None = None
    recipe: str = ""


@dataclass(frozen=True)
class Pattern:
    """What breaks a rule: the use of a dotted name, or a statement kind inside a kernel."""

    name_used: str = ""
    statement_kind: str = ""


@dataclass(frozen=True)
class Skill:
    """A rule or technique to respect and use; `kind` is `PITFALL` or `TECHNIQUE`, `repairs` are sources that do the same and compile."""

    name: str
    kind: str
    rule: str
    instead: str = ""
    patterns: tuple[Pattern, ...] = ()
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    """A rule that the last attempt of the same step broke."""

    skill: str
    rule: str
    line: int = 0


@dataclass(frozen=True)
class Sampling:
    """Which model answers, and how; an empty provider or model means the default one, an empty effort leaves it to the model."""

    provider: str = ""
    model: str = ""
    temperature: float = DEFAULT_TEMPERATURE
    max_output_tokens: int = DEFAULT_MAX_OUTPUT_TOKENS
    seed: int = 0
    reasoning_effort: str = ""


@dataclass(frozen=True)
class GenerateRequest:
    """One request for a candidate."""

    request_id: str
    task: Task
    description: TaskDescription
    move: Move
    device: Device = Device()
    baselines: tuple[Baseline, ...] = ()
    context: tuple[ContextKernel, ...] = ()
    pool: tuple[ContextKernel, ...] = ()
    skills: tuple[Skill, ...] = ()
    known_digests: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    sampling: Sampling = Sampling()
    max_cost_micro_usd: int | None = None


@dataclass(frozen=True)
class DistillRequest:
    """One request to word a rule from a failure."""

    request_id: str
    kernel: ContextKernel
    sampling: Sampling = Sampling()
    max_cost_micro_usd: int | None = None


@dataclass(frozen=True)
class JudgeRequest:
    """One request to say whether a rule repeats a known one."""

    request_id: str
    rule: str
    known_rules: tuple[str, ...]
    sampling: Sampling = Sampling()
    max_cost_micro_usd: int | None = None


@dataclass(frozen=True)
class SynthesizeRequest:
    """One request for a new task in the manner of the seed tasks."""

    request_id: str
    seed_tasks: tuple[Task, ...] = ()
    operators: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    max_cost_micro_usd: int | None = None


ModelRequest = GenerateRequest | DistillRequest | JudgeRequest | SynthesizeRequest


@dataclass(frozen=True)
class Usage:
    """Tokens and money of a request; `cost_micro_usd` is None where the price is unknown, never 0 in its place.

    Token counts are the provider's own; an endpoint that reports none estimates them at four bytes of UTF-8 a token and sets `estimated`.
    Calls whose usage never arrived count in `calls`, in the three unconfirmed fields and, at their worst case, in the cost.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    cost_micro_usd: int | None = 0
    estimated: bool = False
    cache_write_tokens: int = 0
    unconfirmed_calls: int = 0
    unconfirmed_tokens: int = 0
    unconfirmed_cost_micro_usd: int = 0

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_micro_usd is not None and other.cost_micro_usd is not None
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.calls + other.calls,
            (self.cost_micro_usd or 0) + (other.cost_micro_usd or 0) if known else None,
            self.estimated or other.estimated,
            self.cache_write_tokens + other.cache_write_tokens,
            self.unconfirmed_calls + other.unconfirmed_calls,
            self.unconfirmed_tokens + other.unconfirmed_tokens,
            self.unconfirmed_cost_micro_usd + other.unconfirmed_cost_micro_usd,
        )

    @property
    def tokens(self) -> int:
        """Tokens of prompts and replies together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class Message:
    """One message of a prompt; `role` is `system` or `user`."""

    role: str
    content: str


@dataclass(frozen=True)
class Prompt:
    """The messages of one call, the part that stays the same first."""

    messages: tuple[Message, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over roles and contents, lower-case hex."""
        return sha256_of([[message.role, message.content] for message in self.messages])


@dataclass(frozen=True)
class Reply:
    """One reply of a model; `refusal` is what it said when it refused, `prompt_digest` names the prompt it answers."""

    text: str
    finish: FinishReason
    model: str
    usage: Usage
    refusal: str = ""
    prompt_digest: str = ""


@dataclass(frozen=True)
class Candidate:
    """What a generation produced; `source` may be set for outcomes other than KERNEL too."""

    outcome: Outcome
    provider: str
    source: str = ""
    digest: str = ""
    recipe: str = ""
    summary: str = ""
    respected_skills: tuple[str, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    prompt_digest: str = ""
    message: str = ""


@dataclass(frozen=True)
class Progress:
    """How far a generation has come; `received_chars` counts all text received for it so far."""

    stage: str
    received_chars: int = 0


@dataclass(frozen=True)
class DistilledRule:
    """A rule worded by a model; `rule` is empty if the failure teaches nothing."""

    rule: str
    instead: str
    usage: Usage


@dataclass(frozen=True)
class Judgement:
    """Whether a rule repeats a known one; `confidence` is between 0 and 1."""

    duplicate_of: int | None
    confidence: float
    usage: Usage


@dataclass(frozen=True)
class SynthesizedTask:
    """A task written by a model; None if the reply holds none."""

    task: Task | None
    usage: Usage


@dataclass(frozen=True)
class ModelPrice:
    """What a model costs in micro-USD per million tokens, and when and where that was looked up."""

    input: int
    cached: int
    cache_write: int
    output: int
    date: str
    source: str


@dataclass(frozen=True)
class UsageEstimate:
    """What a generation can use at most and what it will probably use; `model` is empty if the endpoint chooses it."""

    provider: str
    model: str = ""
    worst_case: Usage = Usage()
    expected: Usage = Usage()
    price: ModelPrice | None = None


@dataclass(frozen=True)
class ModelInfo:
    """A model that can be named in a request; `free` if it needs neither key nor money, `price` None if that is unknown."""

    provider: str
    model: str
    free: bool
    price: ModelPrice | None = None
