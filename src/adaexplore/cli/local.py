"""Starts services as processes of this machine, on loopback, and stops them again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from adaexplore.cli.failures import CliError, ExitCode

SERVICES = ("generator", "evaluator", "memory", "controller")
_START_LIMIT_S = 300.0  # a service that fails ends its process, so that only a slow host waits
_RESTARTS = 3
_PLAIN_VARIABLES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "VIRTUAL_ENV"}
    | {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES"}
)
_PLAIN_PREFIXES = ("LC_", "XDG_", "PYTHON", "OMP_", "MKL_", "OPENBLAS_", "TRITON_", "COVERAGE_", "GRPC_")


@dataclass(frozen=True)
class LocalService:
    """A running service.

    Attributes:
        name: Which one.
        address: `HOST:PORT` it answers on.
        process: Its process.
        log: File that its standard error goes to.

    """

    name: str
    address: str
    process: asyncio.subprocess.Process
    log: Path


@dataclass
class LocalFleet:
    """The services that this command started, by name."""

    services: dict[str, LocalService] = field(default_factory=dict)
    revived: set[str] = field(default_factory=set)

    def address(self, name: str) -> str:
        """Return the address of one service."""
        return self.services[name].address

    def dead(self) -> list[LocalService]:
        """Return the services whose process has ended for good."""
        return [item for name, item in self.services.items() if item.process.returncode is not None and name not in self.revived]


def _entry_point(name: str) -> EntryPoint:
    found = [point for point in entry_points(group="adaexplore.services") if point.name == name]
    if not found:
        raise CliError(f"the {name} service is not installed; run: pip install 'adaexplore[{name}]'")
    return found[0]


def service_command(name: str) -> list[str]:
    """Return the command line that runs a service in a process of its own.

    Raises:
        CliError: The service's extra is not installed.

    """
    return [sys.executable, "-m", _entry_point(name).module.removesuffix(".__main__")]


def service_environment(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a service: the generator gets all of it, the others only what is known to hold no secret."""
    quiet = {"GRPC_VERBOSITY": "NONE"}  # the library's own lines would stand beside our one-line errors
    if name == "generator":
        return quiet | dict(environ)
    prefixes = (*_PLAIN_PREFIXES, f"ADAEXPLORE_{name.upper()}_")
    return quiet | {key: value for key, value in environ.items() if key in _PLAIN_VARIABLES or key.startswith(prefixes)}


async def start_service(name: str, flags: Sequence[str], state_dir: Path, environ: Mapping[str, str]) -> LocalService:
    """Start one service and wait until it accepts calls.

    Raises:
        CliError: It ended or did not announce its address; the message is its own last line.

    """
    log = state_dir / "logs" / f"{name}.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            start = stream.tell()
            process = await asyncio.create_subprocess_exec(
                *service_command(name),
                *("--state-dir", str(state_dir), "--parent-pid", str(os.getpid()), *flags),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stream,
                env=service_environment(name, environ),
                start_new_session=True,  # Ctrl-C reaches this command alone, which then stops the services in order
            )
    except OSError as error:
        raise CliError(
            f"cannot write {log}: {error.strerror}; choose another --state-dir or free some space", ExitCode.INFRASTRUCTURE
        ) from error
    try:
        address = await _announced(process)
    except asyncio.CancelledError:
        await _stop(process)
        raise
    if address is None:
        await _stop(process)
        raise CliError(_last_line(log, start) or f"{name} did not start; see {log}", ExitCode.INFRASTRUCTURE)
    return LocalService(name, address, process, log)


async def _checked(start: Awaitable[LocalService], check: Callable[[str], Awaitable[None]] | None) -> LocalService:
    service = await start
    try:
        if check is not None:
            await check(service.address)
    except BaseException:
        await _stop(service.process)
        raise
    return service


async def _all_or_none(starting: Sequence[asyncio.Task[LocalService]]) -> list[LocalService]:
    """The services once all of them run; the first that fails ends the others, also those that have not started yet."""
    try:
        return await asyncio.gather(*starting)
    except BaseException:
        for task in starting:
            task.cancel()
        for service in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(service, LocalService):
                await _stop(service.process)
        raise


async def _announced(process: asyncio.subprocess.Process) -> str | None:
    with contextlib.suppress(TimeoutError, ValueError, KeyError):
        stream = cast(asyncio.StreamReader, process.stdout)  # a pipe was asked for
        line = await asyncio.wait_for(stream.readline(), _START_LIMIT_S)
        return str(json.loads(line)["address"])
    return None


def _last_line(log: Path, start: int) -> str:
    with log.open("rb") as stream:
        stream.seek(start)
        lines = [line for line in stream.read().decode(errors="replace").splitlines() if line.strip() and not line.startswith("{")]
    return lines[-1] if lines else ""


async def _stop(process: asyncio.subprocess.Process, grace_s: float = 15.0) -> None:
    if process.returncode is None:
        _signal(process, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except TimeoutError:
            _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # Process.send_signal would reap a process that has just ended, and the loop's own watcher would then complain.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


async def _revive(fleet: LocalFleet, name: str, flags: Sequence[str], state_dir: Path, environ: Mapping[str, str]) -> None:
    """Start a leaf again, on the same port, whenever its process ends; the controller waits for it meanwhile."""
    try:
        for _restart in range(_RESTARTS):
            ended = fleet.services[name]
            await ended.process.wait()
            fleet.services[name] = await start_service(name, [*flags, "--listen", ended.address], state_dir, environ)
    finally:
        fleet.revived.discard(name)


@contextlib.asynccontextmanager
async def local_fleet(
    names: Sequence[str],
    state_dir: Path,
    flags: Mapping[str, Sequence[str]] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    revive: bool = False,
    checks: Mapping[str, Callable[[str], Awaitable[None]]] | None = None,
) -> AsyncIterator[LocalFleet]:
    """Run services for as long as the context lasts.

    Args:
        names: Services to start; the controller is started last, with the addresses of the others.
        state_dir: Folder for what must survive a restart, and for the logs.
        flags: Further flags by service.
        environ: Environment; that of this process by default.
        revive: Start a leaf again whose process ends by itself.
        checks: Awaited with a leaf's address as soon as it runs; what one raises ends all.

    """
    flags, environ = flags or {}, os.environ if environ is None else environ
    fleet = LocalFleet()
    leaves = [name for name in names if name != "controller"]
    keepers: list[asyncio.Task[None]] = []
    try:
        asked = checks or {}
        starting = [
            asyncio.create_task(_checked(start_service(name, flags.get(name, ()), state_dir, environ), asked.get(name))) for name in leaves
        ]
        fleet.services |= {service.name: service for service in await _all_or_none(starting)}
        if "controller" in names:
            peers = [part for name in leaves for part in (f"--{name}-address", fleet.address(name))]
            own = [*peers, *flags.get("controller", ())]
            fleet.services["controller"] = await start_service("controller", own, state_dir, environ)
        if revive:
            fleet.revived |= set(leaves)
            keepers += [asyncio.create_task(_revive(fleet, name, flags.get(name, ()), state_dir, environ)) for name in leaves]
        yield fleet
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        # The controller first: it must not see its peers vanish under a step.
        for name in ("controller", *leaves):
            if name in fleet.services:
                await _stop(fleet.services[name].process)
