"""Spends capped money at a local model that is paid for, with and without faults, and holds the model's own bill against the cap.

    python -m benchmarks.cost_caps [--runs 1000] [--cap-usd 0.05] [--at-once 16] [--seed 0] [--kills]

Each run is a search of its own in the controller's real ledger. Its generations, two to eight at once, of either move and with replies of
up to 200 to 1,200 tokens, go through the real generator (a process) to the model. A run ends when no further generation may be reserved.
`--kills` kills the generator now and then. Fails if any run's bill is above the cap, or if a run without faults leaves more than 10 % of
(cap - one reservation) unspent.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from adaexplore_controller.domain import Candidate, Evaluation, Kernel, SearchSpec, TaskFacts, Verdict
from adaexplore_controller.engine.journal import SearchStoppedError
from adaexplore_controller.engine.patience import Patience, Patient, PeerFailedError
from adaexplore_controller.engine.treasury import Payment, Treasury
from adaexplore_controller.peers import CallLimits, GrpcGenerator
from adaexplore_controller.ports import GenerationRequest, ShownKernel
from adaexplore_controller.store import Database, Lease, LeaseHolder, Ledger, SearchStore
from adaexplore_controller.tree import Move

from adaexplore.client.generator import AsyncGeneratorClient
from adaexplore.controller.v1 import controller_pb2
from adaexplore.generator.v1 import generator_pb2
from adaexplore.runtime.sql import sqlite_engine
from adaexplore.types.v1 import evaluation_pb2, task_pb2
from benchmarks.generator_process import GeneratorProcess
from benchmarks.model_server import FAULTS, MODEL, ModelServer

FAULT_SHARE = 0.25
WITHOUT_FAULTS = 5  # one run in so many is made without faults too


@dataclass(frozen=True)
class Run:
    """What became of one run: generations, their outcomes, and money in micro-USD by ledger and by the model's own bill."""

    generations: int
    outcomes: Counter[str]
    spent: int
    unconfirmed: int
    reserved: int
    billed: float
    reservation: int


class Bench:
    """Runs over one ledger, one generator and one model."""

    def __init__(self, database: Database, client: AsyncGeneratorClient, server: ModelServer, cap: int, seed: int) -> None:
        self._server, self._cap, self._seed = server, cap, seed
        self._store, self._ledger = SearchStore(database, _now), Ledger(database, _now)
        self._generator = GrpcGenerator(client, CallLimits(generate_s=60))
        self._patient = Patient(Patience(outage_s=60, provider_s=2), asyncio.sleep)

    async def run(self, number: int) -> Run:
        """Spend one cap."""
        search_id = f"run{number}"
        await self._store.create(search_id, SearchSpec(b"", 0, 1), "", Lease(LeaseHolder("bench"), time.time() + 1e6))
        treasury = Treasury(self._ledger, None, asyncio.sleep)
        payment = Payment(treasury, self._generator, self._patient, search_id, self._cap)
        draw = random.Random(f"{self._seed}/{number}")
        tokens = draw.randint(200, 1200)
        requests = (_request(search_id, step, tokens, draw.choice(list(Move))) for step in itertools.count(1))
        outcomes, largest = Counter[str](), [0]
        await asyncio.gather(*(self._spend(payment, requests, outcomes, largest) for _ in range(draw.randint(2, 8))))
        purse = await self._ledger.purse(search_id)
        billed = sum(bill.micro_usd for bill in self._server.bills if bill.label == search_id)
        return Run(sum(outcomes.values()), outcomes, purse.spent, purse.unconfirmed, purse.reserved, billed, largest[0])

    async def _spend(self, payment: Payment, requests: Iterator[GenerationRequest], outcomes: Counter[str], largest: list[int]) -> None:
        for request in requests:
            estimate = await self._patient.call("generator", lambda request=request: self._generator.estimate(request))
            largest[0] = max(largest[0], estimate.worst_case.cost_micro_usd or 0)
            try:
                found = await payment.generate(request, _heard, self._ask, _heard)
            except SearchStoppedError as stop:
                outcomes[f"ended: {stop.reason}"] += 1
                return
            except PeerFailedError as failure:
                outcomes[f"refused: {failure.error.reason}"] += 1
            else:
                outcomes["lost" if found.lost else str(found.outcome)] += 1

    async def _ask(self, call: Callable[[], Awaitable[Candidate]]) -> Candidate:
        return await self._patient.call("generator", call)


