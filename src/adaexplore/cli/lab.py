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
    return _run_lab("replay", file, ["--json"] if json_output else [])


@app.command("compare")
def compare(
    traces: Path = typer.Option(help="Recorded searches (search_traces.json)."),
    policies: str = typer.Option("", help="Policies, as NAME,NAME,…: the first against all others; all of them by default."),
    seeds: int = typer.Option(300, min=1, help="Searches of each policy on each recorded one."),
    steps: int = typer.Option(100, min=1, help="Evaluations of each search."),
    in_flight: int = typer.Option(1, min=1, help="Steps of a search made at one time."),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Compare policies on recorded searches whose steps are drawn anew: best speedup so far, area under its curve, paired differences."""
    counts = {"--seeds": seeds, "--steps": steps, "--in-flight": in_flight}
    words = [*(word for flag, count in counts.items() for word in (flag, str(count))), *(["--policies", policies] if policies else [])]
    return _run_lab("compare", traces, words + (["--json"] if json_output else []), "--traces")


def _run_lab(command: str, file: Path, words: list[str], flag: str = "") -> int:
    """Run a command of the controller's laboratory: the policies live there, and this distribution may not import it."""
    if not file.is_file():
        raise CliError(f"{file}: no such file; give the path of recorded searches")
    argv = service_command("controller")
    argv[-1] += ".lab"
    return subprocess.run([*argv, command, *([flag] if flag else []), str(file), *words], check=False).returncode
