"""Kills the generator with calls in flight, again and again, and holds its account against the model's own bill.

    python -m benchmarks.generator_kills [--kills 20] [--in-flight 8] [--seed 0]

Callers repeat a generation under its request id until it is answered. At the end every reply that was stored before a kill was used, what
is confirmed equals the model's own count to the token, and what is not stands at its worst case. Fails otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.errors import AbortedError, ServiceError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2
from benchmarks.generator_process import GeneratorProcess
from benchmarks.model_server import MODEL, Bill, ModelServer

_KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x * 1.0\n"


def request_for(number: int) -> pb.GenerateKernelRequest:
    """Return a request of one call or, every third, of a review and edits."""
    local = number % 3 == 0
    passed = evaluation_pb2.Evaluation(verdict=evaluation_pb2.VERDICT_PASSED)
    return pb.GenerateKernelRequest(
        request_id=f"kills/{number}",
        task=task_pb2.Task(name="t", source=f"# label:{number} .\nclass Model: pass"),
        move=kernel_pb2.MOVE_LOCAL if local else kernel_pb2.MOVE_STRUCTURAL,
        context=[pb.ContextKernel(kernel=kernel_pb2.Kernel(source=_KERNEL), evaluation=passed)] if local else [],
        model=pb.ModelSpec(provider="openai", model=MODEL, max_output_tokens=400),
    )


async def generated(client: AsyncGeneratorClient, number: int) -> pb.Candidate:
    """Return the answer to a request, asked until it comes."""
    while True:
        try:
            return [item async for item in client.generate_kernel(request_for(number), 120)][-1].candidate
        except AbortedError:
            raise
        except ServiceError:
            await asyncio.sleep(0.1)


async def generations(process: GeneratorProcess, kills: int, in_flight: int, draw: random.Random) -> list[pb.Candidate]:
    """Make generations, so many at once, until the generator was killed so often."""
    stop, numbers, found = asyncio.Event(), iter(range(1_000_000)), []

    async def caller() -> None:
        async with AsyncGeneratorClient(process.address) as client:
            while not stop.is_set():
                found.append(await generated(client, next(numbers)))

    callers = [asyncio.create_task(caller()) for _ in range(in_flight)]
    for _ in range(kills):
        await asyncio.sleep(draw.uniform(0.5, 1.5))
        await asyncio.to_thread(process.kill_and_restart)
    stop.set()
    await asyncio.gather(*callers)
    return found


def problems(found: list[pb.Candidate], bills: list[Bill]) -> list[str]:
    """Return what does not add up between the generator's account and the model's bill."""
    confirmed = sum(item.usage.input_tokens + item.usage.output_tokens for item in found)
    unconfirmed = sum(item.usage.unconfirmed_calls for item in found)
    calls = sum(item.usage.calls for item in found)
    billed = sum(bill.micro_usd for bill in bills)
    charged = sum(item.usage.cost_micro_usd for item in found)
    told: dict[str, list[Bill]] = {}
    for bill in bills:
        told.setdefault(bill.prompt, []).append(bill)
    # The reply that was used for a prompt is the last that was told: nothing is asked again once it is stored.
    used = sum(last.input_tokens + last.output_tokens for last in (group[-1] for group in told.values()))
    print(f"generations {len(found)}, calls {calls}, of them unconfirmed {unconfirmed}; the model was asked {len(bills)} times")
    print(f"tokens: confirmed {confirmed}, the model's own count of the replies used {used}")
    print(f"micro-USD: by the generator's account {charged}, by the model's bill {billed:.0f}")
    wrong = []
    if confirmed != used:
        wrong.append("confirmed tokens are not the model's own count")
    if charged < billed:
        wrong.append("the model's bill is larger than the generator's account")
    if not len(bills) <= calls:
        wrong.append("calls were made that are not accounted for")
    if len(told) != calls - unconfirmed:
        wrong.append("a reply that was stored was paid for again")
    return wrong


def main() -> None:
    """Kill and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory() as state, ModelServer(latency_s=0.1, piece_s=0.03, seed=options.seed).running() as server:
        with GeneratorProcess(Path(state), server.url) as process:
            found = asyncio.run(generations(process, options.kills, options.in_flight, random.Random(options.seed)))
        wrong = problems(found, server.bills)
    print(f"{options.kills} kills in {time.monotonic() - start_s:.0f} s: {'; '.join(wrong) or 'nothing lost, nothing paid for twice'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
