"""Wall time of a search with several steps in flight against one at a time, with simulated delays of generator and evaluators.

    python -m benchmarks.search_concurrency [--steps 48] [--in-flight 8] [--scale 0.1] [--rounds 3]

The engine, its store (SQLite) and its policy are the real ones. A generation takes 2 s and an evaluation 1 s, times the scale; so many
evaluators judge at one time. Prints the ratio of both wall times, measured in one run, its median and spread over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from adaexplore_controller.domain import Candidate, Evaluation, Kernel, Outcome, SearchSpec, TaskFacts, Usage, Verdict
from adaexplore_controller.engine.context import Peers
from adaexplore_controller.engine.patience import Patience, Patient
from adaexplore_controller.engine.run import SearchRunner
from adaexplore_controller.engine.treasury import Treasury
from adaexplore_controller.ports import GenerationRequest, Listener
from adaexplore_controller.store import Database, History, Lease, LeaseHolder, Ledger, SearchStore

from adaexplore.runtime.sql import sqlite_engine

GENERATION_S, EVALUATION_S = 2.0, 1.0
_OWNER = "benchmark"


class SimulatedGenerator:
    """Writes a kernel that depends on the request alone, after a delay."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    async def generate(self, request: GenerationRequest, _listener: Listener) -> Candidate:
        """Return a candidate."""
        await asyncio.sleep(self._delay_s)
        source = f"# {request.move} {request.seed}"
        return Candidate(Outcome.KERNEL, Kernel(source, hashlib.sha256(source.encode()).hexdigest()), usage=Usage(calls=1))


class SimulatedEvaluators:
    """Judge a kernel by its digest, after a delay; so many at one time."""

    def __init__(self, delay_s: float, count: int) -> None:
        self._delay_s = delay_s
        self._free = asyncio.Semaphore(count)

    async def describe(self, _spec: SearchSpec) -> TaskFacts:
        """Return that the task is valid."""
        return TaskFacts(b"facts", True, "task")

    async def evaluate(self, _request_id: str, _spec: SearchSpec, kernel: Kernel, _listener: Listener) -> Evaluation:
        """Return a judgement."""
        async with self._free:
            await asyncio.sleep(self._delay_s)
        luck = int(kernel.digest[:8], 16)
        speedup = 0.5 + luck % 300 / 100
        if luck % 3 == 0:
            return Evaluation(b"e", Verdict.FAILED, "NUMERIC", "CHECK", "values differ", kernel.digest)
        return Evaluation(b"e", Verdict.PASSED, "", "TIMING", "", kernel.digest, 100 / speedup, speedup)


async def searched_s(folder: Path, options: argparse.Namespace, in_flight: int, evaluators: int) -> float:
    """Seconds that one search takes."""
    database = Database(sqlite_engine(folder / "controller.sqlite3"))
    await database.open()
    now: Any = lambda: datetime.now(UTC)  # noqa: E731 - a clock
    store = SearchStore(database, now)
    generator: Any = SimulatedGenerator(GENERATION_S * options.scale)
    judges: Any = SimulatedEvaluators(EVALUATION_S * options.scale, evaluators)
    nobody: Any = None
    ledger = Ledger(database, now)
    patient = Patient(Patience(), asyncio.sleep)
    runner = SearchRunner(
        store,
        History(database),
        Peers(generator, judges, nobody),
        patient,
        Treasury(ledger, None, asyncio.sleep),
        _OWNER,
        now,
        time.monotonic,
    )
    spec = SearchSpec(b"spec", seed=7, max_steps=options.steps, memory_off=True, max_in_flight=in_flight)
    await store.create("s", spec, "", Lease(LeaseHolder(_OWNER), time.time() + 3600))
    start_s = time.monotonic()
    await runner.run("s")
    took_s = time.monotonic() - start_s
    found = await store.get("s")
    assert found.progress.steps == options.steps, found.progress
    await database.close()
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--scale", type=float, default=0.1, help="share of the delays that is waited")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    print(f"{options.steps} steps, generation {GENERATION_S:g} s, evaluation {EVALUATION_S:g} s, times {options.scale:g}")
    for evaluators in (3, 1):
        ratios = []
        for _round in range(options.rounds):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as several:
                alone_s = asyncio.run(searched_s(Path(one), options, 1, evaluators))
                beside_s = asyncio.run(searched_s(Path(several), options, options.in_flight, evaluators))
            ratios.append(alone_s / beside_s)
        middle = statistics.median(ratios)
        print(f"{evaluators} evaluators: {options.in_flight} in flight {middle:.2f} times as fast ({min(ratios):.2f}–{max(ratios):.2f})")


if __name__ == "__main__":
    main()
