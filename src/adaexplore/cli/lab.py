"""`adaexplore lab`: policies against recorded searches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import typer

from adaexplore.cli.failures import CliError
from adaexplore.cli.local import service_command

app = typer.Typer(help="Policies against recorded searches.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Policies against recorded searches."""


@app.command("replay")
def replay(
    file: Path = typer.Argument(help="Recorded searches (search_traces.json)."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Feed the paper's policy the recorded outcomes and moves; it must select the recorded parent in every step."""
    if not file.is_file():
        raise CliError(f"{file}: no such file; give the path of recorded searches")
    # The policies live in the controller, which this distribution may not import.
    command = service_command("controller")
    command[-1] += ".lab"
    return subprocess.run([*command, "replay", str(file), *(["--json"] if json_output else [])], check=False).returncode
