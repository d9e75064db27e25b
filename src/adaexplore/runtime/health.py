"""The standard health service (grpc.health.v1), whose watches end with the drain.

Those of grpc's own servicer never end, so that one watcher holds up a server for the whole of its drain, and of two that watch one
service, the second hears nothing more once the first has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health(health_pb2_grpc.HealthServicer):
    """Answers health checks; the whole server, whose name is empty, is NOT_SERVING until it is said to serve."""

    def __init__(self) -> None:
        self._statuses: dict[str, int] = {"": _NOT_SERVING}
        self._draining = False
        self._changed = asyncio.Event()

    def serving(self, *services: str) -> None:
        """Say that the server and these services of it are SERVING."""
        self._statuses |= dict.fromkeys(("", *services), health_pb2.HealthCheckResponse.SERVING)
        self._ring()

    def drain(self) -> None:
        """Say NOT_SERVING for everything from now on, and end all watches once they have told it."""
        self._statuses = dict.fromkeys(self._statuses, _NOT_SERVING)
        self._draining = True
        self._ring()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Context) -> health_pb2.HealthCheckResponse:
        """Return the status of a service; NOT_FOUND if the server has no such service."""
        status = self._statuses.get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the server has no such service")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Stream the status of a service, now and at each change, until the server drains."""
        told: int | None = None
        while True:
            changed, status = self._changed, self._statuses.get(request.service, _UNKNOWN)
            if status != told:
                told = status
                yield health_pb2.HealthCheckResponse(status=status)
            if self._draining and self._statuses.get(request.service, _UNKNOWN) == told:
                return
            await changed.wait()

    def _ring(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
