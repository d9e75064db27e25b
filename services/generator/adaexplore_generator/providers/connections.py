"""Connections to one endpoint: reused while that is safe, never shared, and closed as soon as a call is left."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol
from urllib.request import getproxies

import httpx

from adaexplore_generator.providers.plain_http import PlainClient
from adaexplore_generator.providers.settings import EndpointSettings, is_loopback

# A connection that the other side closes just as it is used again leaves unknown whether the request was taken, so that the call is lost
# and counts as paid. Servers keep idle connections for two seconds at least (uvicorn, Node, llama.cpp: five; nginx: 75); one that idled for
# less than a second is not in danger, and a call that follows another of the same step comes sooner than that.
_REUSED_WITHIN_S = 1.0
# As many as may be at work by default: under load, replies end in bursts, and the next calls come at once.
_MOST_IDLE = 64


class Answer(Protocol):
    """An answer whose body is still to be read.

    Attributes:
        status: The HTTP status.
        headers: The headers, whose names are found in any case.

    """

    status: int
    headers: Mapping[str, str]

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        ...


class Client(Protocol):
    """Holds one connection at most; what goes wrong on it is told in httpx's errors."""

    @property
    def reusable(self) -> bool:
        """False if there is no connection, or if the other side has something to say to it while it idles: it has most likely closed it."""
        ...

    def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> AbstractAsyncContextManager[Answer]:
        """Send a request and hold its answer."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class SecureClient:
    """A client of httpx's, for TLS, HTTP/2 and proxies; see `Client`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._stream: Any = None

    @property
    def reusable(self) -> bool:
        """False before the first answer, and if the other side has something to say to an idle connection."""
        return self._stream is not None and not self._stream.get_extra_info("is_readable")

    @asynccontextmanager
    async def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> AsyncIterator[SecureAnswer]:
        """Send a request and hold its answer."""
        async with self._client.stream(method, url, headers=headers, content=body or None) as response:
            self._stream = response.extensions.get("network_stream")
            yield SecureAnswer(response)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()


class SecureAnswer:
    """An answer over httpx; see `Answer`."""

    def __init__(self, response: httpx.Response) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.pieces = response.aiter_bytes


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
        self._idle: list[Client] = []
        self._tls: ssl.SSLContext | None = None
        # Proxies are httpx's business, which reads them from the environment; a model on this host is never behind one.
        self._plain = url.startswith("http:") and (is_loopback(url) or not getproxies())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Client]:
        """Hold a connection; it is closed at once if the call does not end well."""
        client = await self._take()
        try:
            yield client
        except BaseException:
            await client.close()
            raise
        self._idle.append(client)
        if len(self._idle) > _MOST_IDLE:
            await self._idle.pop(0).close()

    async def close(self) -> None:
        """Close all that idle."""
        while self._idle:
            await self._idle.pop().close()

    async def _take(self) -> Client:
        while self._idle:
            client = self._idle.pop()
            if client.reusable:
                return client
            await client.close()
        return self._client()

    def _client(self) -> Client:
        settings, secure = self._settings, self._url.startswith("https:")
        if self._plain:
            return PlainClient(_REUSED_WITHIN_S, settings.connect_timeout_s, settings.idle_timeout_s)
        if secure and self._tls is None:
            self._tls = httpx.create_ssl_context()  # reading the authorities takes tens of milliseconds
        return SecureClient(
            httpx.AsyncClient(
                http2=secure,
                verify=self._tls or False,
                timeout=httpx.Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s),
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_REUSED_WITHIN_S),
                trust_env=not is_loopback(self._url),
                follow_redirects=False,
            )
        )
