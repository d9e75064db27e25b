"""Measures on a real GPU kernels that the product's own templates wrote for the example tasks (estimate_recipes.py writes them).

    python benchmarks/estimate_candidates.py FOLDER OUT_FOLDER [--budget-s 300]

Needs torch and triton alone. Compiles in parallel, checks each candidate against its task and times it as estimate_vs_gpu.py does.
Writes OUT_FOLDER/estimate_candidates.json: the median latency in microseconds by task and precision class, and by recipe.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import torch
import triton

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.estimate_vs_gpu import GpuClock, load_task  # found beside this file, wherever it is run from

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
WORKERS = 12
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# Largest difference from the task's result that is no error, in units of the largest result; its numbers are judged elsewhere.
LOOSE = {"fp32": 1e-3, "tf32": 2e-2, "bf16": 5e-2, "fp16": 2e-2}
Record = dict[str, Any]


def cast(value: Any, precision: str) -> Any:
    """Floating point values of a narrower class in its type."""
    dtype = DTYPES.get(precision)
    return value.to(dtype) if dtype and (not isinstance(value, torch.Tensor) or value.is_floating_point()) else value


def load(path: Path) -> Any:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare(record: Record, folder: Path) -> tuple[Any, Any, list[Any]]:
    """The task's model, the candidate with its state, and the inputs, on the GPU."""
    task = EXAMPLES / f"{record['task']}.py"
    model, inputs = load_task(task)
    model = cast(model, record["precision"])
    with torch.device("cuda"):
        candidate = cast(load(folder / record["file"]).ModelNew(*load(task).get_init_inputs()), record["precision"])
    candidate.load_state_dict(model.state_dict(), strict=False)
    getattr(candidate, "after_load", lambda: None)()
    return model, candidate, [cast(value, record["precision"]) for value in inputs]


def compile_one(job: tuple[Record, Path]) -> None:
    """Call a candidate once, so that Triton's cache holds its kernels; what fails fails again where it is reported."""
    with contextlib.suppress(Exception), torch.no_grad():
        _, candidate, inputs = prepare(*job)
        candidate(*inputs)
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


def compile_all(records: list[Record], folder: Path, until: float) -> set[str]:
    """Compile in parallel; the files that were done in time."""
    done: set[str] = set()
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pending = {record["file"]: pool.apply_async(compile_one, ((record, folder),)) for record in records}
        while pending and time.monotonic() < until:
            ready = [name for name, result in pending.items() if result.ready()]
            done.update(ready)
            for name in ready:
                del pending[name]
            time.sleep(0.2)
        pool.terminate()
    return done


def measure(record: Record, folder: Path, clock: GpuClock) -> Record:
    """Latency of one candidate in microseconds, or why it has none."""
    model, candidate, inputs = prepare(record, folder)
    expected, found = model(*inputs).double(), candidate(*inputs).double()
    error = ((expected - found).abs().max() / expected.abs().max()).item()
    if not error <= LOOSE[record["precision"]]:
        return {"failed": f"wrong by {error:.2g}"}
    return clock.time(lambda: candidate(*inputs))


def measured(record: Record, folder: Path, clock: GpuClock) -> Record:
    """A record with its latency, or with what failed."""
    try:
        with torch.no_grad():
            return {**record, **measure(record, folder, clock)}
    except Exception as error:  # reported, and the next one is measured
        return {**record, "failed": f"{type(error).__name__}: {error}"[:200]}
    finally:
        torch.cuda.empty_cache()


def write(records: list[Record], target: Path) -> None:
    """Write medians by task and precision class, and by recipe."""
    found: dict[str, dict[str, float]] = {}
    for record in records:
        if "median_us" in record:
            found.setdefault(f"{record['task']} {record['precision']}", {})[record["recipe"]] = round(record["median_us"], 1)
    platform = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    target.write_text(json.dumps({"platform": platform, "candidates": found}, indent=0))


def main() -> int:
    """Measure every candidate of the folder; 2 where there is no CUDA GPU."""
    parser = argparse.ArgumentParser(description="Measure generated kernels on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget-s", type=float, default=300.0, help="seconds after which compilation stops")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA GPU found; this script measures real latencies and has nothing to do", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted: list[Record] = json.loads((options.folder / "recipes.json").read_text())
    began, clock, records = time.monotonic(), GpuClock(), []
    compiled = compile_all(wanted, options.folder, began + options.budget_s)
    for record in wanted:
        done = record["file"] in compiled
        records.append(measured(record, options.folder, clock) if done else {**record, "failed": "not compiled in time"})
        print(record["task"], record["precision"], record["recipe"], records[-1].get("median_us", records[-1].get("failed")), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    write(records, options.out / "estimate_candidates.json")
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
