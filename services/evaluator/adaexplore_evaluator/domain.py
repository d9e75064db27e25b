"""What the evaluator's server talks about: jobs, limits, identities. Neither torch nor a task is imported here."""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from adaexplore.runtime.sources import kernel_digest

MAX_SOURCE_BYTES = 1024 * 1024
DEFAULT_TARGET = "sm_90"
JsonObject = dict[str, object]


class StateMode(Enum):
    """How parameters are given to a candidate."""

    BY_NAME = "by_name"
    SEEDED = "seeded"


@dataclass(frozen=True)
class TaskSpec:
    """A task as it was sent.

    Attributes:
        name: File name for messages.
        source: Python source.
        format: `module`, `function`, or empty to recognise it.
        precision: `fp32`, `tf32`, `bf16` or `fp16`.
        track: `any`, `no_vendor_library` or `triton_only`.

    """

    name: str
    source: str
    format: str
    precision: str
    track: str

    @property
    def digest(self) -> str:
        """SHA-256 over source, format, precision and track, lower-case hex."""
        return hashlib.sha256("\0".join((self.source, self.format, self.precision, self.track)).encode()).hexdigest()

    def to_json(self) -> JsonObject:
        """The task as a referee takes it."""
        return {**vars(self), "digest": self.digest}


@dataclass(frozen=True)
class PhaseBudgets:
    """Seconds that each phase of one evaluation may take."""

    setup_s: float
    compile_s: float
    check_s: float
    timing_s: float


@dataclass(frozen=True)
class Place:
    """Where a job is done.

    Attributes:
        target: Compile target.
        device: `cpu` or `cuda`.
        gpu: Number of the GPU; None for any.

    """

    target: str
    device: str = "cpu"
    gpu: int | None = None

    def to_json(self) -> JsonObject:
        """The place as part of a job."""
        return {"target": self.target, "device": self.device, "gpu": self.gpu}


@dataclass(frozen=True)
class EvaluateJob:
    """One candidate to be judged.

    Attributes:
        request_id: Joins work in flight; empty for none.
        task: The task.
        kernel: Source of the candidate.
        place: Where it is judged.
        state_mode: How parameters are given.
        use_cache: Whether a cached result may answer.
        budgets: Time limits.
        sanitizer: Tool of compute-sanitizer for a candidate that passes; empty for none.
        profile: Whether one that passes is looked at more closely, which only a real device needs.

    """

    request_id: str
    task: TaskSpec
    kernel: str
    place: Place
    state_mode: StateMode
    use_cache: bool
    budgets: PhaseBudgets
    sanitizer: str = ""
    profile: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """What decides the result; software versions are those of this process and need no place in it."""
        limits = ",".join(f"{value:g}" for value in vars(self.budgets).values())
        place = ",".join(str(part) for part in vars(self.place).values())
        return kernel_digest(self.kernel), self.task.digest, place, self.state_mode.value, limits, self.sanitizer, str(self.profile)

    def to_json(self) -> JsonObject:
        """The job as a referee takes it."""
        return {
            "job": "evaluate",
            "task": self.task.to_json(),
            "kernel": self.kernel,
            **self.place.to_json(),
            "state_mode": self.state_mode.value,
            "limits": dict(vars(self.budgets)),
            "sanitizer": self.sanitizer,
            "profile": self.profile,
        }

    def to_counting_json(self) -> JsonObject:
        """The job of counting, without a GPU, what the candidate's launches do at full shape."""
        return self.to_json() | {"job": "count", "device": "cpu", "gpu": None}


@dataclass(frozen=True)
class DescribeJob:
    """One task to be described for a device."""

    task: TaskSpec
    place: Place

    def to_json(self) -> JsonObject:
        """The job as a referee takes it."""
        return {"job": "describe", "task": self.task.to_json(), **self.place.to_json()}


@dataclass(frozen=True)
class Snippet:
    """One stand-alone kernel, everything about its compilation stated."""

    source: str
    function_name: str
    signature: dict[str, str]
    constexprs: dict[str, object]
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class CompileJob:
    """One snippet to be compiled for a target."""

    snippet: Snippet
    target: str

    def to_json(self) -> JsonObject:
        """The job as a referee takes it."""
        return {"job": "compile", "snippet": dict(vars(self.snippet)), "target": self.target}


def harness_version() -> str:
    """Version of the distribution and a digest of this package's sources, so that verdicts of different harnesses never mix."""
    root = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return f"{importlib.metadata.version('adaexplore')}+{digest.hexdigest()[:12]}"
