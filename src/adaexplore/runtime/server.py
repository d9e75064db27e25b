"""Server bootstrap: bind, health, reflection, announcement, graceful drain."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, NoReturn

import grpc
import structlog
import uvloop
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME
from grpc_reflection.v1alpha import reflection

from adaexplore.runtime.config import ConfigError, ServiceConfig
from adaexplore.runtime.credentials import CredentialError
from adaexplore.runtime.errors import ServiceError
from adaexplore.runtime.health import Health
from adaexplore.runtime.interceptors import RpcInterceptor
from adaexplore.runtime.listeners import BindError, ServerCertificates, TlsFiles, bind, health_only
from adaexplore.runtime.logging import configure_logging
from adaexplore.runtime.tokens import Callers

# A context manager that registers servicers on entry and releases what they hold on exit, after the last call.
Wiring = Callable[[grpc.aio.Server], AbstractAsyncContextManager[None]]
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# A thread that has the interpreter keeps it this long while another waits, once for each statement of a store: Python's 5 ms add up.
_SWITCH_INTERVAL_S = 0.0005
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4


async def serve(
    config: ServiceConfig,
    *,
    service: str,
    api_services: Sequence[str],
    wiring: Wiring,
    announce: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Args:
        config: Address, drain time and logging.
        service: Short name, for example `evaluator`.
        api_services: Full names of the gRPC services, for health and reflection.
        wiring: Registers the servicers and releases what they hold.
        announce: Called with the bound address once calls are accepted; prints one JSON line by default.
        stop: Ends the server when set; a fresh one tied to the signals by default.

    Raises:
        BindError: The port is taken or the address is not ours.
        CredentialError: A certificate, key or tokens file has become unusable since the configuration was checked.

    """
    stop = stop or _stop_on_signals()
    if config.parent_pid:
        _end_with(config.parent_pid, stop)
    server, checker = _made(config, f"{service}.adaexplore", api_services)
    # The probes' port opens first and closes last: it says NOT_SERVING for as long as the service starts and drains.
    async with health_only(config.probe_listen, checker) as probe, wiring(server):
        address = bind(server, config.listen, "--listen", _certificates(config))
        await server.start()
        checker.serving(*api_services)
        (announce or _print_address(service))(address)
        structlog.get_logger().info("serving", address=address, **_protection(config), **({"probe_address": probe} if probe else {}))
        await stop.wait()
        checker.drain()
        structlog.get_logger().info("draining", drain_s=config.drain_s)
        await server.stop(config.drain_s)
    structlog.get_logger().info("stopped")


def run_service(config: Callable[[], ServiceConfig], service: str, run: Callable[[Any], Coroutine[Any, Any, None]]) -> NoReturn:
    """Load the configuration, run the service, and exit with a code: 0 drained, 2 wrong configuration, 1 anything else.

    Args:
        config: Loads the configuration; its ConfigError is printed line by line.
        service: Short name for messages and logs.
        run: Serves with the configuration until it is told to stop.

    """
    try:
        _forbid_inspection()
        loaded = config()
        configure_logging(loaded.log_level, loaded.log_format, service)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(loaded))
    except ConfigError as error:
        for problem in error.problems:
            print(f"{service}: {problem}", file=sys.stderr)
        sys.exit(2)
    except (BindError, CredentialError, ServiceError) as error:
        print(f"{service}: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _made(config: ServiceConfig, domain: str, api_services: Sequence[str]) -> tuple[grpc.aio.Server, Health]:
    callers = Callers(config.tokens_file, _tokens_refused) if config.tokens_file else None
    server = grpc.aio.server(
        interceptors=[RpcInterceptor(domain, config.max_deadline_s, callers)],
        options=[("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES), ("grpc.so_reuseport", 0)],
    )
    checker = Health()
    health_pb2_grpc.add_HealthServicer_to_server(checker, server)
    reflection.enable_server_reflection([*api_services, SERVICE_NAME, reflection.SERVICE_NAME], server)
    return server, checker


def _certificates(config: ServiceConfig) -> grpc.ServerCredentials | None:
    if not (config.tls_cert_file and config.tls_key_file):
        return None
    files = TlsFiles(config.tls_cert_file, config.tls_key_file, config.tls_client_ca_file)
    return ServerCertificates(files, lambda: datetime.now(UTC)).credentials()


def _tokens_refused(problem: str) -> None:
    structlog.get_logger().error("changed tokens file not used; the former one stays", problem=problem)


def _protection(config: ServiceConfig) -> dict[str, str]:
    tls = "mutual" if config.tls_client_ca_file else "server" if config.tls_cert_file else "none"
    return {"tls": tls, "tokens": "demanded" if config.tokens_file else "none"}


def _end_with(parent_pid: int, stop: asyncio.Event) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        stop.set()  # it ended before the signal was asked for


def _forbid_inspection() -> None:
    # Keys live in the environment: without this, any process of the same user could read them from /proc.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0)


def _stop_on_signals() -> asyncio.Event:
    # As PID 1 the kernel drops signals without a handler, so both are always installed.
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _print_address(service: str) -> Callable[[str], None]:
    def announce(address: str) -> None:
        print(json.dumps({"service": service, "address": address, "pid": os.getpid()}), flush=True)

    return announce
