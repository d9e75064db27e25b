"""A bare gRPC echo server: the floor that one hop of ours is compared with. Prints its address as one JSON line."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc


async def _echo(request: bytes, _context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
    return request


async def main() -> None:
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(_echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"address": f"127.0.0.1:{port}"}), flush=True)
    await server.wait_for_termination()


asyncio.run(main())
