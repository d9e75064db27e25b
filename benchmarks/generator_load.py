"""What the generator adds to a model's own time under load, what long replies take of memory, and whether rate limits are kept.

    python -m benchmarks.generator_load [--calls 640] [--rounds 5] [--at-once 64] [--limits-s 70]

The model (`load_server`, 300 ms), the generator and the caller are processes of their own. Overhead is a call's time less what the model
says it took itself: of the endpoint alone, and of the whole service (gRPC, store of paid replies). Medians and spread over rounds, with the
processor time that each process took, which says more than overhead where a host is busy, and with the time of one flush of the disk, of
which a call waits for two. Fails if the endpoint's median overhead is above 5 ms, a long reply is held twice, or a minute has more than 2 %
above a limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import uvloop
from adaexplore_generator.domain import Message, Prompt, Sampling
from adaexplore_generator.providers.endpoint import HttpEndpoint
from adaexplore_generator.providers.limits import Limits
from adaexplore_generator.providers.openai import OpenAIApi
from adaexplore_generator.providers.settings import EndpointSettings

from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.types.v1 import kernel_pb2, task_pb2
from benchmarks.generator_process import GeneratorProcess

LONG_CHARS = 4_000_000
MOST_OVERHEAD_MS, MOST_OVERSHOOT = 5.0, 0.02
REQUESTS_PER_MINUTE, TOKENS_PER_MINUTE, REPLY_TOKENS = 1200, 120_000, 100
_TOOK = re.compile(r"# took ([\d.]+)")

Call = Callable[[int], Awaitable[str]]


@dataclass(frozen=True)
class Subject:
    """A call, and the processes that take part in it by name."""

    call: Call
    pids: Mapping[str, int]


@contextmanager
def load_server(*flags: str) -> Iterator[tuple[str, int]]:
    """Run the model as a process and yield its base URL and its id."""
    command = [sys.executable, "-m", "benchmarks.load_server", *flags]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    try:
        yield json.loads(process.stdout.readline())["url"], process.pid
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@asynccontextmanager
async def endpoint_at(url: str, **settings: object) -> AsyncIterator[Call]:
    """Yield a call of the endpoint alone."""
    given = EndpointSettings(base_url=url, model="slow-1", **settings)  # type: ignore[arg-type]
    endpoint = HttpEndpoint(OpenAIApi(url), given, random.Random(0), lambda: datetime.now(UTC))

    async def call(number: int) -> str:
        prompt = Prompt((Message("system", "be brief"), Message("user", f"call {number}")))
        return (await endpoint.complete(prompt, Sampling(max_output_tokens=REPLY_TOKENS), lambda _: None)).text

    try:
        yield call
    finally:
        await endpoint.close()


@asynccontextmanager
async def service_at(url: str) -> AsyncIterator[Subject]:
    """Yield a call of the whole service, which runs as a process."""
    with tempfile.TemporaryDirectory() as state, GeneratorProcess(Path(state), url) as process:
        async with AsyncGeneratorClient(process.address) as client:

            async def call(number: int) -> str:
                request = pb.GenerateKernelRequest(
                    request_id=f"load/{time.monotonic_ns()}/{number}",
                    task=task_pb2.Task(name="t", source="class Model: pass"),
                    move=kernel_pb2.MOVE_STRUCTURAL,
                    model=pb.ModelSpec(provider="openai", model="slow-1", max_output_tokens=1000),
                )
                return [item async for item in client.generate_kernel(request, 60)][-1].candidate.kernel.source

            print(f"one flush of the disk under {state}: {flush_ms(Path(state)):.2f} ms")
            yield Subject(call, {"generator": process.pid})


def flush_ms(folder: Path) -> float:
    """Return the median time that a small write to a file takes until it is on the disk, in ms."""
    found = []
    with (folder / "flush").open("wb", buffering=0) as file:
        for _ in range(50):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found)


def processor_ms(pid: int) -> float:
    """Return the processor time that a process has taken so far, in ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


async def overheads_ms(call: Call, calls: int, at_once: int, latency_s: float) -> list[float]:
    """Make calls, so many at once, and return what each took beyond the model's own time."""
    numbers, found, draw = iter(range(calls)), [], random.Random(0)

    async def caller() -> None:
        await asyncio.sleep(draw.uniform(0, latency_s))
        for number in numbers:
            start = time.perf_counter()
            text = await call(number)
            took = _TOOK.search(text)
            assert took, text
            found.append((time.perf_counter() - start - float(took[1])) * 1000)

    await asyncio.gather(*(caller() for _ in range(at_once)))
    return found


