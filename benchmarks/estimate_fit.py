"""Compares the cpu device's estimates with latencies that estimate_vs_gpu.py measured on a GPU.

    python -m benchmarks.estimate_fit [benchmarks/data/h200.json] [--target sm_90] [--only kernels|tasks|candidates]

Needs no GPU. Every kernel goes the way a candidate goes: compiled for the target, a few programs interpreted at full shape on lazily
mapped memory, its launch record estimated. Tasks are traced and their baselines estimated; candidates
are written again from their recipes. Prints estimate, measurement and their ratio,
then per group the median and the 90th percentile of how far they are apart, as a factor, and the rank correlation.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from adaexplore_evaluator.devices.cpu import estimate_baselines, estimate_candidate
from adaexplore_evaluator.runner.graph import TraceError, trace
from adaexplore_evaluator.runner.launches import launch_records
from adaexplore_evaluator.runner.recording import lazy_tensor
from adaexplore_evaluator.runner.sources import load_module
from adaexplore_evaluator.runner.triton_cpu import CompileCache, TritonSession
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks import estimate_recipes
from benchmarks import estimate_vs_gpu as measured

HERE = Path(__file__).resolve().parent
Record = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One estimate beside its measurement, in microseconds."""

    group: str
    name: str
    estimate_us: float
    measured_us: float

    @property
    def distance(self) -> float:
        """How many times the larger is the smaller, at least 1."""
        return math.exp(abs(math.log(self.estimate_us / self.measured_us)))


@dataclass
class ModelClock:
    """A clock that estimates: tensors are lazily mapped, launches are compiled and sampled."""

    target: str
    cache: CompileCache = field(default_factory=CompileCache)

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Memory that costs nothing until it is touched."""
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return lazy_tensor(dtype, shape, strides, math.prod(shape))

    def compiled(self, launch: Callable[[], Any]) -> Any:
        """Compile what is launched."""
        with TritonSession(mode="compile_only", target=self.target, compile_cache=self.cache):
            return launch()

    def time(self, call: Callable[[], Any]) -> Record:
        """The estimated latency of a call that only launches Triton kernels."""
        with TritonSession(mode="full", target=self.target, compile_cache=self.cache) as session:
            call()
        found = estimate_candidate(launch_records(session.launches, ()), target=self.target, precision="fp32")
        if found.median_us is None:
            raise ValueError(found.explanation)
        return {"median_us": found.median_us, "bound_by": found.launches[0].bound_by}


def key_of(record: Record) -> str:
    """What a kernel and its configuration are called."""
    return " ".join([record["kernel"], *(str(value).removeprefix("torch.") for value in record["config"].values())])


def kernels(target: str, truth: dict[str, float]) -> Iterator[Comparison]:
    """Every Triton kernel that was measured."""
    clock = ModelClock(target)
    for group in measured.KERNEL_GROUPS:
        for record in group(clock):
            name = key_of(record)
            if name in truth:
                yield Comparison("held out" if record.get("held_out") else record["kernel"], name, record["median_us"], truth[name])


def libraries(target: str, records: list[Record]) -> Iterator[Comparison]:
    """Products of the library alone."""
    for record in records:
        if record.get("kernel") == "cublas":
            config = record["config"]
            precision = "bf16" if config["dtype"] == "torch.bfloat16" else "tf32" if config["tf32"] else "fp32"
            size = config["size"] ** 2 * (2 if precision == "bf16" else 4)
            launch = {
                "kind": "operator",
                "name": "aten.mm.default",
                "bytes_read": 2 * size,
                "bytes_written": size,
                "flops": record["flops"],
            }
            found = estimate_candidate([launch], target=target, precision=precision).median_us
            yield Comparison("library", key_of(record), found or math.nan, record["median_us"])


def tasks(target: str, records: list[Record], folder: Path) -> Iterator[Comparison]:
    """Both baselines of the examples and of the probes."""
    probes = {name: (shape, function) for name, shape, function in measured.PROBES}
    for record in records:
        name = record.get("task", "")
        with FakeTensorMode(allow_non_fake_inputs=True):
            if name in probes:
                shape, function = probes[name]
                model, inputs = function, [torch.empty(shape)]
            elif (folder / f"{name}.py").exists():
                model, inputs = _example(load_module(folder / f"{name}.py", f"fitted_{name}"))
            else:
                continue
        try:
            graph = trace(model, inputs, [f"input_{index}" for index in range(len(inputs))], name)
        except TraceError as error:
            print(f"{name}: no graph, {error}")
            continue
        group = "probe" if name in probes else "example"
        for baseline in estimate_baselines(graph, target=target, precision="fp32"):
            kind = baseline.kind.value
            yield Comparison(f"{group} {kind}", f"{name} {kind}", baseline.median_us, record[kind]["median_us"])


def candidates(target: str, path: Path) -> Iterator[Comparison]:
    """Every kernel of the product's own templates that was measured, written again from its recipe."""
    for key, found in json.loads(path.read_text())["candidates"].items():
        name, precision = key.split()
        with tempfile.TemporaryDirectory() as folder:
            task = estimate_recipes.Task(name, precision, Path(folder))
            for text, latency_us in found.items():
                launches = task.launches(task.source(estimate_recipes.from_text(text, task)))
                graph: Record = task.described["graph"]
                estimate = estimate_candidate(launches, target=target, precision=precision, graph=graph)
                yield Comparison(f"candidates {key}", text, estimate.median_us or math.nan, latency_us)


