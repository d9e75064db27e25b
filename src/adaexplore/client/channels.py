"""A channel that takes up renewed certificates, which grpc's own cannot: it keeps for good what it began with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import structlog

from adaexplore.client.security import ChannelSecurity
from adaexplore.runtime.credentials import Reloading

Maker = Callable[[grpc.ChannelCredentials | None], Any]


@dataclass(eq=False, slots=True)
class Connection:
    """One channel of grpc, its methods by their full names, and how many calls are in flight on it."""

    channel: Any
    methods: dict[str, Any] = field(default_factory=dict)
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a stub that is not bound to a channel yet."""

    kind: str
    name: str
    words: tuple[Any, ...]
    more: dict[str, Any]

    def on(self, connection: Connection) -> Any:
        """Return the method bound to a connection's channel."""
        if self.name not in connection.methods:
            connection.methods[self.name] = getattr(connection.channel, self.kind)(self.name, *self.words, **self.more)
        return connection.methods[self.name]


class RenewingChannel:
    """What a stub takes for its channel. When the TLS files change, the next call goes over a new connection; open calls stay on theirs.

    Args:
        security: Names the files.
        make: Opens a channel with credentials, plaintext without.
        close: Closes a channel on which no call is in flight any more.

    Raises:
        CredentialError: The files cannot be used from the start; later changes that cannot be used are logged and not taken up.

    """

    def __init__(self, security: ChannelSecurity, make: Maker, close: Callable[[Any], None]) -> None:
        self._make, self._close = make, close
        self._lock = threading.Lock()
        self._credentials = Reloading(security.tls_files(), security.credentials, _refused)
        self._present = Connection(make(self._credentials.content))
        self._former: set[Connection] = set()

    def unary_unary(self, name: str, *words: Any, **more: Any) -> Method:
        """Return a method with one request and one answer, as a channel does."""
        return Method("unary_unary", name, words, more)

    def unary_stream(self, name: str, *words: Any, **more: Any) -> Method:
        """Return a method with one request and a stream of answers, as a channel does."""
        return Method("unary_stream", name, words, more)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend the present connection for one call."""
        with self._lock:
            if self._credentials.refresh():
                self._renew()
            lent = self._present
            lent.calls += 1
        try:
            yield lent
        finally:
            with self._lock:
                lent.calls -= 1
                self._let_go()

    def channels(self) -> list[Any]:
        """Return all channels that are open."""
        with self._lock:
            return [connection.channel for connection in (self._present, *self._former)]

    def _renew(self) -> None:
        self._former.add(self._present)
        self._present = Connection(self._make(self._credentials.content))
        self._let_go()
        structlog.get_logger().info("certificate of the client renewed")

    def _let_go(self) -> None:
        for connection in [former for former in self._former if not former.calls]:
            self._former.remove(connection)
            self._close(connection.channel)


def _refused(problem: str) -> None:
    structlog.get_logger().error("changed certificate of the client not used; the former one stays", problem=problem)
