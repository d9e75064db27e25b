"""Real services as processes on free ports, for tests of what calls them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from adaexplore.cli.local import SERVICES, LocalFleet, local_fleet, service_command
from adaexplore.client.security import PLAINTEXT, ChannelSecurity

_POLL_S = 0.05
_START_LIMIT_S = 300.0
_LOOK_S = 1.0
_STOP_LIMIT_S = 240.0


@dataclass
class ServerProcess:
    """A service that runs in a process of its own and keeps its port, so that it can be restarted under its callers.

    Attributes:
        name: Which service.
        state_dir: Folder for its state.
        flags: Further flags.
        security: How to ask whether it is healthy, if its flags make it speak TLS.
        host: Address to bind.
        port: Its port, known once it has started; it takes a free one and says which.

    """

    name: str
    state_dir: Path
    flags: Sequence[str] = ()
    security: ChannelSecurity = PLAINTEXT
    host: str = "127.0.0.1"
    port: int = 0

    @property
    def address(self) -> str:
        """`HOST:PORT` it answers on."""
        return f"127.0.0.1:{self.port}"

    def start(self, environ: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start the process, which ends with this one, and wait until it is healthy.

        Raises:
            RuntimeError: It ended or did not become healthy in time.

        """
        listen = f"{self.host}:{self.port}"
        own = ["--listen", listen, "--state-dir", str(self.state_dir), "--parent-pid", str(os.getpid())]
        command = [*service_command(self.name), *own, *self.flags]
        self.state_dir.mkdir(parents=True, exist_ok=True)
        told = self.state_dir / f"{self.name}-address.json"
        with (self.state_dir / f"{self.name}-test.log").open("ab") as log, told.open("wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=dict(environ or os.environ))
        self.port = self.port or _announced_port(process, told)
        try:
            _wait_healthy(self.address, self.security, process)
        except grpc.RpcError as error:
            stop_process(process)
            raise RuntimeError(f"{self.name} did not become healthy; see {self.state_dir}") from error
        return process


def _announced_port(process: subprocess.Popen[bytes], told: Path) -> int:
    for _ in range(round(_START_LIMIT_S / _POLL_S)):
        line, end, _ = told.read_text().partition("\n")
        if end:
            return int(json.loads(line)["address"].rpartition(":")[2])
        if process.poll() is not None:
            break
        time.sleep(_POLL_S)
    stop_process(process)
    raise RuntimeError(f"the service did not say where it listens; see {told.parent}")


def _wait_healthy(address: str, security: ChannelSecurity, process: subprocess.Popen[bytes]) -> None:
    credentials = security.credentials()
    deadline_s = time.monotonic() + _START_LIMIT_S
    # A service that is starting refuses connections; each refusal would double the wait for the next try.
    options = [*security.options(), *((f"grpc.{which}_reconnect_backoff_ms", 200) for which in ("initial", "min", "max"))]
    with grpc.secure_channel(address, credentials, options) if credentials else grpc.insecure_channel(address, options) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                stub.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=_LOOK_S)
            except grpc.RpcError:
                if process.poll() is not None or time.monotonic() >= deadline_s:
                    raise
            else:
                return


def stop_process(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> int:
    """Send a signal to a service, wait for its end and return its exit code."""
    if process.poll() is None:
        process.send_signal(how)
    return process.wait(timeout=_STOP_LIMIT_S)


@contextlib.contextmanager
def running_fleet(
    state_dir: Path, names: Sequence[str] = SERVICES, flags: Mapping[str, Sequence[str]] | None = None
) -> Iterator[LocalFleet]:
    """Run services on free ports, with further flags by service, in a thread's event loop for as long as the context lasts."""
    with asyncio.Runner() as runner:
        fleet = local_fleet(names, state_dir, flags)
        started = runner.run(fleet.__aenter__())
        try:
            yield started
        finally:
            runner.run(fleet.__aexit__(*sys.exc_info()))
