import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest
from adaexplore_memory.__main__ import run
from adaexplore_memory.config import MemoryConfig

from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.memory.v1 import memory_pb2 as pb
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2

SOURCE = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = {expression}
    tl.store(y_ptr + offsets, y, mask=offsets < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""


def source(expression="tl.math.tanh(x)"):
    return SOURCE.format(expression=expression)


def evaluation(kernel="kernel-1", task="task-1", **changes):
    failure = {"exception_type": "AttributeError", "detail": "module 'triton.language.math' has no attribute 'tanh'", "line": 10}
    failure |= {key: changes.pop(key) for key in list(changes) if key in ("detail", "message", "exception_type", "signature")}
    fields = {
        "kernel_digest": kernel,
        "task_digest": task,
        "verdict": evaluation_pb2.VERDICT_FAILED,
        "cause": evaluation_pb2.CAUSE_COMPILE,
        "phase": evaluation_pb2.PHASE_COMPILE,
        "failure": evaluation_pb2.Failure(**failure),
        "platform": evaluation_pb2.Platform(device=kernel_pb2.DEVICE_KIND_CPU, target="sm_90", triton_version="3.7.1"),
    }
    return evaluation_pb2.Evaluation(**(fields | changes))


def failure(request_id="failure-1", task="task-1", text=None, kernel="kernel-1", **changes):
    return pb.RecordFailureRequest(
        request_id=request_id,
        task_digest=task,
        kernel=kernel_pb2.Kernel(source=text or source()),
        evaluation=evaluation(kernel, task, **changes),
    )


@asynccontextmanager
async def serving(state_dir, **settings):
    """A memory server in this process; yields a client that speaks gRPC with it."""
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    config = MemoryConfig(state_dir=state_dir, **settings)
    server = asyncio.create_task(run(config, announce=address.set_result, stop=stop))
    await asyncio.wait([server, address], return_when=asyncio.FIRST_COMPLETED)
    client = AsyncMemoryClient(address.result() if address.done() else await server)
    try:
        yield client
    finally:
        await client.close()
        stop.set()
        await server


@asynccontextmanager
async def running(state_dir, *flags):
    """A memory server in a process of its own; yields the process and a client."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "adaexplore_memory",
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        str(state_dir),
        "--parent-pid",
        str(os.getpid()),
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if not key.startswith("ADAEXPLORE_")},
    )
    line = await process.stdout.readline()
    if not line:
        pytest.fail((await process.stderr.read()).decode())
    client = AsyncMemoryClient(json.loads(line)["address"])
    try:
        yield process, client
    finally:
        await client.close()
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()
