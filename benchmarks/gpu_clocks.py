"""Times honest kernels between 5 µs and 5 ms on a GPU, each in several fresh processes, beside CUPTI's span of the same calls.

    python -m benchmarks.gpu_clocks [--repeats 5] [--only NAME;NAME]

Needs an NVIDIA GPU. Prints one row a kernel: median of the repeats, their largest relative deviation from it, CUPTI's span of one call, the
difference, and how many timings were INCONCLUSIVE.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import statistics
from pathlib import Path
from typing import Any

from adaexplore_evaluator.gpus import list_gpus
from adaexplore_evaluator.sandbox import GpuAccess, Limits, Sandbox, SandboxLevel

TASK = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {reference}


def get_inputs():
    return [torch.rand({shape})]


def get_init_inputs():
    return []
"""
KERNEL = """import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def kernel(x, y, n, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    for _ in range(TURNS):
        value = value * 0.5 + 1.0
    tl.store(y + at, value, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), TURNS={turns}, BLOCK=1024)
        return y
"""
REFERENCE = "(x - 2.0) * 0.5 ** {turns} + 2.0"
# Elements and turns of the loop.
CASES = {
    "1 Mi, 1": (1 << 20, 1),
    "2 Mi, 1": (1 << 21, 1),
    "4 Mi, 1": (1 << 22, 1),
    "8 Mi, 1": (1 << 23, 1),
    "32 Mi, 1": (1 << 25, 1),
    "64 Mi, 1": (1 << 26, 1),
    "128 Mi, 1": (1 << 27, 1),
    "32 Mi, 8": (1 << 25, 8),
    "512 Mi, 1": (1 << 29, 1),
    "1024 Mi, 1": (1 << 30, 1),
}


def job(name: str, elements: int, turns: int) -> dict[str, Any]:
    """The job that a referee takes."""
    source = TASK.format(reference=REFERENCE.format(turns=turns), shape=elements)
    task = {"name": f"{name}.py", "source": source, "format": "", "precision": "fp32", "track": "any"}
    task["digest"] = hashlib.sha256(source.encode()).hexdigest()
    limits = dict.fromkeys(("setup_s", "compile_s", "check_s", "timing_s"), 120.0)
    return {
        "job": "evaluate",
        "task": task,
        "kernel": KERNEL.format(turns=turns),
        "target": "sm_90",
        "state_mode": "by_name",
        "limits": limits,
    }


def row(name: str, found: list[dict[str, Any]]) -> str:
    """The table's row of one kernel."""
    timings = [item["timing"] for item in found]
    medians = [timing["median_us"] for timing in timings if "median_us" in timing]
    open_ones = [timing.get("cause", "")[13:] for timing in timings if "median_us" not in timing]
    if not medians:
        return f"{name:12} {found[0]['verdict']} {timings[0].get('explanation') or found[0].get('failure')}"
    middle = statistics.median(medians)
    spread = max(abs(value - middle) for value in medians) / middle
    span = statistics.median([timing["span_us"] for timing in timings if timing.get("span_us")] or [float("nan")])
    return (
        f"{name:12} {middle:10.2f} µs  ±{spread:6.2%}  span {span:10.2f} µs  {(middle - span) / span:+7.2%}  {len(open_ones)} {open_ones}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default=";".join(CASES), help="kernels, separated by semicolons")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    gpu = next(iter(list_gpus()), None)
    if gpu is None:
        raise SystemExit("no NVIDIA GPU on this host")
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu.uuid
    from adaexplore_evaluator.referee.cuda.site import cuda_jobs  # noqa: PLC0415 - imports CUDA, which reads the variable
    from adaexplore_evaluator.referee.jobs import JobSettings  # noqa: PLC0415

    access = GpuAccess(gpu.index, gpu.uuid)
    sandbox = Sandbox(SandboxLevel.PROCESS, Limits(memory_bytes=24 * 2**30), None, access)
    numbers = itertools.count()
    everything: dict[str, Any] = {}
    with cuda_jobs(sandbox, JobSettings(2**30, 131072, 300.0, 60.0, "bench"), access) as (fleet, jobs):
        for name in options.only.split(";"):
            found = []
            for _repeat in range(options.repeats):
                fleet.warm_up()
                found.append(jobs.do(next(numbers), job(name, *CASES[name]), lambda *_: None, lambda: False))
            everything[name] = found
            print(row(name, found), flush=True)
            if options.out:
                options.out.write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
