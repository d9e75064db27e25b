"""Wires the memory service and serves it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import grpc

from adaexplore.memory.v1 import memory_pb2_grpc
from adaexplore.runtime.config import load_config
from adaexplore.runtime.server import run_service, serve
from adaexplore.runtime.store_config import engine_for
from adaexplore_memory.config import ENVIRONMENT_PREFIX, MemoryConfig
from adaexplore_memory.memory import Memory
from adaexplore_memory.servicer import MemoryServicer
from adaexplore_memory.store import SCHEMA, open_store

API = "adaexplore.memory.v1.MemoryService"


async def run(config: MemoryConfig, *, announce: Callable[[str], None] | None = None, stop: asyncio.Event | None = None) -> None:
    """Serve with a configuration until told to stop.

    Args:
        config: Settings.
        announce: Called with the bound address; prints one JSON line by default.
        stop: Ends the server when set; tied to SIGTERM and SIGINT by default.

    Raises:
        UnavailableError: The store cannot be used.
        SchemaOutdatedError: The PostgreSQL database has not been migrated.
        BindError: The address cannot be bound.

    """

    @asynccontextmanager
    async def wiring(server: grpc.aio.Server) -> AsyncIterator[None]:
        async with open_store(engine_for(config, SCHEMA)) as store:
            memory = Memory(store, now_us=lambda: time.time_ns() // 1_000)
            await memory.warm()
            memory_pb2_grpc.add_MemoryServiceServicer_to_server(MemoryServicer(memory), server)
            try:
                yield
            finally:
                memory.close()

    await serve(config, service="memory", api_services=[API], wiring=wiring, announce=announce, stop=stop)


def main() -> NoReturn:
    """Run the service as this process."""
    run_service(lambda: load_config(MemoryConfig, ENVIRONMENT_PREFIX, sys.argv[1:], os.environ), "memory", run)


if __name__ == "__main__":
    main()
