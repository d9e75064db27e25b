import asyncio
import json
import os
import signal
import socket
import sys
import textwrap
from pathlib import Path

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from integration.runtime.servers import API, running_server

from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.memory.v1 import memory_pb2
from adaexplore.runtime.errors import DeadlineError, InternalError, NotFoundError, UnavailableError
from adaexplore.runtime.logging import configure_logging
from adaexplore.runtime.server import BindError


@pytest.fixture(autouse=True)
def _fresh_logging():
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


async def test_a_typed_error_arrives_typed():
    async with running_server() as (address, _, _), AsyncMemoryClient(address) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.get_skill(memory_pb2.GetSkillRequest(name="skills/a"))
    assert (caught.value.reason, caught.value.domain, caught.value.resource) == ("SKILL_NOT_FOUND", "memory.adaexplore", "skills/a")


async def test_a_defect_tells_the_caller_nothing_and_the_log_everything(capfd):
    configure_logging("info", "json", "memory")
    async with running_server() as (address, _, _), AsyncMemoryClient(address) as client:
        with pytest.raises(InternalError) as caught:
            await client.get_skill(memory_pb2.GetSkillRequest(name="defect"))
    assert "secret detail" not in caught.value.message
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert any("secret detail" in line.get("exception", "") for line in lines)
    canonical = [line for line in lines if line["event"] == "rpc"]
    assert [line["code"] for line in canonical] == ["INTERNAL"]


async def test_a_call_without_a_deadline_gets_the_longest_one():
    async with running_server(max_deadline_s=0.2) as (address, _, _), AsyncMemoryClient(address) as client:
        with pytest.raises(DeadlineError):
            await client.get_skill(memory_pb2.GetSkillRequest(name="slow"))


async def test_health_and_reflection_answer():
    async with running_server() as (address, _, _), grpc.aio.insecure_channel(address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=API))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
        async for response in reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(requests)):
            assert API in [service.name for service in response.list_services_response.service]


async def test_a_call_in_flight_survives_the_drain():
    async with running_server() as (address, stop, running), AsyncMemoryClient(address) as client:
        call = asyncio.create_task(client.get_skill(memory_pb2.GetSkillRequest(name="brief")))
        await asyncio.sleep(0.1)
        stop.set()
        await call
        await running
        with pytest.raises(UnavailableError):
            await client.get_skill(memory_pb2.GetSkillRequest(name="brief"), timeout_s=5)


async def test_watches_of_health_end_with_the_drain_and_do_not_hold_it_up():
    async with running_server(drain_s=30) as (address, stop, running), grpc.aio.insecure_channel(address) as channel:
        leaving, staying = (health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=API)) for _ in range(2))
        assert (await leaving.read()).status == (await staying.read()).status == health_pb2.HealthCheckResponse.SERVING
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving.read()
        stop.set()
        assert (await staying.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert await staying.read() is grpc.aio.EOF
        assert await staying.code() is grpc.StatusCode.OK
        await running


async def test_the_health_of_an_unknown_service_is_told_as_the_protocol_says():
    request = health_pb2.HealthCheckRequest(service="adaexplore.other.v1.OtherService")
    async with running_server() as (address, _, _), grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health_pb2_grpc.HealthStub(channel).Check(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = health_pb2_grpc.HealthStub(channel).Watch(request)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()


async def test_a_busy_port_is_said_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BindError, match="the port is taken"):
        async with running_server(listen=f"127.0.0.1:{taken.getsockname()[1]}"):
            pass


async def test_sigterm_drains_even_as_pid_1_of_a_namespace(tmp_path):
    script = tmp_path / "service.py"
    script.write_text(
        textwrap.dedent("""
        from contextlib import asynccontextmanager
        from adaexplore.runtime.config import ServiceConfig
        from adaexplore.runtime.server import run_service, serve

        @asynccontextmanager
        async def wiring(server):
            yield

        async def run(config):
            await serve(config, service="memory", api_services=[], wiring=wiring)

        run_service(ServiceConfig, "memory", run)
        """)
    )
    command = [sys.executable, str(script)]
    if os.geteuid() == 0:
        command = ["unshare", "--pid", "--fork", "--kill-child", *command]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
    announced = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    service = process.pid
    if os.geteuid() == 0:
        assert announced["pid"] == 1
        service = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    os.kill(service, signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 60) == 0