async def show_overhead(title: str, subject: Subject, options: argparse.Namespace) -> float:
    """Print the overhead over some rounds and return the median of their medians, in ms."""
    await overheads_ms(subject.call, options.at_once, options.at_once, 0.3)  # connections, imports
    rounds: list[dict[str, float]] = []
    for _ in range(options.rounds):
        before, start = {name: processor_ms(pid) for name, pid in subject.pids.items()}, time.perf_counter()
        found = sorted(await overheads_ms(subject.call, options.calls, options.at_once, 0.3))
        rate = options.calls / (time.perf_counter() - start)
        took = {name: (processor_ms(pid) - before[name]) / options.calls for name, pid in subject.pids.items()}
        overhead = {f"overhead p{share}, ms": found[len(found) * share // 100] for share in (50, 99)}
        processor = {f"processor of the {name}, ms a call": value for name, value in took.items()}
        rounds.append({**overhead, **processor, "calls a second": rate, "load average": os.getloadavg()[0]})
    print(f"{title}: {options.rounds} rounds of {options.calls} calls, {options.at_once} at once; medians (least to most):")
    for name in rounds[0]:
        values = [item[name] for item in rounds]
        print(f"  {name}: {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
    return statistics.median(item["overhead p50, ms"] for item in rounds)


async def long_reply_peak(url: str) -> float:
    """Return the most memory that a long reply takes while it comes, as a multiple of its size."""
    endpoint = HttpEndpoint(OpenAIApi(url), EndpointSettings(base_url=url, model="slow-1"), random.Random(0), lambda: datetime.now(UTC))
    prompt = Prompt((Message("user", f"chars:{LONG_CHARS}"),))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    reply = await endpoint.complete(prompt, Sampling(), lambda _: None)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    await endpoint.close()
    return peak / len(reply.text)


async def arrivals_within(url: str, limits: Limits, seconds: float, at_once: int) -> list[tuple[float, int]]:
    """Call as often as the limits allow and return when requests arrived, with their tokens, by the model's own clock."""
    async with endpoint_at(url, limits=limits) as call:

        async def caller() -> None:
            for number in range(1_000_000):
                await call(number)

        callers = [asyncio.create_task(caller()) for _ in range(at_once)]
        await asyncio.sleep(seconds)
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    async with httpx.AsyncClient() as client:
        return [(at, tokens) for at, tokens in (await client.get(f"{url}/arrivals")).json()["arrivals"]]


def show_limit(title: str, weights: list[tuple[float, int]], limit: int) -> float:
    """Print how much of a limit the first and the busiest minute had, and return the busiest's share."""
    start = weights[0][0]
    first = sum(weight for at, weight in weights if at < start + 60) / limit
    held = busiest = begin = 0
    for at, weight in weights:
        held += weight
        while weights[begin][0] <= at - 60:
            held -= weights[begin][1]
            begin += 1
        busiest = max(busiest, held)
    print(f"{title}: the first minute used {first:.1%} of the limit of {limit}, the busiest {busiest / limit:.1%}")
    return busiest / limit


async def run(options: argparse.Namespace) -> bool:
    """Measure all and return whether it is as it must be."""
    good = True
    with load_server() as (url, model):
        others = {"model": model, "caller": os.getpid()}
        async with endpoint_at(url) as call:
            good &= await show_overhead("endpoint alone", Subject(call, {**others}), options) <= MOST_OVERHEAD_MS
        async with service_at(url) as service:
            await show_overhead("whole service", replace(service, pids={**service.pids, **others}), options)
        peak = await long_reply_peak(url)
        print(f"a reply of {LONG_CHARS / 1e6:g} MB: at most {peak:.2f} times its size held while it came")
        good &= peak < 2
    for title, limits, limit in (
        ("requests", Limits(requests_per_minute=REQUESTS_PER_MINUTE), REQUESTS_PER_MINUTE),
        ("tokens", Limits(tokens_per_minute=TOKENS_PER_MINUTE), TOKENS_PER_MINUTE),
    ):
        if options.limits_s:
            with load_server("--latency-s", "0.1") as (url, _):
                came = await arrivals_within(url, limits, options.limits_s, options.at_once)
            weights = [(at, 1 if title == "requests" else tokens) for at, tokens in came]
            good &= show_limit(title, weights, limit) <= 1 + MOST_OVERSHOOT
    return good


def main() -> None:
    """Measure and fail if something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--limits-s", type=float, default=70.0, help="seconds for each rate limit; 0 to leave them out")
    sys.exit(0 if uvloop.run(run(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
