"""Judges one kernel in a process of its own, as a harness does that starts one a candidate: imports, reference, checks, timing, baseline.

    python benchmarks/fresh_judge.py SPAWNED TASK KERNEL DEVICE

It does what AdaExplore's judge does for each candidate: both sides built from seed 42, five draws of inputs compared within 5e-2, ten
warm-ups and a hundred timings of the candidate, and the same of eager PyTorch, TF32 off. SPAWNED is the monotonic clock when the process
was started. It prints one JSON object: `passed`, `message`, and seconds by stage.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED, DRAWS, TOLERANCE = 42, 5, 5e-2
WARM_UPS, TIMINGS = 10, 100
# Without a GPU the interpreter runs kernels, and only that all of it works can be shown.
CPU_TIMINGS = 2


class Stages:
    """Seconds by stage, each from the end of the one before."""

    def __init__(self, start_s: float) -> None:
        self._last_s = start_s
        self.seconds: dict[str, float] = {}

    def end(self, name: str) -> None:
        """End a stage now."""
        now_s = time.monotonic()
        self.seconds[name], self._last_s = now_s - self._last_s, now_s


def loaded(path: Path, name: str) -> Any:
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def seeded(torch: Any, make: Callable[[], Any]) -> Any:
    """What is made right after all generators were seeded."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    return make()


def timed(torch: Any, call: Callable[[], Any], device: str) -> list[float]:
    """Milliseconds of calls, by events on a GPU."""
    for _ in range(WARM_UPS if device == "cuda" else 1):
        call()
    found = []
    for _ in range(TIMINGS if device == "cuda" else CPU_TIMINGS):
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(end))
        else:
            start_s = time.perf_counter()
            call()
            found.append(1e3 * (time.perf_counter() - start_s))
    return found


def judge(task: Path, kernel: Path, device: str, stages: Stages) -> str:
    """Why a candidate does not pass; empty if it does."""
    import torch  # noqa: PLC0415 - its import is a stage
    import triton  # noqa: F401, PLC0415 - likewise

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.zeros(1, device=device)
    stages.end("imports")
    reference = loaded(task, "task")
    arguments = [item.to(device) if isinstance(item, torch.Tensor) else item for item in reference.get_init_inputs()]

    def inputs() -> list[Any]:
        return [item.to(device) if isinstance(item, torch.Tensor) else item for item in reference.get_inputs()]

    with torch.no_grad():
        right = seeded(torch, lambda: reference.Model(*arguments)).to(device)
        stages.end("reference")
        candidate = seeded(torch, lambda: loaded(kernel, "candidate").ModelNew(*arguments)).to(device)
        stages.end("candidate")
        torch.manual_seed(SEED)
        for _ in range(DRAWS):
            given = inputs()
            wanted, found = right(*given), candidate(*given)
            if wanted.shape != found.shape or not torch.allclose(wanted, found, atol=TOLERANCE, rtol=TOLERANCE):
                return "another answer"
        stages.end("checks")
        given = inputs()
        timed(torch, lambda: candidate(*given), device)
        stages.end("timing")
        timed(torch, lambda: right(*given), device)
        stages.end("baselines")
    return ""


def main() -> None:
    spawned_s, task, kernel, device = float(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    stages = Stages(spawned_s)
    try:
        message = judge(task, kernel, device, stages)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"[:300]
    stages.end("end")
    print(json.dumps({"passed": not message, "message": message, "stages": stages.seconds}))


if __name__ == "__main__":
    main()
