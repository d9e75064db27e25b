"""`adaexplore audit`: tells of every task of a collection whether it can judge kernels, and why not."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console

from adaexplore.cli.connection import connecting
from adaexplore.cli.corpora import TaskFile, task_files
from adaexplore.cli.failures import ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, addresses
from adaexplore.cli.inputs import DeviceChoice, PrecisionChoice, TrackChoice, device_spec, read_task
from adaexplore.cli.output import enum_name, print_json
from adaexplore.cli.rows import Row, RowFile, fill, name_of, outcome, print_counts
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

_LISTED_CHARS = 110


@connecting
def audit(
    path: Path = typer.Argument(help="Task file, folder of tasks, or checkout of KernelBench or KernelBench-X."),
    device: DeviceChoice = typer.Option(DeviceChoice.CPU, help="Where to audit."),
    gpu: int | None = typer.Option(None, help="Index of the GPU."),
    target: str = typer.Option("", help="Compile target, for example sm_90; the device's own by default."),
    precision: PrecisionChoice = typer.Option(PrecisionChoice.FP32, help="Precision class."),
    jobs: int = typer.Option(4, min=1, max=64, help="Tasks at one time, as far as the evaluator has workers."),
    timeout: float = typer.Option(900.0, min=1.0, help="Seconds that one task may take, waiting included."),
    out: Path | None = typer.Option(
        None, help="File of rows, adaexplore-out/audit-<name>.jsonl by default; what has one is not done again."
    ),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder for logs and state of local services."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> int:
    """Audit every task of a collection: whether it can tell right kernels from wrong ones."""
    spec, tasks = device_spec(device, target, gpu), task_files(path)
    file = RowFile(out or Path("adaexplore-out", f"audit-{path.resolve().stem}.jsonl"))
    items = [(_key(item, precision, spec), item) for item in tasks]
    if any(not file.done(key) for key, _item in items):
        asyncio.run(_fill(file, items, precision, spec, jobs, timeout, state_dir, quiet=json_output))
    rows = [file.rows[key] for key, _item in items]
    if json_output:
        print_json({"tasks": len(rows), "results": dict(_counts(rows)), "file": str(file.path)})
    else:
        _print(rows, file.path)
    return int(ExitCode.INFRASTRUCTURE if any("error" in row for row in rows) else ExitCode.OK)


async def _fill(
    file: RowFile,
    items: Sequence[tuple[str, TaskFile]],
    precision: PrecisionChoice,
    spec: kernel_pb2.DeviceSpec,
    jobs: int,
    timeout_s: float,
    state_dir: Path,
    *,
    quiet: bool,
) -> None:
    async with addresses(["evaluator"], state_dir) as at, at.client(AsyncEvaluatorClient) as client:
        work = functools.partial(_audited, client, precision, spec, timeout_s)
        await fill(file, items, work, jobs, Console(stderr=True, quiet=quiet))


async def _audited(
    client: AsyncEvaluatorClient, precision: PrecisionChoice, spec: kernel_pb2.DeviceSpec, timeout_s: float, item: TaskFile
) -> Row:
    task = read_task(item.path, precision, TrackChoice.ANY)
    reply = await client.describe_task(evaluator_pb2.DescribeTaskRequest(task=task, device=spec), timeout_s)
    found, told = reply.description, reply.description.audit
    return {
        "task": item.name,
        "precision": precision.value,
        "result": "VALID" if told.valid else told.cause or "INVALID",
        "message": told.message or None,
        "format": (enum_name(task_pb2.TaskFormat, found.format) or "").lower() or None,
        "entry_point": found.entry_point or None,
        "error_budget": told.error_budget if told.valid else None,
        "reference_error": told.reference_error if told.valid else None,
        "minimum_bytes": found.minimum_bytes,
        "flops": found.flops,
        "graph_absent_reason": found.graph_absent_reason or None,
        "baselines": {(enum_name(evaluation_pb2.BaselineKind, b.kind) or "").lower(): b.median_us for b in reply.baselines},
    }


def _key(item: TaskFile, precision: PrecisionChoice, spec: kernel_pb2.DeviceSpec) -> str:
    """What a row answers for: the file's name and bytes, the class, and the device."""
    source = hashlib.sha256(item.path.read_bytes() if item.path.is_file() else b"").hexdigest()[:16]
    where = enum_name(kernel_pb2.DeviceKind, spec.kind) or ""
    return f"{item.name}//{source}/{precision.value}/{where.lower()}{f':{spec.target}' if spec.target else ''}"


def _counts(rows: Sequence[Row]) -> Counter[str]:
    return Counter(outcome(row, row.get("result", "")) for row in rows)


def _print(rows: Sequence[Row], file: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for row in rows:
        told = row.get("error") or row.get("refused") or (row["message"] if row["result"] != "VALID" else None)
        if told:
            word = row.get("result") or row.get("reason") or "REFUSED"
            console.print(f"{name_of(row)}: {word}: {told[:_LISTED_CHARS]}", markup=False)
    print_counts(console, file, "tasks", _counts(rows))
