"""A real controller process among small gRPC peers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from integration.controller.peers import PeerServer

from adaexplore.client.controller import AsyncControllerClient
from adaexplore.controller.v1 import controller_pb2 as pb


@dataclass
class ControllerProcess:
    """A controller in a process of its own, over a state folder that outlives it."""

    state_dir: Path
    peers: PeerServer
    process: asyncio.subprocess.Process | None = None
    client: AsyncControllerClient | None = None
    variables: dict[str, str] = field(default_factory=dict)
    used: list[AsyncControllerClient] = field(default_factory=list)

    async def launch(self, *flags: str) -> asyncio.subprocess.Process:
        addresses = [part for name in ("generator", "evaluator", "memory") for part in (f"--{name}-address", self.peers.address)]
        command = [sys.executable, "-m", "adaexplore_controller", "--state-dir", str(self.state_dir), *addresses, *flags]
        log = (self.state_dir.parent / "controller.log").open("ab")
        with log:
            environ = os.environ | self.variables
            self.process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=log, env=environ)
        return self.process

    async def start(self, *flags: str) -> AsyncControllerClient:
        process = await self.launch(*flags)
        assert process.stdout
        line = await process.stdout.readline()
        assert line, (self.state_dir.parent / "controller.log").read_text()
        self.client = AsyncControllerClient(json.loads(line)["address"])
        self.used.append(self.client)
        return self.client

    async def end(self, number: int = signal.SIGKILL) -> int:
        assert self.process
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
        return await self.process.wait()

    async def close(self) -> None:
        if self.process:
            await self.end()
        for client in self.used:
            await client.close()


def search_spec(**fields: object) -> pb.SearchSpec:
    spec = pb.SearchSpec(seed=5, budget=pb.Budget(max_steps=8))
    spec.task.name, spec.task.source = "softmax", "class Model: ..."
    spec.MergeFrom(pb.SearchSpec(**fields))  # type: ignore[arg-type]
    return spec


async def started(client: AsyncControllerClient, request_id: str = "", **fields: object) -> pb.Search:
    return (await client.start_search(pb.StartSearchRequest(request_id=request_id, spec=search_spec(**fields)), 20)).search


async def events_of(client: AsyncControllerClient, name: str, after: int = 0) -> list[pb.SearchEvent]:
    stream = client.watch_search(pb.WatchSearchRequest(name=name, after_sequence=after), 120)
    return [response.event async for response in stream]


async def current(client: AsyncControllerClient, name: str) -> pb.Search:
    return (await client.get_search(pb.GetSearchRequest(name=name), 20)).search


async def until(client: AsyncControllerClient, name: str, reached: Callable[[pb.SearchEvent], bool]) -> None:
    async with contextlib.aclosing(client.watch_search(pb.WatchSearchRequest(name=name), 120)) as stream:
        async for response in stream:
            if reached(response.event):
                return


async def tree_of(client: AsyncControllerClient, name: str) -> list[tuple[object, ...]]:
    """Return what must be the same in every run: parents, moves, digests, verdicts, estimates."""
    nodes = (await client.list_nodes(pb.ListNodesRequest(parent=name, page_size=1000), 20)).nodes
    return [
        (n.parent_step, n.move, n.candidate.kernel.digest, n.evaluation.verdict, n.evaluation.timing.speedup, n.visits, n.reward_sum)
        for n in nodes
    ]


@pytest.fixture
async def peers() -> AsyncIterator[PeerServer]:
    server = PeerServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def controller(tmp_path: Path, peers: PeerServer) -> AsyncIterator[ControllerProcess]:
    controller = ControllerProcess(tmp_path / "state", peers)
    yield controller
    await controller.close()
