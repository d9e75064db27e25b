"""Judges kernels that others have published for KernelBench tasks, as they are, and prints a Markdown table.

    python -m benchmarks.foreign_kernels TASKS KERNELS [--only 2/5,3/1] [--precisions fp32,tf32] [--device cuda] [--jobs 4] [--out FOLDER]

TASKS holds `level<L>/<N>_<name>.py`, KERNELS holds `level<L>/<N>.py`. Both sides are built from one seed (`seeded`), since published
kernels seldom keep the reference's state names. One JSON line a kernel and class goes to FOLDER/results.jsonl; what has a line there is not
run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import duration_pb2

from adaexplore.cli.output import evaluation_json
from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.testing.servers import running_fleet
from adaexplore.types.v1 import kernel_pb2, task_pb2

WINNERS = [*(f"2/{n}" for n in (5, 12, 14, 18, 22, 33, 37, 40, 42, 44, 50, 76, 84, 92, 95, 96, 100)), *(f"3/{n}" for n in (1, 6, 43, 44))]
HEAD = "| kernel | class | verdict | µs | over eager | over best | seconds | message |\n|---|---|---|---|---|---|---|---|"


def sources(options: argparse.Namespace, key: str) -> tuple[Path, Path]:
    """Task and kernel of a key such as `2/5`."""
    level, number = key.split("/")
    tasks = sorted((options.tasks / f"level{level}").glob(f"{number}_*.py"))
    kernel = options.kernels / f"level{level}" / f"{number}.py"
    if not tasks or not kernel.exists():
        raise SystemExit(f"no task or no kernel {key} in {options.tasks} and {options.kernels}")
    return tasks[0], kernel


def judged(client: EvaluatorClient, options: argparse.Namespace, key: str, precision: str) -> dict[str, Any]:
    """One kernel in one class, as one JSON object."""
    task, kernel = sources(options, key)
    limit = duration_pb2.Duration(seconds=options.phase_s)
    request = pb.EvaluateKernelRequest(
        task=task_pb2.Task(
            name=task.name, source=task.read_text(), precision=task_pb2.PrecisionClass.Value(f"PRECISION_CLASS_{precision.upper()}")
        ),
        kernel=kernel_pb2.Kernel(source=kernel.read_text()),
        device=kernel_pb2.DeviceSpec(kind=kernel_pb2.DeviceKind.Value(f"DEVICE_KIND_{options.device.upper()}")),
        state_mode=pb.STATE_MODE_SEEDED,
        limits=pb.PhaseLimits(setup=limit, compile=limit, check=limit, timing=limit),
    )
    start_s = time.monotonic()
    try:
        found = evaluation_json(list(client.evaluate_kernel(request, 1800))[-1].evaluation)
    except grpc.RpcError as error:
        found = {"verdict": "ERROR", "message": str(error)[:300]}
    return {"key": key, "class": precision, "seconds": round(time.monotonic() - start_s, 1), **found}


def row(found: dict[str, Any]) -> str:
    """The table's row of one kernel."""
    timing = found.get("timing") or {}
    numbers = [f"{timing[name]:.2f}" if timing.get(name) else "–" for name in ("median_us", "speedup_over_eager", "speedup")]
    verdict = " ".join(filter(None, (found["verdict"], found.get("cause"))))
    message = (found.get("message") or timing.get("cause") or "")[:140].replace("|", "¦")
    return f"| {found['key']} | {found['class']} | {verdict} | {' | '.join(numbers)} | {found['seconds']:.0f} | {message} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("--only", default=",".join(WINNERS))
    parser.add_argument("--precisions", default="fp32,tf32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--phase-s", type=int, default=180)
    parser.add_argument("--jobs", type=int, default=1, help="kernels that are judged at one time")
    parser.add_argument("--out", type=Path, default=Path("adaexplore-out/foreign"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    store = options.out / "results.jsonl"
    lines = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    known = {(line["key"], line["class"]): line for line in lines}
    print(HEAD, flush=True)
    with (
        tempfile.TemporaryDirectory() as state,
        running_fleet(Path(state), ("evaluator",)) as fleet,
        EvaluatorClient(fleet.address("evaluator")) as client,
        ThreadPoolExecutor(options.jobs) as threads,
    ):
        asked = list(itertools.product(options.only.split(","), options.precisions.split(",")))
        for pair in asked:
            if pair in known:
                print(row(known[pair]), flush=True)
        for done in as_completed([threads.submit(judged, client, options, *pair) for pair in asked if pair not in known]):
            with store.open("a") as file:
                file.write(json.dumps(done.result()) + "\n")
            print(row(done.result()), flush=True)


if __name__ == "__main__":
    main()
