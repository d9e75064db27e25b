"""Settings of the evaluator, from environment and flags."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from adaexplore.runtime.config import ServiceConfig
from adaexplore_evaluator.domain import PhaseBudgets

ENVIRONMENT_PREFIX = "ADAEXPLORE_EVALUATOR_"
_GIB = 1024**3


def _host_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _default_workers() -> int:
    cores = len(os.sched_getaffinity(0))
    return 1 if cores <= 2 else min(cores // 2, 8)


def _default_gpu_workers() -> int:
    return max(1, min(len(os.sched_getaffinity(0)) // 4, 4))


class EvaluatorConfig(ServiceConfig):
    """Settings of the evaluator; its results are caches in memory, so it keeps nothing in the state folder."""

    workers: int = Field(_default_workers(), ge=1, le=64, description="evaluations at one time")
    gpus: str = Field(
        "auto", pattern=r"^(auto|none|\d+(,\d+)*)$", description="GPUs to serve: `auto` for all, `none`, or numbers separated by commas"
    )
    gpu_workers: int = Field(
        _default_gpu_workers(), ge=1, le=16, description="evaluations at one time on each GPU; what is timed is alone on it"
    )
    queue: int = Field(64, ge=0, le=10_000, description="most jobs that wait for a worker")
    require_sandbox: Literal["namespaces", "process"] = Field("process", description="lowest isolation to serve at")
    runner_memory_bytes: int = Field(min(6 * _GIB, _host_memory_bytes() // 2), ge=_GIB, description="resident memory one runner may use")
    task_memory_bytes: int = Field(_GIB, ge=0, description="memory that one worker may keep of prepared tasks")
    judged_elements: int = Field(131_072, ge=1024, le=16_777_216, description="largest tensor of the shape at which numbers are judged")
    task_s: float = Field(180.0, gt=0, description="seconds to load, trace and audit a task")
    setup_s: float = Field(30.0, gt=0, description="seconds to import and construct a candidate, unless the request says less or more")
    compile_s: float = Field(60.0, gt=0, description="seconds to compile a candidate's kernels")
    check_s: float = Field(120.0, gt=0, description="seconds for all checks of a candidate")
    timing_s: float = Field(60.0, gt=0, description="seconds to time or estimate a candidate")
    longest_phase_s: float = Field(1800.0, gt=0, description="longest limit of a phase that a request may ask for, in seconds")
    cached_results: int = Field(4096, ge=0, description="results kept for repeated candidates")
    artifact_bytes: int = Field(256 * 1024 * 1024, ge=0, description="size of compiled artefacts kept for GetArtifact")
    scratch_root: Path | None = Field(None, description="folder for runners' private folders; shared memory by default")

    @property
    def budgets(self) -> PhaseBudgets:
        """Time limits of an evaluation that asks for none."""
        return PhaseBudgets(self.setup_s, self.compile_s, self.check_s, self.timing_s)
