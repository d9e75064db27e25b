"""What the services cost beside the work itself: one hop, one step of the controller, cold and warm evaluations.

    python -m benchmarks.fixed_costs [--steps N] [--calls N]

Everything runs on this machine in one run: ratios are what to quote, times are medians with the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from adaexplore.cli.local import SERVICES, LocalFleet, local_fleet
from adaexplore.client.controller import AsyncControllerClient
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.controller.v1 import controller_pb2
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.generator.v1 import generator_pb2
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

INPUTS = Path(__file__).parents[1] / "tests" / "e2e" / "inputs"
TASK = task_pb2.Task(name="bench", source=(INPUTS / "task.py").read_text())
KERNEL = (INPUTS / "kernel.py").read_text()
WAITING = ("generating", "evaluating")


def spread(samples: list[float]) -> str:
    """Median and 10th to 90th percentile of samples in milliseconds."""
    ordered = sorted(samples)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    return f"median {statistics.median(ordered):9.2f} ms   ({low:.2f}–{high:.2f}, n = {len(ordered)})"


@asynccontextmanager
async def echo_server() -> AsyncIterator[str]:
    """Yield the address of a bare echo server in a process of its own."""
    script = str(Path(__file__).parent / "echo_server.py")
    process = await asyncio.create_subprocess_exec(sys.executable, script, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())["address"]
    finally:
        process.terminate()
        await process.wait()


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    """Milliseconds that one call takes."""
    start_s = time.perf_counter()
    await call()
    return (time.perf_counter() - start_s) * 1e3


async def hop(fleet: LocalFleet, calls: int) -> None:
    """One unary hop through our server and client against a bare echo, in turn."""
    async with echo_server() as address, grpc.aio.insecure_channel(address) as channel:
        echo: Any = channel.unary_unary("/bench.Echo/Echo")
        async with AsyncGeneratorClient(fleet.address("generator")) as client:
            request = generator_pb2.ListModelsRequest(provider="templates")
            ours, bare = [], []
            for turn in range(calls + 50):
                pair = await timed(lambda: echo(b"hello")), await timed(lambda: client.list_models(request))
                if turn >= 50:
                    bare.append(pair[0])
                    ours.append(pair[1])
    print(f"one hop, bare echo          {spread(bare)}")
    print(f"one hop, ours               {spread(ours)}   ratio {statistics.median(ours) / statistics.median(bare):.2f}")


async def evaluate(address: str, source: str, cache: evaluator_pb2.CacheMode.ValueType) -> float:
    """Milliseconds of one evaluation, which must pass."""
    request = evaluator_pb2.EvaluateKernelRequest(
        request_id=uuid.uuid4().hex, task=TASK, kernel=kernel_pb2.Kernel(source=source), cache_mode=cache
    )
    start_s = time.perf_counter()
    async with AsyncEvaluatorClient(address) as client:
        async for event in client.evaluate_kernel(request, timeout_s=600):
            if event.HasField("evaluation") and event.evaluation.verdict != evaluation_pb2.VERDICT_PASSED:
                raise SystemExit(f"the benchmark's kernel did not pass: {event.evaluation.failure.message}")
    return (time.perf_counter() - start_s) * 1e3


async def evaluations(folder: Path, repeats: int) -> None:
    """A fresh evaluator's first evaluation, then warm ones of the same task, then answers of the cache."""
    cold = []
    for turn in range(3):
        start_s = time.perf_counter()
        async with local_fleet(["evaluator"], folder / f"cold-{turn}") as fleet:
            await evaluate(fleet.address("evaluator"), KERNEL, evaluator_pb2.CACHE_MODE_USE)
            cold.append((time.perf_counter() - start_s) * 1e3)
            if turn == 2:
                address = fleet.address("evaluator")
                bypass, use = evaluator_pb2.CACHE_MODE_BYPASS, evaluator_pb2.CACHE_MODE_USE
                warm = [await evaluate(address, KERNEL, bypass) for _ in range(repeats)]
                cached = [await evaluate(address, KERNEL, use) for _ in range(repeats)]
    print(f"evaluation, cold server     {spread(cold)}")
    print(f"evaluation, warm server     {spread(warm)}   cold ÷ warm {statistics.median(cold) / statistics.median(warm):.2f}")
    print(f"evaluation, from the cache  {spread(cached)}   warm ÷ cached {statistics.median(warm) / statistics.median(cached):.0f}")


async def controller_steps(fleet: LocalFleet, steps: int) -> None:
    """Time of the controller outside generation and evaluation, from the instants of a search's events."""
    spec = controller_pb2.SearchSpec(task=TASK, budget=controller_pb2.Budget(max_steps=steps), seed=1)
    waiting: dict[int, float] = {}
    last: tuple[str, float] | None = None
    instants: list[float] = []
    async with AsyncControllerClient(fleet.address("controller")) as client:
        search = (await client.start_search(controller_pb2.StartSearchRequest(spec=spec))).search
        async for response in client.watch_search(controller_pb2.WatchSearchRequest(name=search.name), timeout_s=3600):
            event = response.event
            now_ms = event.time.ToNanoseconds() / 1e6
            step = len(instants)
            if last and last[0] in WAITING:
                waiting[step] = waiting.get(step, 0.0) + now_ms - last[1]
            if event.HasField("step_started"):
                instants.append(now_ms)
            last = (event.step_progress.stage if event.HasField("step_progress") else "", now_ms)
    spans = [end - start for start, end in itertools.pairwise(instants)]
    outside = [max(0.0, span - waiting.get(number, 0.0)) for number, span in enumerate(spans, 1)]
    share = sum(outside) / sum(spans)
    print(f"controller, one step        {spread(outside)}   {share:.1%} of the step; proofs of new rules included")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with local_fleet(SERVICES, Path(folder) / "fleet") as fleet:
            await hop(fleet, options.calls)
            await controller_steps(fleet, options.steps)
        await evaluations(Path(folder), 5)


asyncio.run(main())
