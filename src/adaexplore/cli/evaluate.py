"""`adaexplore evaluate`: judges one kernel file for one task, or many of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import typer
from rich.console import Console

from adaexplore.cli.batch import Candidate, candidates, counts, judge_all, print_rows, request_of
from adaexplore.cli.connection import connecting
from adaexplore.cli.failures import CliError, ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, addresses
from adaexplore.cli.inputs import DeviceChoice, InitChoice, PrecisionChoice, SanitizerChoice, TrackChoice, device_spec
from adaexplore.cli.output import enum_name, evaluation_json, print_json, timing_words, verdict_words
from adaexplore.cli.rows import RowFile
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.runtime.errors import DeadlineError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2

# What a kernel file is called where it runs; it has no other name there.
_INSIDE_NAME = "candidate.py"


@connecting
def evaluate(
    task: Path | None = typer.Argument(None, help="Task file."),
    kernel: Path | None = typer.Argument(None, help="Kernel file that defines ModelNew (or the task's function)."),
    batch: Path | None = typer.Option(None, help="Many kernels instead: folders with task.py and kernels, or a file of JSON Lines."),
    jobs: int = typer.Option(4, min=1, max=64, help="With --batch: kernels at one time, as far as the evaluator has workers."),
    out: Path | None = typer.Option(None, help="With --batch: file of rows, adaexplore-out/<name>.jsonl by default."),
    device: DeviceChoice = typer.Option(DeviceChoice.CPU, help="Where to judge."),
    gpu: int | None = typer.Option(None, help="Index of the GPU."),
    target: str = typer.Option("", help="Compile target, for example sm_90; the device's own by default."),
    precision: PrecisionChoice = typer.Option(PrecisionChoice.FP32, help="Precision class."),
    track: TrackChoice = typer.Option(TrackChoice.ANY, help="Libraries the kernel may use."),
    init: InitChoice = typer.Option(InitChoice.BY_NAME, help="How state reaches the kernel: by name, or the same seed on both sides."),
    sanitize: SanitizerChoice | None = typer.Option(None, help="On cuda: run what passes once more under this tool of compute-sanitizer."),
    timeout: float = typer.Option(600.0, min=1.0, help="Seconds the whole evaluation may take."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder for logs and state of local services."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Judge one kernel, or many with --batch: whether each is right, and how fast it is."""
    spec = device_spec(device, target, gpu)
    if batch is not None:
        if task is not None:
            raise CliError("give a task and a kernel, or --batch, not both")
        common = Candidate("", Path(), Path(), precision, track, init, sanitize)
        return _judge_batch(batch, common, spec, jobs, timeout, out, state_dir, json_output=json_output)
    if task is None or kernel is None:
        raise CliError("give a task and a kernel, or --batch")
    return _judge_one(Candidate("", task, kernel, precision, track, init, sanitize), spec, timeout, state_dir, json_output=json_output)


def _judge_batch(
    place: Path,
    common: Candidate,
    spec: kernel_pb2.DeviceSpec,
    jobs: int,
    timeout_s: float,
    out: Path | None,
    state_dir: Path,
    *,
    json_output: bool,
) -> int:
    items = candidates(place, common)
    file = RowFile(out or Path("adaexplore-out", f"{place.resolve().stem}.jsonl"))
    rows = asyncio.run(judge_all(file, items, spec, jobs, timeout_s, state_dir, quiet=json_output))
    if json_output:
        print_json({"kernels": len(rows), "results": dict(counts(rows)), "file": str(file.path)})
    else:
        print_rows(rows, file.path)
    return int(ExitCode.INFRASTRUCTURE if any("error" in row for row in rows) else ExitCode.OK)


def _judge_one(item: Candidate, spec: kernel_pb2.DeviceSpec, timeout: float, state_dir: Path, *, json_output: bool) -> int:
    try:
        evaluation = asyncio.run(_evaluate(request_of(item, spec), state_dir, timeout, quiet=json_output))
    except DeadlineError as error:
        raise CliError(
            f"{item.kernel} for {item.task} was not judged within {timeout:g} s; give more by --timeout", ExitCode.INFRASTRUCTURE
        ) from error
    if json_output:
        print_json(evaluation_json(evaluation) | {"task": str(item.task), "kernel": str(item.kernel)})
    else:
        print_verdict(evaluation, item.task, item.kernel)
    return int(exit_code(evaluation.verdict))


def exit_code(verdict: int) -> ExitCode:
    """Return the exit code of a verdict."""
    return {
        evaluation_pb2.VERDICT_PASSED: ExitCode.OK,
        evaluation_pb2.VERDICT_TASK_INVALID: ExitCode.TASK_INVALID,
        evaluation_pb2.VERDICT_INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }.get(evaluation_pb2.Verdict.ValueType(verdict), ExitCode.KERNEL_FAILED)


async def _evaluate(
    request: evaluator_pb2.EvaluateKernelRequest, state_dir: Path, timeout_s: float, *, quiet: bool
) -> evaluation_pb2.Evaluation:
    console = Console(stderr=True, quiet=quiet)
    async with addresses(["evaluator"], state_dir) as at, at.client(AsyncEvaluatorClient) as client:
        with console.status("starting") as status:
            async for event in _events(client, request, timeout_s):
                if event.HasField("evaluation"):
                    return event.evaluation
                phase = enum_name(evaluation_pb2.Phase, event.progress.phase) or ""
                status.update(f"{phase.lower()} {event.progress.message}")
    raise CliError("the evaluator ended its answer without a result; see its log in the state folder", ExitCode.INFRASTRUCTURE)


def _plain(failure: evaluation_pb2.Failure, path: Path) -> str:
    """The message without the place, which is printed before it, and with the file's own name."""
    message = failure.message
    for head in (
        f"{path.name}, line {failure.line}: ",
        f"{_INSIDE_NAME}, line {failure.line}: ",
        f"line {failure.line}: ",
        f"{path.name}: ",
    ):
        message = message.removeprefix(head)
    return message.replace(_INSIDE_NAME, path.name)


def _events(
    client: AsyncEvaluatorClient, request: evaluator_pb2.EvaluateKernelRequest, timeout_s: float
) -> AsyncIterator[evaluator_pb2.EvaluateKernelResponse]:
    return client.evaluate_kernel(request, timeout_s=timeout_s)


def print_verdict(evaluation: evaluation_pb2.Evaluation, task: Path, kernel: Path) -> None:
    """Print the verdict with its latency, and what is wrong where."""
    console = Console(highlight=False, soft_wrap=True)
    colour = "green" if evaluation.verdict == evaluation_pb2.VERDICT_PASSED else "red"
    where = f"{evaluation.platform.device_name}, {evaluation.platform.target}, sandbox: {evaluation.platform.sandbox_level}"
    console.print(f"[{colour}]{verdict_words(evaluation)}[/]  {timing_words(evaluation.timing)}  ({where})", markup=True)
    if evaluation.HasField("failure"):
        named = task if evaluation.verdict == evaluation_pb2.VERDICT_TASK_INVALID else kernel
        line = f":{evaluation.failure.line}" if evaluation.failure.line else ""
        console.print(f"{named}{line}: {_plain(evaluation.failure, named)}", markup=False)
        if evaluation.failure.excerpt:
            console.print(evaluation.failure.excerpt, markup=False, style="dim")
