"""A tiny servicer on the runtime's real server, in this process."""

import asyncio
from contextlib import asynccontextmanager

from adaexplore.memory.v1 import memory_pb2, memory_pb2_grpc
from adaexplore.runtime.config import ServiceConfig
from adaexplore.runtime.errors import NotFoundError
from adaexplore.runtime.server import serve

API = "adaexplore.memory.v1.MemoryService"


class Servicer(memory_pb2_grpc.MemoryServiceServicer):
    def __init__(self):
        self.slow_call_arrived = asyncio.Event()
        self.held_call_arrived, self.let_go = asyncio.Event(), asyncio.Event()

    async def GetSkill(self, request, context):
        if request.name == "slow":
            self.slow_call_arrived.set()
            await asyncio.sleep(30)
        if request.name == "held":
            self.held_call_arrived.set()
            await self.let_go.wait()
            return memory_pb2.GetSkillResponse()
        if request.name == "defect":
            raise ValueError("secret detail")
        if request.name == "brief":
            await asyncio.sleep(0.3)
            return memory_pb2.GetSkillResponse()
        raise NotFoundError("no such skill", reason="SKILL_NOT_FOUND", resource=request.name)


@asynccontextmanager
async def running_server(servicer=None, **settings):
    @asynccontextmanager
    async def wiring(server):
        memory_pb2_grpc.add_MemoryServiceServicer_to_server(servicer or Servicer(), server)
        yield

    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        serve(ServiceConfig(**settings), service="memory", api_services=[API], wiring=wiring, announce=address.set_result, stop=stop)
    )
    await asyncio.wait([running, address], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    try:
        yield await address, stop, running
    finally:
        stop.set()
        await running
