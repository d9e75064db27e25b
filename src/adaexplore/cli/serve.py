"""`adaexplore serve`: one service in this process's place, or all four as children."""

from __future__ import annotations

import asyncio
import enum
import json
import os
import signal
from pathlib import Path

import typer

from adaexplore.cli.failures import CliError, ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR, address_variable
from adaexplore.cli.local import SERVICES, LocalFleet, local_fleet, service_command, service_environment


class ServiceChoice(enum.StrEnum):
    """Values of the argument."""

    GENERATOR = "generator"
    EVALUATOR = "evaluator"
    MEMORY = "memory"
    CONTROLLER = "controller"
    ALL = "all"


def serve(
    context: typer.Context,
    service: ServiceChoice = typer.Argument(help="Which service to run."),
    state_dir: Path = typer.Option(DEFAULT_STATE_DIR, help="Folder for what must survive a restart."),
    json_output: bool = typer.Option(False, "--json", help="Print the addresses as one JSON object (all)."),
    flags: list[str] = typer.Argument(None, help="Flags of the service, after `--`; `-- --help` lists them."),
) -> int:
    """Run one service, or all four, until SIGTERM or Ctrl-C."""
    state_dir = state_dir.expanduser()
    if service is not ServiceChoice.ALL:
        command = [*service_command(service.value), "--state-dir", str(state_dir), *(flags or [])]
        os.execve(command[0], command, service_environment(service.value, os.environ))  # noqa: S606 - signals must reach the service itself
    if flags:
        raise CliError("`serve all` takes no service flags; use the ADAEXPLORE_<SERVICE>_… variables, or run the services one by one")
    return int(asyncio.run(_serve_all(state_dir, json_output)))


async def _serve_all(state_dir: Path, json_output: bool) -> ExitCode:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with local_fleet(SERVICES, state_dir) as fleet:
        _print_addresses(fleet, json_output)
        ends = [asyncio.create_task(running.process.wait()) for running in fleet.services.values()]
        await asyncio.wait([asyncio.create_task(stop.wait()), *ends], return_when=asyncio.FIRST_COMPLETED)
        dead = fleet.dead()
    if dead and not stop.is_set():
        raise CliError(f"the {dead[0].name} service ended by itself; see {dead[0].log}", ExitCode.INFRASTRUCTURE)
    return ExitCode.OK


def _print_addresses(fleet: LocalFleet, json_output: bool) -> None:
    if json_output:
        print(json.dumps({name: fleet.address(name) for name in SERVICES}), flush=True)
        return
    for name in SERVICES:
        print(f"export {address_variable(name)}={fleet.address(name)}", flush=True)
