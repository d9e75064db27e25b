"""Evaluations a minute of one stream of candidates: our server against a harness that starts a process a candidate, and KernelBench's own.

    python -m benchmarks.throughput TASKS KERNELS [--count 40] [--device cuda|cpu] [--workers 4] [--hostile] [--seed 0]
                                    [--kernelbench CHECKOUT]

TASKS holds `NAME.py` in KernelBench's form, KERNELS holds candidates of each in `NAME/` or as `NAME.py`. The stream takes the tasks in
turn, and each task's candidates in turn, until it has `--count`; no two sources are the same, and no result comes from a cache of ours.
Both sides are built from one seed, since published kernels seldom keep the state names. The same stream goes, one side after the
other, through

* ours: one server with so many workers, started before; what a task needs once is done within the stream;
* fresh: `fresh_judge.py`, one process a candidate and one at a time, as they time on one GPU;
* kernelbench: `kernelbench_judge.py`, likewise, if a checkout is given.

With --hostile ours gets the stream once more with one hostile candidate in four; the rate is that of the others. Printed are evaluations a
minute, their ratio, seconds by stage a candidate, and for how much of the time workers were in a stage: what is left they wait or start
runners.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import duration_pb2

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.testing.servers import running_fleet
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

HERE = Path(__file__).parent
HOSTILE = """import os
import subprocess

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, *_arguments):
        super().__init__()

    def forward(self, *_inputs):
        {deed}
