"""HTTP/1.1 without TLS for httpx, over aiohttp, whose parser is compiled and hands on all pieces of a stream that have come together.

httpx's own transport takes most of a call's processor time. The one of the library httpx-aiohttp reports a connection that broke after the
request was sent as one that was never made, and a call that may have been paid for would be made again.
"""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import httpx

_NO_TIMEOUT: dict[str, float | None] = {}
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


class PlainTransport(httpx.AsyncBaseTransport):
    """Sends requests over one connection, which is used again while it is young.

    Args:
        reused_within_s: Longest idle time after which the connection is still used, in seconds.

    """

    def __init__(self, reused_within_s: float) -> None:
        self._reused_within_s = reused_within_s
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its response, the body unread.

        Raises:
            httpx.TransportError: No connection was made (ConnectError, ConnectTimeout), or something went wrong on it.

        """
        if self._session is None:
            connector = _Connector(limit=1, keepalive_timeout=self._reused_within_s)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
        limits = request.extensions.get("timeout", _NO_TIMEOUT)
        with _typed():
            response = await self._session.request(
                request.method,
                str(request.url),
                headers=request.headers.multi_items(),
                data=await request.aread() or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(sock_connect=limits.get("connect"), sock_read=limits.get("read")),
            )
        stream = _NetworkStream(self._session.connector)
        return httpx.Response(
            response.status, headers=list(response.raw_headers), stream=_Body(response), extensions={"network_stream": stream}
        )

    async def aclose(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()


class _Connector(aiohttp.TCPConnector):
    """Remembers the socket's transport: a response that came whole has let go of its connection before anybody can ask it."""

    transport: Any = None

    async def connect(self, *args: Any, **named: Any) -> Any:
        connection = await super().connect(*args, **named)
        self.transport = connection.transport
        return connection


class _NetworkStream:
    """What httpx's own transport calls so, as far as it is asked for."""

    def __init__(self, connector: Any) -> None:
        self._transport = connector.transport

    def get_extra_info(self, name: str) -> Any:
        """Return whether an idle connection has something to say, which is most likely its end."""
        if name != "is_readable":
            return None
        if self._transport is None or self._transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _typed():
            async for piece in self._response.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        """Give the connection back if all was read, else close it, so that the other side stops at once."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


@contextmanager
def _typed() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
        kind = next(mine for theirs, mine in _ERRORS if isinstance(error, theirs))
        raise kind(str(error) or type(error).__name__) from error
