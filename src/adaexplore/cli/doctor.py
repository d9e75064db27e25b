"""`adaexplore doctor`: what this machine can do."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from adaexplore.cli.connection import connecting
from adaexplore.cli.failures import CliError
from adaexplore.cli.fleet import addresses
from adaexplore.cli.output import print_json
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.runtime.errors import ServiceError

_KEYS = ("ADAEXPLORE_GENERATOR_OPENAI_API_KEY", "ADAEXPLORE_GENERATOR_OPENAI_API_KEY_FILE", "OPENAI_API_KEY")
_PACKAGES = ("torch", "triton", "grpcio", "protobuf", "numpy")


@connecting
def doctor(json_output: bool = typer.Option(False, "--json", help="Print one JSON object.")) -> None:
    """Tell what this machine can do: GPU and who uses it, Triton, sandbox level, process limit, keys found."""
    facts = examine(os.environ)
    if json_output:
        print_json(facts)
        return
    table = Table(show_header=False)
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), _words(value))
    Console().print(table)


def examine(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts; of keys only the variables' names, never a value."""
    return {
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "supported": platform.system() == "Linux",
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in _PACKAGES},
        "services_installed": sorted(point.name for point in entry_points(group="adaexplore.services")),
        "gpus": _gpus(),
        **_isolation(),
        "keys_found": [name for name in _KEYS if environ.get(name)],
        "free_disk_gb": round(shutil.disk_usage("/tmp").free / 1e9, 1),  # noqa: S108 - where candidates' private folders live
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _query(*fields: str) -> list[list[str]]:
    executable = shutil.which("nvidia-smi")
    if executable is None:
        return []
    try:
        done = subprocess.run(
            [executable, *fields, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20, check=False
        )
    except subprocess.TimeoutExpired:
        return []
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]


def _gpus() -> list[dict[str, Any]]:
    users: dict[str, list[int]] = {}
    for uuid, pid in _query("--query-compute-apps=gpu_uuid,pid"):
        users.setdefault(uuid, []).append(int(pid))
    rows = _query("--query-gpu=index,name,uuid,driver_version,memory.total,memory.used,utilization.gpu")
    return [
        {
            "index": int(index),
            "name": name,
            "driver": driver,
            "memory_total_mib": int(total),
            "memory_used_mib": int(used),
            "utilization_percent": int(busy) if busy.isdigit() else None,
            "process_ids": users.get(uuid, []),
        }
        for index, name, uuid, driver, total, used, busy in rows
    ]


def _isolation() -> dict[str, str]:
    """What the evaluator itself reaches here: it is started for the question, since its own flags decide."""
    try:
        device = asyncio.run(_first_device())
    except (CliError, ServiceError) as error:
        return {"sandbox_level": f"unknown: {error}", "process_limit": "unknown"}
    return {"sandbox_level": _level(device.sandbox_level), "process_limit": _process_limit(device.tasks_bounded)}


def _level(reached: str) -> str:
    if reached == "namespaces":
        return reached
    installed = shutil.which("bwrap") is not None
    why = "this host refuses user namespaces to bubblewrap" if installed else "bubblewrap is not installed: apt-get install bubblewrap"
    return f"{reached} ({why})"


def _process_limit(bounded: bool) -> str:
    if bounded:
        return "kernel"
    return "monitor (this user may make no control group with the pids controller: fork bombs are killed, but not held to a number)"


async def _first_device() -> evaluator_pb2.Device:
    with tempfile.TemporaryDirectory() as folder:
        async with addresses(["evaluator"], Path(folder)) as at, at.client(AsyncEvaluatorClient) as client:
            return (await client.list_devices(evaluator_pb2.ListDevicesRequest(), timeout_s=60)).devices[0]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item or 'missing'}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_words(item) for item in value) or "none"
    return str(value)