def choice(found: list[Comparison]) -> str:
    """Which variant the estimate would choose, and which is the fastest."""
    chosen, best = min(found, key=lambda item: item.estimate_us), min(found, key=lambda item: item.measured_us)
    lines = [
        f"  {word}: {item.name}, {item.estimate_us:.0f} µs, measured {item.measured_us:.0f}"
        for word, item in (("chosen", chosen), ("best", best))
    ]
    return "\n".join(lines)


def _example(module: ModuleType) -> tuple[Any, list[Any]]:
    return module.Model(*module.get_init_inputs()), module.get_inputs()


def ranks(values: list[float]) -> list[float]:
    """Ranks from 1; equal values share their mean rank."""
    return [sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values]


def summary(title: str, found: list[Comparison]) -> str:
    """One line about a group: how far apart, and how well ordered."""
    distances = sorted(item.distance for item in found)
    p90 = distances[min(len(distances) - 1, math.ceil(0.9 * len(distances)) - 1)]
    line = f"{title:28s} n {len(found):3d}   median ×{statistics.median(distances):.2f}   p90 ×{p90:.2f}   worst ×{distances[-1]:.2f}"
    estimates, truths = ranks([item.estimate_us for item in found]), ranks([item.measured_us for item in found])
    varies = len(found) > 2 and len(set(estimates)) > 1 and len(set(truths)) > 1
    return line + (f"   rank correlation {statistics.correlation(estimates, truths):.2f}" if varies else "")


def problem_of(item: Comparison) -> str:
    """Variants of one product have a name in common, up to their tiles."""
    return " ".join(item.name.split()[:7])


def report(found: list[Comparison]) -> None:
    """Print all comparisons and the summaries."""
    for item in found:
        print(f"{item.name:68s} {item.estimate_us:10.1f} µs  {item.measured_us:10.1f} µs   {item.estimate_us / item.measured_us:5.2f}")
    print()
    for group in dict.fromkeys(item.group for item in found):
        members = [item for item in found if item.group == group]
        print(summary(group, members))
        if group.startswith("candidates"):
            print(choice(members))
    products = [item for item in found if item.group == "matmul"]
    for problem in dict.fromkeys(map(problem_of, products)):
        print(summary(f"  {problem}", [item for item in products if problem_of(item) == problem]))
    if found:
        print(summary("all", found))


def parse_options() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description="Compare estimates of the cpu device with measured latencies.")
    parser.add_argument("measured", type=Path, nargs="?", default=HERE / "data" / "h200.json", help="JSON written by estimate_vs_gpu.py")
    parser.add_argument("--candidates", type=Path, default=HERE / "data" / "h200_candidates.json", help="written by estimate_candidates.py")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--examples", type=Path, default=HERE.parent / "examples")
    parser.add_argument("--only", choices=["kernels", "tasks", "candidates"])
    return parser.parse_args()


def main() -> int:
    """Compare everything that the file has."""
    options = parse_options()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    data = json.loads(options.measured.read_text())
    print(", ".join(f"{name} {value}" for name, value in data["platform"].items()), "\n")
    found: list[Comparison] = []
    if options.only in (None, "kernels"):
        timed = [record for record in data["kernels"] if "kernel" in record]
        found += kernels(options.target, {key_of(record): record["median_us"] for record in timed})
        found += libraries(options.target, timed)
    if options.only in (None, "tasks"):
        found += tasks(options.target, data["tasks"], options.examples)
    if options.only in (None, "candidates"):
        found += candidates(options.target, options.candidates)
    report(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
