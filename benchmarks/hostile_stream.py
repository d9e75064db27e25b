"""Sends hostile and good candidates, shuffled, to one evaluator and counts wrong verdicts and what is left behind.

    python -m benchmarks.hostile_stream [--each 200] [--device cpu] [--workers 2] [--seed 0]

Hostile kinds: crash, exit, hang, fork, fork bomb, fill the disk, access out of bounds. A good candidate must PASS, a hostile one must
FAIL or be REJECTED with one of its causes. At the end no process but the warm runners, no private folder but theirs and no GPU memory may
be left.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import duration_pb2

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.testing.servers import running_fleet
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

TASK = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


def get_inputs():
    return [torch.randn(200, 300)]


def get_init_inputs():
    return []
"""
GOOD = """import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at{wild}, tl.load(x + at, mask=at < n, other=0.0) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        {before}
        y = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), {block}),)](x, y, x.numel(), BLOCK={block})
        return y
"""


@dataclass(frozen=True)
class Kind:
    """A kind of hostile candidate: what it does before it works, where its kernel writes, and the causes that it may get."""

    before: str
    causes: tuple[str, ...]
    wild: str = ""


KINDS = {
    "crash": Kind("import ctypes; ctypes.string_at(0)", ("FAULT",)),
    "exit": Kind("import os; os._exit(0)", ("FAULT",)),
    "hang": Kind("while True: pass", ("TIMEOUT",)),
    "fork": Kind("import subprocess; subprocess.Popen(['/bin/sleep', '600'])", ("HIDDEN_WORK", "RUNTIME", "TAMPER")),
    "bomb": Kind("import os; [os.fork() for _ in iter(int, 1)]", ("TAMPER",)),
    "fill": Kind("open('fill', 'wb').write(bytes(1 << 34))", ("OUT_OF_MEMORY", "RUNTIME", "FAULT")),
    "illegal": Kind("pass", ("MEMORY", "FAULT"), wild=" + (1 << 40)"),
}


def stream(good: int, hostile: int, seed: int) -> list[tuple[str, str]]:
    """Kind and source of every candidate, shuffled; no two sources are the same."""
    names = list(KINDS)
    found = [("good", GOOD.format(wild="", before=f"number = {number}", block=256 << number % 3)) for number in range(good)]
    for number in range(hostile):
        name = names[number % len(names)]
        before = f"number = {number}\n        {KINDS[name].before}"
        found.append((name, GOOD.format(wild=KINDS[name].wild, before=before, block=256)))
    random.Random(seed).shuffle(found)
    return found


def judged(client: EvaluatorClient, source: str, device: str, task: str = TASK) -> tuple[str, str, float]:
    """Verdict, cause and seconds of one candidate of a task."""
    start_s = time.monotonic()
    second = duration_pb2.Duration(seconds=10)
    request = pb.EvaluateKernelRequest(
        task=task_pb2.Task(name="scale.py", source=task),
        kernel=kernel_pb2.Kernel(source=source),
        device=kernel_pb2.DeviceSpec(kind=kernel_pb2.DeviceKind.Value(f"DEVICE_KIND_{device.upper()}")),
        limits=pb.PhaseLimits(setup=second, compile=second, check=second),
        cache_mode=pb.CACHE_MODE_BYPASS,
    )
    found = list(client.evaluate_kernel(request, 600))[-1].evaluation
    verdict = evaluation_pb2.Verdict.Name(found.verdict).removeprefix("VERDICT_")
    return verdict, evaluation_pb2.Cause.Name(found.cause).removeprefix("CAUSE_"), time.monotonic() - start_s


def right(kind: str, verdict: str, cause: str) -> bool:
    """Whether a candidate of a kind got what it must get."""
    return verdict == "PASSED" if kind == "good" else verdict in ("FAILED", "REJECTED") and cause in KINDS[kind].causes


def gpu_memory_mib() -> int:
    """Memory in use on all GPUs; 0 without one."""
    try:
        text = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return 0
    return sum(int(line) for line in text.stdout.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong: list[str] = []
    seconds: dict[str, list[float]] = {}
    verdicts: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as state:
        scratch = Path(state) / "scratch"
        scratch.mkdir()
        flags = ["--workers", str(options.workers), "--scratch-root", str(scratch)]
        with (
            running_fleet(Path(state), ("evaluator",), {"evaluator": flags}) as fleet,
            EvaluatorClient(fleet.address("evaluator")) as client,
        ):
            judged(client, GOOD.format(wild="", before="pass", block=1024), options.device)
            memory_mib = gpu_memory_mib()

            def one(item: tuple[str, str]) -> None:
                kind, source = item
                verdict, cause, took_s = judged(client, source, options.device)
                verdicts[kind, verdict, cause] += 1
                seconds.setdefault(kind, []).append(took_s)
                if not right(kind, verdict, cause):
                    wrong.append(f"{kind}: {verdict} {cause}")

            with ThreadPoolExecutor(options.workers) as threads:
                list(threads.map(one, stream(options.each, options.each, options.seed)))
            folders = len(list(scratch.iterdir()))
            sleepers = subprocess.run(["pgrep", "-fc", "/bin/sleep 600"], capture_output=True, text=True, check=False).stdout.strip()
            grown_mib = gpu_memory_mib() - memory_mib
    for (kind, verdict, cause), count in sorted(verdicts.items()):
        print(f"{kind:8} {verdict:12} {cause:16} {count:5}   median {statistics.median(seconds[kind]):6.2f} s")
    print(f"wrong verdicts: {len(wrong)} {Counter(wrong) or ''}")
    print(f"left behind: {sleepers or 0} processes, {folders} folders (warm runners have one each), {grown_mib} MiB of GPU memory")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
