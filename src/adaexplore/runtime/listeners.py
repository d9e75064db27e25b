"""Ports of a server: plaintext or TLS, and the one that answers health checks alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import grpc
import structlog
from grpc_health.v1 import health_pb2_grpc

from adaexplore.runtime.credentials import Reloading, read_authorities, read_chain, read_key

_WARN_BEFORE = timedelta(days=14)
_WARN_EVERY = timedelta(days=1)
_MAX_PROBE_BYTES = 4096


class BindError(Exception):
    """The address cannot be bound; the message says what to do."""


@dataclass(frozen=True)
class TlsFiles:
    """What a server proves itself with.

    Attributes:
        cert: Its certificate with the chain.
        key: The certificate's key.
        client_ca: Authorities of client certificates, which are then demanded; none are if absent.

    """

    cert: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True)
class _Loaded:
    configuration: grpc.ServerCertificateConfiguration
    expires: datetime


class ServerCertificates:
    """A server's certificate, read again when its files change: each new connection gets the present one, open ones stay.

    Args:
        files: Where it lies.
        now: Returns the present instant.

    Raises:
        CredentialError: The files cannot be used.

    """

    def __init__(self, files: TlsFiles, now: Callable[[], datetime]) -> None:
        self._files, self._now = files, now
        self._log = structlog.get_logger()
        paths = [path for path in (files.cert, files.key, files.client_ca) if path]
        self._current = Reloading(paths, self._load, self._refused)
        self._warn_at = now()
        self._warn()

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a port is opened with."""
        fetch: Callable[[], grpc.ServerCertificateConfiguration] = self._fetch  # type: ignore[assignment]  # None means: unchanged
        demanded = self._files.client_ca is not None
        return grpc.dynamic_ssl_server_credentials(self._current.content.configuration, fetch, require_client_authentication=demanded)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        changed = self._current.refresh()
        if changed:
            self._log.info("certificate renewed", file=str(self._files.cert), expires=self._current.content.expires.isoformat())
        self._warn()
        return self._current.content.configuration if changed else None

    def _load(self) -> _Loaded:
        chain, expires = read_chain(self._files.cert, self._now())
        key = read_key(self._files.key, chain)
        authorities = read_authorities(self._files.client_ca) if self._files.client_ca else None
        return _Loaded(grpc.ssl_server_certificate_configuration([(key, chain)], authorities), expires)

    def _refused(self, problem: str) -> None:
        self._log.error("changed certificate not used; the former one stays", problem=problem)

    def _warn(self) -> None:
        now, expires = self._now(), self._current.content.expires
        if now < self._warn_at or now < expires - _WARN_BEFORE:
            return
        self._warn_at = now + _WARN_EVERY
        remedy = "renew it in place; no restart is needed"
        self._log.warning("certificate expires soon", file=str(self._files.cert), expires=expires.isoformat(), remedy=remedy)


def bind(server: grpc.aio.Server, listen: str, setting: str, credentials: grpc.ServerCredentials | None = None) -> str:
    """Open a port of a server and return its HOST:PORT.

    Args:
        server: The server.
        listen: HOST:PORT; port 0 takes a free one.
        setting: Flag that named the address, for the message.
        credentials: For TLS; plaintext if absent.

    Raises:
        BindError: The port is taken or the address is not this machine's.

    """
    try:
        port = server.add_secure_port(listen, credentials) if credentials else server.add_insecure_port(listen)
    except RuntimeError:
        port = 0
    if port == 0:
        raise BindError(f"cannot bind {listen}: the port is taken or the address is not this machine's; choose another {setting}")
    return f"{listen.rpartition(':')[0]}:{port}"


@asynccontextmanager
async def health_only(listen: str, health: health_pb2_grpc.HealthServicer) -> AsyncIterator[str]:
    """Answer health checks, and nothing else, in plaintext on a port of their own for as long as the context lasts.

    Args:
        listen: HOST:PORT; nothing is opened if empty.
        health: The servicer of the main port, so that both say the same.

    Yields:
        The bound HOST:PORT, empty if there is none.

    Raises:
        BindError: The port is taken or the address is not this machine's.

    """
    if not listen:
        yield ""
        return
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", _MAX_PROBE_BYTES), ("grpc.so_reuseport", 0)])
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    address = bind(server, listen, "--probe-listen")
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)