def _request(search_id: str, step: int, tokens: int, move: Move) -> GenerationRequest:
    task = task_pb2.Task(name="t", source=f"# label:{search_id} step {step}\nclass Model: pass")
    model = generator_pb2.ModelSpec(provider="openai", model=MODEL, max_output_tokens=tokens)
    spec = SearchSpec(controller_pb2.SearchSpec(task=task, model=model).SerializeToString(), 0, 1)
    facts = TaskFacts(b"", valid=True, task_digest="")
    passed = evaluation_pb2.Evaluation(verdict=evaluation_pb2.VERDICT_PASSED)
    shown = ShownKernel(Kernel(_KERNEL), Evaluation(passed.SerializeToString(), Verdict.PASSED), "")
    context = (shown,) if move is Move.LOCAL else ()
    return GenerationRequest(f"searches/{search_id}/steps/{step}", spec, facts, move, seed=step, context=context)


_KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x * 1.0\n"


async def _heard(_message: str) -> None:
    """Take no notice."""


def _now() -> datetime:
    return datetime.now(UTC)


async def measure(
    server: ModelServer, process: GeneratorProcess, folder: Path, options: argparse.Namespace, count: int, *, kills: bool
) -> list[Run]:
    """Make so many runs, some of them at once."""
    database = Database(sqlite_engine(folder / "ledger.sqlite3"))
    await database.open()
    gate = asyncio.Semaphore(options.at_once)
    async with AsyncGeneratorClient(process.address) as client:
        bench = Bench(database, client, server, round(options.cap_usd * 1e6), options.seed)

        async def one(number: int) -> Run:
            async with gate:
                return await bench.run(number)

        killer = asyncio.create_task(_kill_now_and_then(process, random.Random(options.seed))) if kills else None
        try:
            return await asyncio.gather(*(one(number) for number in range(count)))
        finally:
            if killer:
                killer.cancel()
            await database.close()


async def _kill_now_and_then(process: GeneratorProcess, draw: random.Random) -> None:
    while True:
        await asyncio.sleep(draw.uniform(5, 15))
        await asyncio.to_thread(process.kill_and_restart)


def show(title: str, runs: list[Run], cap: int, *, faultless: bool) -> bool:
    """Print a summary and return whether it is as it must be."""
    over = [run for run in runs if run.billed > cap or run.spent + run.reserved > cap]
    unbilled = [run for run in runs if run.billed > run.spent + run.reserved]
    shares = [run.spent / (cap - run.reservation) for run in runs]
    outcomes = sum((run.outcomes for run in runs), Counter[str]())
    print(f"{title}: {len(runs)} runs, {sum(run.generations for run in runs)} generations, cap {cap} micro-USD")
    largest = max(run.billed for run in runs)
    print(f"  above the cap: {len(over)}; billed more than the ledger has: {len(unbilled)}; largest bill {largest:.0f}")
    print(f"  spent of (cap - one reservation): median {statistics.median(shares):.3f}, least {min(shares):.3f}, most {max(shares):.3f}")
    print(f"  of it unconfirmed: {sum(run.unconfirmed for run in runs) / max(1, sum(run.spent for run in runs)):.1%}")
    print(f"  outcomes: {dict(outcomes.most_common())}")
    return not over and not unbilled and (not faultless or min(shares) >= 0.9)


def main() -> None:
    """Run both parts and fail if a cap did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cap-usd", type=float, default=0.05)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", action="store_true", help="kill the generator every 5 to 15 seconds in the part with faults")
    options = parser.parse_args()
    good, cap = True, round(options.cap_usd * 1e6)
    for title, faults in (("without faults", {}), ("with faults", dict.fromkeys(FAULTS, FAULT_SHARE / len(FAULTS)))):
        start_s = time.monotonic()
        with tempfile.TemporaryDirectory() as state, ModelServer(faults, seed=options.seed).running() as server:
            settings = {"openai_idle_timeout_s": 2, "openai_attempts": 2}
            with GeneratorProcess(Path(state), server.url, settings) as process:
                count = options.runs if faults else max(1, options.runs // WITHOUT_FAULTS)
                runs = asyncio.run(measure(server, process, Path(state), options, count, kills=options.kills and bool(faults)))
        good &= show(f"{title} ({time.monotonic() - start_s:.0f} s)", runs, cap, faultless=not faults)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
