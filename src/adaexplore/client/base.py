"""What all clients share: channels with the service config, security, deadlines, typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from types import TracebackType
from typing import Any, Self, cast

import grpc

from adaexplore.client.channels import RenewingChannel
from adaexplore.client.faults import explained
from adaexplore.client.security import PLAINTEXT, ChannelSecurity
from adaexplore.runtime.addresses import is_loopback

_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# By default a channel waits up to two minutes before it looks for a restarted server again.
_MAX_RECONNECT_BACKOFF_MS = 5_000


def _options(api: str, address: str) -> list[tuple[str, Any]]:
    config = files(f"adaexplore.{api}.v1").joinpath(f"{api}_grpc_service_config.json").read_text()
    return [
        ("grpc.service_config", config),
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.enable_retries", 1),
        ("grpc.max_reconnect_backoff_ms", _MAX_RECONNECT_BACKOFF_MS),
        # A proxy is for what is elsewhere: what goes to this machine, tokens in plaintext too, must stay on it.
        ("grpc.enable_http_proxy", 0 if is_loopback(address) else 1),
    ]


class AsyncClient:
    """Base of the asynchronous clients; an asynchronous context manager that closes its channel.

    Args:
        address: `HOST:PORT` of the service.
        security: TLS and token; plaintext without a token by default.

    Raises:
        CredentialError: A file of the security cannot be used, or the token would leave the machine in plaintext.

    """

    api: str

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        self.address, self._security = address, security
        self._bearer = security.bearer(address)
        options = _options(self.api, address) + security.options()
        self._closing: set[asyncio.Task[None]] = set()

        def make(credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
            if credentials:
                return grpc.aio.secure_channel(address, credentials, options=options)
            return grpc.aio.insecure_channel(address, options=options)

        self._renewing = RenewingChannel(security, make, self._close_soon)
        # Of a channel, a stub uses the methods alone that this one has.
        self._channel = cast(grpc.aio.Channel, self._renewing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel; calls in flight are cancelled."""
        for channel in self._renewing.channels():
            await channel.close()
        await asyncio.gather(*self._closing)

    def _close_soon(self, channel: grpc.aio.Channel) -> None:
        task = asyncio.get_running_loop().create_task(channel.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _unary(self, method: Any, request: Any, timeout_s: float | None) -> Any:
        try:
            with self._renewing.connection() as connection:
                return await method.on(connection)(request, timeout=timeout_s, metadata=self._bearer.metadata())
        except grpc.RpcError as error:
            raise explained(error, f"{self.api} at {self.address}", self._security) from error

    async def _stream(self, method: Any, request: Any, timeout_s: float | None) -> AsyncIterator[Any]:
        with self._renewing.connection() as connection:
            call = method.on(connection)(request, timeout=timeout_s, metadata=self._bearer.metadata())
            try:
                async for response in call:
                    yield response
            except grpc.RpcError as error:
                raise explained(error, f"{self.api} at {self.address}", self._security) from error
            finally:
                call.cancel()


class SyncClient:
    """Base of the synchronous clients; a context manager that closes its channel.

    Args:
        address: `HOST:PORT` of the service.
        security: TLS and token; plaintext without a token by default.

    Raises:
        CredentialError: A file of the security cannot be used, or the token would leave the machine in plaintext.

    """

    api: str

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        self.address, self._security = address, security
        self._bearer = security.bearer(address)
        options = _options(self.api, address) + security.options()

        def make(credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
            if credentials:
                return grpc.secure_channel(address, credentials, options=options)
            return grpc.insecure_channel(address, options=options)

        self._renewing = RenewingChannel(security, make, lambda channel: channel.close())
        self._channel = cast(grpc.Channel, self._renewing)  # as above

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel; calls in flight are cancelled."""
        for channel in self._renewing.channels():
            channel.close()

    def _unary(self, method: Any, request: Any, timeout_s: float | None) -> Any:
        try:
            with self._renewing.connection() as connection:
                return method.on(connection)(request, timeout=timeout_s, metadata=self._bearer.metadata())
        except grpc.RpcError as error:
            raise explained(error, f"{self.api} at {self.address}", self._security) from error

    def _stream(self, method: Any, request: Any, timeout_s: float | None) -> Iterator[Any]:
        with self._renewing.connection() as connection:
            call = method.on(connection)(request, timeout=timeout_s, metadata=self._bearer.metadata())
            try:
                yield from call
            except grpc.RpcError as error:
                raise explained(error, f"{self.api} at {self.address}", self._security) from error
            finally:
                call.cancel()
