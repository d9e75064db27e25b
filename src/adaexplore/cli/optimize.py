"""`adaexplore optimize`: the main job from start to end."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from adaexplore.cli.connection import connecting
from adaexplore.cli.costs import estimate
from adaexplore.cli.failures import CliError, ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, address_variable, addresses
from adaexplore.cli.inputs import DeviceChoice, PrecisionChoice, TrackChoice, device_spec, read_source, read_task
from adaexplore.cli.models import EnsembleChoice, providers_of, set_models
from adaexplore.cli.results import finish
from adaexplore.cli.watching import resume_hint, watch_to_rest
from adaexplore.client.controller import AsyncControllerClient
from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.client.security import ChannelSecurity
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.generator.v1 import generator_pb2
from adaexplore.types.v1 import kernel_pb2


@connecting
def optimize(
    task: Path = typer.Argument(help="Task file: Model, get_inputs and get_init_inputs."),
    steps: int = typer.Option(24, min=1, max=100_000, help="Kernels to evaluate."),
    device: DeviceChoice = typer.Option(DeviceChoice.CPU, help="Where to judge."),
    gpu: int | None = typer.Option(None, help="Index of the GPU."),
    target: str = typer.Option("", help="Compile target, for example sm_90; the device's own by default."),
    precision: PrecisionChoice = typer.Option(PrecisionChoice.FP32, help="Precision class."),
    track: TrackChoice = typer.Option(TrackChoice.ANY, help="Libraries the kernel may use."),
    seed_kernel: list[Path] = typer.Option([], help="Kernel of your own to start from; may be repeated."),
    generator: str = typer.Option("", help="Provider: templates (no model), openai, anthropic, gemini, external or replay."),
    model: list[str] = typer.Option([], help="MODEL or PROVIDER:MODEL[@WEIGHT]; openai unless said otherwise; several are an ensemble."),
    record: Path | None = typer.Option(None, help="File that every reply of the model is appended to, for --replay; local services only."),
    replay: Path | None = typer.Option(None, help="Recorded file to answer from in place of a model; implies --generator replay."),
    ensemble: EnsembleChoice = typer.Option(EnsembleChoice.BANDIT, help="How one of several models is chosen."),
    base_url: str = typer.Option("", help="OpenAI-compatible endpoint, for local services only."),
    max_output_tokens: int = typer.Option(0, min=0, max=1_000_000, help="Most tokens of one reply; 0 means 16,384."),
    policy: str = typer.Option(
        "", help="How the tree is searched: adaexplore, default, epsilon_greedy, evolve, beam, iterative or best_of_n."
    ),
    in_flight: int = typer.Option(1, min=1, max=64, help="Steps made at one time; with 1 a seed repeats its search."),
    seed: int = typer.Option(0, min=0, help="Seed of everything random."),
    timeout: float | None = typer.Option(None, min=1.0, help="Seconds the search may take."),
    max_cost_usd: float | None = typer.Option(None, min=0.0, help="USD that the search may cost; needs a model of known price."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what the search would use and cost, and start nothing."),
    no_memory: bool = typer.Option(False, "--no-memory", help="Search without the skill memory."),
    out: Path | None = typer.Option(None, help="Folder for the kernel and the report; adaexplore-out/<task> by default."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder for the state of local services."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> int:
    """Find the fastest correct kernel for a task."""
    spec = pb.SearchSpec(
        task=read_task(task, precision, track),
        device=device_spec(device, target, gpu),
        budget=pb.Budget(max_steps=steps),
        policy=pb.PolicySpec(name=policy),
        seed=seed,
        seed_kernels=[kernel_pb2.Kernel(source=read_source(path)) for path in seed_kernel],
        memory_off=no_memory,
        max_in_flight=in_flight,
    )
    set_models(spec, model, generator or ("replay" if replay else ""), max_output_tokens, ensemble)
    if timeout is not None:
        spec.budget.max_wall_time.FromTimedelta(timedelta(seconds=timeout))
    if max_cost_usd is not None:
        spec.budget.max_cost_micro_usd = round(max_cost_usd * 1_000_000)
    _set_up_local_generator({"--base-url": base_url, "--record": record, "--replay": replay})
    if dry_run:
        return int(asyncio.run(estimate(spec, state_dir, json_output)))
    folder = writable_folder(out or Path("adaexplore-out") / task.stem)
    return int(asyncio.run(_optimize(spec, folder, state_dir, json_output)))


_GENERATOR_VARIABLES = {
    "--base-url": "ADAEXPLORE_GENERATOR_OPENAI_BASE_URL",
    "--record": "ADAEXPLORE_GENERATOR_RECORD",
    "--replay": "ADAEXPLORE_GENERATOR_REPLAY_FILE",
}


def _set_up_local_generator(given: Mapping[str, str | Path | None]) -> None:
    for flag, value in given.items():
        if not value:
            continue
        variable = _GENERATOR_VARIABLES[flag]
        if os.environ.get(address_variable("controller")):
            raise CliError(f"{flag} reaches local services only: set {variable} where the generator runs")
        # The services read their settings from the environment; a flag of this command reaches the local generator that way.
        os.environ[variable] = str(value.absolute() if isinstance(value, Path) else value)


def writable_folder(folder: Path) -> Path:
    """Make the output folder before any work is done.

    Raises:
        CliError: It cannot be made or written.

    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise CliError(f"cannot write to {folder}: {error.strerror}; choose another --out or free some space") from error
    return folder


async def _optimize(spec: pb.SearchSpec, folder: Path, state_dir: Path, json_output: bool) -> ExitCode:
    console = Console(stderr=True, quiet=json_output)
    flags = {"controller": ["--resume", "on-request"]}
    checks = {"generator": partial(_ask_for_models, providers_of(spec))}
    async with addresses(["controller"], state_dir, flags, checks=checks) as at, at.client(AsyncControllerClient) as client:
        request = pb.StartSearchRequest(request_id=uuid.uuid4().hex, spec=spec)
        search = (await client.start_search(request, timeout_s=60)).search
        console.print(f"{search.name}: {spec.task.name}, {spec.budget.max_steps} steps", markup=False, highlight=False)
        search = await watch_to_rest(client, search, console, resume_hint(search.name, state_dir, folder), at.lost)
        return await finish(client, search, folder, json_output)


async def _ask_for_models(providers: list[str], address: str, security: ChannelSecurity) -> None:
    """Let the generator say now, before a search is started, that a provider, key or endpoint is wrong."""
    async with AsyncGeneratorClient(address, security) as generator:
        for provider in providers:
            await _ask_for_models_of(generator, provider)


async def _ask_for_models_of(generator: AsyncGeneratorClient, provider: str) -> None:
    found = await generator.list_models(generator_pb2.ListModelsRequest(provider=provider), timeout_s=60)
    if not found.models and provider == "replay":
        raise CliError("the provider replay has no recorded replies: name a file that was recorded with --replay FILE")
    if not found.models:
        name = provider.upper()
        raise CliError(
            f"the provider {provider} is not set up: set ADAEXPLORE_GENERATOR_{name}_API_KEY or {name}_API_KEY, "
            "or give the base URL of an endpoint that needs no key (--base-url for openai)"
        )
