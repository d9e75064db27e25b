"""`adaexplore profile`: judges one kernel file for one task, and says what its kernels do with the device."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer
from rich.console import Console

from adaexplore.cli.batch import Candidate, request_of
from adaexplore.cli.connection import connecting
from adaexplore.cli.evaluate import exit_code, print_verdict
from adaexplore.cli.failures import CliError, ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, addresses
from adaexplore.cli.inputs import DeviceChoice, InitChoice, PrecisionChoice, TrackChoice, device_spec
from adaexplore.cli.output import enum_name, evaluation_json, print_json, profile_json
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.runtime.errors import DeadlineError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2


@connecting
def profile(
    task: Path = typer.Argument(help="Task file."),
    kernel: Path = typer.Argument(help="Kernel file that defines ModelNew (or the task's function)."),
    device: DeviceChoice = typer.Option(DeviceChoice.CPU, help="Where to profile: an estimate on cpu, measured on cuda."),
    gpu: int | None = typer.Option(None, help="Index of the GPU."),
    target: str = typer.Option("", help="Compile target, for example sm_90; the device's own by default."),
    precision: PrecisionChoice = typer.Option(PrecisionChoice.FP32, help="Precision class."),
    track: TrackChoice = typer.Option(TrackChoice.ANY, help="Libraries the kernel may use."),
    init: InitChoice = typer.Option(InitChoice.BY_NAME, help="How state reaches the kernel: by name, or the same seed on both sides."),
    timeout: float = typer.Option(600.0, min=1.0, help="Seconds it may take."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder for logs and state of local services."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Say what a kernel that passes does with the device: resources, bandwidth, arithmetic, and what limits it."""
    request = _request(Candidate("", task, kernel, precision, track, init), device_spec(device, target, gpu))
    try:
        evaluation = asyncio.run(_profile(request, state_dir, timeout, quiet=json_output))
    except DeadlineError as error:
        text = f"{kernel} for {task} was not profiled within {timeout:g} s; give more by --timeout"
        raise CliError(text, ExitCode.INFRASTRUCTURE) from error
    if json_output:
        print_json(evaluation_json(evaluation) | {"profile": profile_json(evaluation), "task": str(task), "kernel": str(kernel)})
    else:
        print_verdict(evaluation, task, kernel)
        if evaluation.HasField("profile"):
            Console(highlight=False, markup=False, soft_wrap=True).print(evaluation.profile.text)
    return int(exit_code(evaluation.verdict))


def _request(item: Candidate, spec: kernel_pb2.DeviceSpec) -> evaluator_pb2.ProfileKernelRequest:
    """The request to profile what a request to evaluate would judge."""
    whole = request_of(item, spec)
    known = evaluator_pb2.ProfileKernelRequest.DESCRIPTOR.fields_by_name
    return evaluator_pb2.ProfileKernelRequest(**{field.name: value for field, value in whole.ListFields() if field.name in known})


async def _profile(
    request: evaluator_pb2.ProfileKernelRequest, state_dir: Path, timeout_s: float, *, quiet: bool
) -> evaluation_pb2.Evaluation:
    console = Console(stderr=True, quiet=quiet)
    async with addresses(["evaluator"], state_dir) as at, at.client(AsyncEvaluatorClient) as client:
        with console.status("starting") as status:
            async for event in client.profile_kernel(request, timeout_s=timeout_s):
                if event.HasField("evaluation"):
                    return event.evaluation
                phase = enum_name(evaluation_pb2.Phase, event.progress.phase) or ""
                status.update(f"{phase.lower()} {event.progress.message}")
    raise CliError("the evaluator ended its answer without a result; see its log in the state folder", ExitCode.INFRASTRUCTURE)
