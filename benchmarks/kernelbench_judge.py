"""Judges one kernel in a process of its own by the functions of a KernelBench checkout, as its script `run_and_check.py` does.

    python benchmarks/kernelbench_judge.py SPAWNED TASK KERNEL CHECKOUT

Five draws of inputs, a hundred timings, then eager PyTorch and torch.compile a hundred times each. It needs a GPU, and what the checkout
imports. It prints the JSON of `fresh_judge`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from fresh_judge import Stages

DRAWS, TIMINGS = 5, 100


def judge(task: str, kernel: str, stages: Stages) -> str:
    """Why a candidate does not pass; empty if it does."""
    import torch  # noqa: PLC0415 - its import is a stage
    from kernelbench.eval import eval_kernel_against_ref  # noqa: PLC0415 - likewise
    from kernelbench.timing import measure_ref_program_time  # noqa: PLC0415 - likewise

    device = torch.device("cuda:0")
    torch.zeros(1, device=device)
    stages.end("imports")
    with tempfile.TemporaryDirectory() as build:
        found = eval_kernel_against_ref(
            *(task, kernel),
            **{"num_correct_trials": DRAWS, "num_perf_trials": TIMINGS, "measure_performance": True, "backend": "triton"},
            **{"build_dir": build, "device": device, "precision": torch.float32},
        )
    stages.end("checks and timing")
    for compiled in (False, True):
        measure_ref_program_time("reference", task, num_trials=TIMINGS, use_torch_compile=compiled, device=device, precision="fp32")
    stages.end("baselines")
    if found is None:
        return "no result"
    return "" if found.correctness else str(found.metadata)[:300]


def main() -> None:
    spawned_s, task, kernel, checkout = float(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    sys.path.insert(0, str(checkout / "src"))
    stages = Stages(spawned_s)
    try:
        message = judge(task.read_text(), kernel.read_text(), stages)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"[:300]
    stages.end("end")
    print(json.dumps({"passed": not message, "message": message, "stages": stages.seconds}))


if __name__ == "__main__":
    main()
