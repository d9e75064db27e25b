"""Connections to one endpoint: reused while that is safe, never shared, and closed as soon as a call is left."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import getproxies

import httpx

from adaexplore_generator.providers.plain_http import PlainTransport
from adaexplore_generator.providers.settings import EndpointSettings, is_loopback

# A connection that the other side closes just as it is used again leaves unknown whether the request was taken, so that the call is lost
# and counts as paid. Servers keep idle connections for two seconds at least (uvicorn, Node, llama.cpp: five; nginx: 75); one that idled for
# less than a second is not in danger, and a call that follows another of the same step comes sooner than that.
_REUSED_WITHIN_S = 1.0
# As many as may be at work by default: under load, replies end in bursts, and the next calls come at once.
_MOST_IDLE = 64


@dataclass
class Connection:
    """A client that holds one connection at most.

    Attributes:
        client: The client.
        stream: The socket of the last answer; None before the first.

    """

    client: httpx.AsyncClient
    stream: Any = None

    def note(self, response: httpx.Response) -> None:
        """Remember the socket of an answer."""
        self.stream = response.extensions.get("network_stream")

    @property
    def reusable(self) -> bool:
        """False if the other side has something to say to an idle connection: it has most likely closed it."""
        return self.stream is not None and not self.stream.get_extra_info("is_readable")


class Connections:
    """Hands out connections, the last used first.

    One connection serves one call at a time, under HTTP/2 too. The library tells the other side nothing when a stream of a shared
    connection is left, so that a model would go on writing what is paid for; a closed connection tells it at once. And a connection that
    breaks costs one call, not all.

    Args:
        url: Base URL of the endpoint.
        settings: How patient to be.

    """

    def __init__(self, url: str, settings: EndpointSettings) -> None:
        self._url, self._settings = url, settings
        self._idle: list[Connection] = []
        self._tls: ssl.SSLContext | None = None
        # Proxies are httpx's business, which reads them from the environment; a model on this host is never behind one.
        self._plain = url.startswith("http:") and (is_loopback(url) or not getproxies())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Hold a connection; it is closed at once if the call does not end well."""
        connection = await self._take()
        try:
            yield connection
        except BaseException:
            await connection.client.aclose()
            raise
        self._idle.append(connection)
        if len(self._idle) > _MOST_IDLE:
            await self._idle.pop(0).client.aclose()

    async def close(self) -> None:
        """Close all that idle."""
        while self._idle:
            await self._idle.pop().client.aclose()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            await connection.client.aclose()
        return Connection(self._client())

    def _client(self) -> httpx.AsyncClient:
        settings, secure = self._settings, self._url.startswith("https:")
        if secure and self._tls is None:
            self._tls = httpx.create_ssl_context()  # reading the authorities takes tens of milliseconds
        timeout = httpx.Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s)
        if self._plain:
            return httpx.AsyncClient(transport=PlainTransport(_REUSED_WITHIN_S), timeout=timeout, trust_env=False)
        return httpx.AsyncClient(
            http2=secure,
            verify=self._tls or False,
            timeout=timeout,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_REUSED_WITHIN_S),
            trust_env=not is_loopback(self._url),
            follow_redirects=False,
        )