"""
DEEDS = (
    "import ctypes; ctypes.string_at(0)",
    "os._exit(0)",
    "while True: pass",
    "[os.fork() for _ in iter(int, 1)]",
    "open('fill', 'wb').write(bytes(1 << 34))",
    "subprocess.Popen(['/bin/sleep', '600']); return _inputs[0]",
)
_LIMIT_S = 1800.0
_HOSTILE_S = 10


@dataclass(frozen=True)
class Item:
    """One candidate of the stream; `good` is False for a hostile one."""

    task: Path
    source: str
    good: bool = True


@dataclass
class Side:
    """What one side made of the stream; seconds by stage are sums over candidates."""

    name: str
    elapsed_s: float = 0.0
    judged: int = 0
    stages: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)

    @property
    def a_minute(self) -> float:
        """Good candidates a minute."""
        return 60.0 * self.judged / self.elapsed_s if self.elapsed_s else 0.0


def stream(tasks: Path, kernels: Path, count: int) -> list[Item]:
    """So many candidates, tasks in turn and candidates of each in turn; SystemExit says what is missing."""
    turns = []
    for task in sorted(tasks.glob("*.py")):
        found = sorted((kernels / task.stem).glob("*.py")) or [path for path in [kernels / task.name] if path.exists()]
        if found:
            turns.append([(task, path.read_text()) for path in found])
    if not turns:
        raise SystemExit(f"no task NAME.py of {tasks} has candidates in {kernels}/NAME/ or {kernels}/NAME.py")
    alternating = zip(*(itertools.cycle(turn) for turn in turns), strict=True)
    endless = itertools.chain.from_iterable(alternating)
    return [Item(task, f"{source}\n\nSTREAM_NUMBER = {number}\n") for number, (task, source) in enumerate(itertools.islice(endless, count))]


def with_hostile(items: Sequence[Item], seed: int) -> list[Item]:
    """The stream with one hostile candidate for three others, shuffled."""
    hostile = [
        Item(items[number].task, HOSTILE.format(deed=DEEDS[number % len(DEEDS)]) + f"\nSTREAM_NUMBER = {number}\n", good=False)
        for number in range(max(1, len(items) // 3))
    ]
    found = [*items, *hostile]
    random.Random(seed).shuffle(found)
    return found


def request_of(item: Item, device: str) -> pb.EvaluateKernelRequest:
    """What our server is asked; a hostile candidate gets less time, of which one that hangs takes all."""
    limit = duration_pb2.Duration(seconds=_HOSTILE_S)
    return pb.EvaluateKernelRequest(
        task=task_pb2.Task(name=item.task.name, source=item.task.read_text()),
        kernel=kernel_pb2.Kernel(source=item.source),
        device=kernel_pb2.DeviceSpec(kind=kernel_pb2.DeviceKind.Value(f"DEVICE_KIND_{device.upper()}")),
        state_mode=pb.STATE_MODE_SEEDED,
        cache_mode=pb.CACHE_MODE_BYPASS,
        limits=None if item.good else pb.PhaseLimits(setup=limit, compile=limit, check=limit),
    )


def ours(client: EvaluatorClient, items: Sequence[Item], options: argparse.Namespace, name: str) -> Side:
    """The stream through a server."""
    side = Side(name)

    def one(item: Item) -> evaluation_pb2.Evaluation:
        return list(client.evaluate_kernel(request_of(item, options.device), _LIMIT_S))[-1].evaluation

    start_s = time.monotonic()
    with ThreadPoolExecutor(options.workers) as threads:
        found = list(threads.map(one, items))
    side.elapsed_s = time.monotonic() - start_s
    for item, evaluation in zip(items, found, strict=True):
        verdict = evaluation_pb2.Verdict.Name(evaluation.verdict).removeprefix("VERDICT_")
        side.results[verdict if item.good else f"hostile {verdict}"] += 1
        side.judged += item.good
        for spent in evaluation.phase_times if item.good else ():
            phase = evaluation_pb2.Phase.Name(spent.phase).removeprefix("PHASE_").lower()
            side.stages[phase] += spent.elapsed.ToNanoseconds() / 1e9
    return side


def served(name: str, items: Sequence[Item], options: argparse.Namespace) -> Side:
    """The stream through a server of its own, which knows no task yet; told."""
    flags = ["--workers", str(options.workers), "--gpu-workers", str(options.workers)]
    with (
        tempfile.TemporaryDirectory() as state,
        running_fleet(Path(state), ("evaluator",), {"evaluator": flags}) as fleet,
        EvaluatorClient(fleet.address("evaluator")) as client,
    ):
        client.list_devices(pb.ListDevicesRequest(), 300)
        side = ours(client, items, options, name)
    tell(side)
    in_stages = sum(side.stages.values()) / side.elapsed_s / options.workers
    print(f"    workers are in one of these stages of good candidates for {in_stages:.0%} of the time", flush=True)
    return side


def separate(name: str, items: Sequence[Item], command: Callable[[Path, Path], list[str]]) -> Side:
    """The stream through one process a candidate, one at a time."""
    side = Side(name)
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / "kernel.py"
        start_s = time.monotonic()
        for item in items:
            kernel.write_text(item.source)
            done = subprocess.run(
                command(item.task, kernel), capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=environment()
            )
            answer = parsed(done.stdout)
            side.results["passed" if answer.get("passed") else f"failed: {str(answer.get('message') or done.stderr[-200:])[:80]}"] += 1
            side.stages.update(answer.get("stages", {}))
            side.judged += 1
        side.elapsed_s = time.monotonic() - start_s
    return side


def alone(script: str, task: Path, kernel: Path, last: str) -> list[str]:
    """Command line of a process that judges one candidate, started now."""
    return [sys.executable, str(HERE / script), str(time.monotonic()), str(task), str(kernel), last]


def parsed(text: str) -> dict:
    """The JSON object in the last line of a process's output; empty if there is none."""
    try:
        found = json.loads(text.splitlines()[-1])
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def environment() -> dict[str, str]:
    """Of a process of its own: kernels are interpreted where there is no GPU."""
    return dict(os.environ) if Path("/dev/nvidiactl").exists() else {**os.environ, "TRITON_INTERPRET": "1"}


def tell(side: Side) -> None:
    """Print what a side made of the stream."""
    print(f"{side.name:12} {side.a_minute:7.1f} a minute, {side.judged} in {side.elapsed_s:.1f} s; {dict(side.results)}", flush=True)
    for stage, seconds in side.stages.most_common():
        print(f"    {stage:20} {seconds / side.judged:7.2f} s a candidate", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--kernelbench", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    items = stream(options.tasks, options.kernels, options.count)
    mine = served("ours", items, options)
    if options.hostile:
        beside = served("ours, hostile", with_hostile(items, options.seed), options)
        print(f"good candidates beside hostile ones: {beside.a_minute / mine.a_minute:.2f} of the clean stream's rate")
    fresh = separate("fresh", items, lambda task, kernel: alone("fresh_judge.py", task, kernel, options.device))
    tell(fresh)
    print(f"ours ÷ fresh: {mine.a_minute / fresh.a_minute:.2f}")
    if options.kernelbench:
        checkout = str(options.kernelbench.resolve())
        theirs = separate("kernelbench", items, lambda task, kernel: alone("kernelbench_judge.py", task, kernel, checkout))
        tell(theirs)
        print(f"ours ÷ kernelbench: {mine.a_minute / theirs.a_minute:.2f}")


if __name__ == "__main__":
    main()
