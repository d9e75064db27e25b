"""HTTP/1.1 without TLS, over aiohttp, whose parser is compiled and hands on all pieces of a stream that have come together.

With httpx an exchange takes three times the processor time. Its errors are spoken here all the same, so that both are told apart nowhere
else; a library that does so, httpx-aiohttp, reports a connection that broke after the request was sent as one that was never made, and a
call that may have been paid for would be made again.
"""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import httpx

# The first that fits counts. Only what happens before a connection stands may be an error of connecting.
_ERRORS: tuple[tuple[type[BaseException], type[httpx.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (TimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientPayloadError, httpx.ReadError),
    (aiohttp.ClientConnectionError, httpx.ReadError),
    (OSError, httpx.ReadError),
    (aiohttp.ClientError, httpx.RemoteProtocolError),
)


class PlainClient:
    """Sends requests over one connection, which is used again while it is young; see `Client`.

    Args:
        reused_within_s: Longest idle time after which the connection is still used, in seconds.
        connect_s: Longest time to connect, in seconds.
        silent_s: Longest silence of the other side, in seconds.

    """

    def __init__(self, reused_within_s: float, connect_s: float, silent_s: float) -> None:
        self._reused_within_s = reused_within_s
        self._timeout = aiohttp.ClientTimeout(sock_connect=connect_s, sock_read=silent_s)
        self._session: aiohttp.ClientSession | None = None

    @property
    def reusable(self) -> bool:
        """False if an idle connection has something to say, which is most likely its end."""
        transport = getattr(self._session.connector, "transport", None) if self._session else None
        if transport is None or transport.is_closing():
            return False
        poll = select.poll()
        poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    @asynccontextmanager
    async def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> AsyncIterator[PlainAnswer]:
        """Send a request and hold its answer; what is left unread closes the connection, so that the other side stops at once.

        Raises:
            httpx.TransportError: No connection was made (ConnectError, ConnectTimeout), or something went wrong on it.

        """
        if self._session is None:
            connector = _Connector(limit=1, keepalive_timeout=self._reused_within_s)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        with _typed():
            response = await self._session.request(
                method, url, headers=headers, data=body or None, allow_redirects=False, timeout=self._timeout
            )
        try:
            yield PlainAnswer(response)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()


class PlainAnswer:
    """An answer whose body is still to be read; see `Answer`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers
        self._content = response.content

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        with _typed():
            async for piece in self._content.iter_any():
                yield piece


class _Connector(aiohttp.TCPConnector):
    """Remembers the socket's transport: a response that came whole has let go of its connection before anybody can ask it."""

    transport: Any = None

    async def connect(self, *args: Any, **named: Any) -> Any:
        connection = await super().connect(*args, **named)
        self.transport = connection.transport
        return connection


@contextmanager
def _typed() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
        kind = next(mine for theirs, mine in _ERRORS if isinstance(error, theirs))
        raise kind(str(error) or type(error).__name__) from error
