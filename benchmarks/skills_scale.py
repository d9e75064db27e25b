"""What a large memory costs, on SQLite and PostgreSQL: `python benchmarks/skills_scale.py`.

Prints how long SelectSkills takes with that many ACTIVE skills and what the process needs for them, then lets processes record failures at
once and compares the counts with what was recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from adaexplore_memory.distill.catalogue import function
from adaexplore_memory.domain import Counters, Environment, Evidence, FailureReport, Pattern, Proof, Scope, Skill, SkillKind, SkillState
from adaexplore_memory.memory import Memory
from adaexplore_memory.select import Query
from adaexplore_memory.store import SCHEMA, open_store
from adaexplore_memory.store.rows import to_row
from adaexplore_memory.store.tables import skill_tasks, skills
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.migrations import upgrade
from adaexplore.runtime.sql import postgres_engine, sqlite_engine, transaction
from adaexplore.testing.postgres import running_postgres

FUNCTIONS = ("tanh", "erf", "exp", "log1p", "pow", "rsqrt", "sigmoid", "maximum", "softmax", "gelu", "mean", "var", "cos", "round", "fmod")
OPERATORS = ("gelu", "softmax", "layer_norm", "linear", "mish", "sum", "relu", "convolution", "log_softmax", "elu", "add", "mul")
FAMILIES = ((), (), (), ("softmax",), ("norm",), ("matmul",), ("activation",))
SOURCE = """import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, tl.math.NAME(x), mask=offsets < n)
"""
NAMES = ("tanh", "erfc", "sinh", "cosh", "tan", "asin", "acos", "atan")
Engine = Callable[[], AsyncEngine]


def skill(number: int) -> Skill:
    """Return a skill with the evidence that a proven one has."""
    draw = random.Random(number)
    name = f"{draw.choice(FUNCTIONS)}" if draw.random() < 0.7 else f"function_{number}"
    known = function(name)
    snippets = tuple(known.snippet(spelling) for spelling in known.spellings) if known else ()
    evidence = Evidence(
        (f"task-{number}",), (), 1, f"signature-{number}", snippets[0] if snippets else None, snippets[1:], Proof(True, 0, "3.7.1", "sm_90")
    )
    return Skill(
        f"skills/{number:012x}",
        SkillKind.TECHNIQUE if draw.random() < 0.1 else SkillKind.PITFALL,
        SkillState.ACTIVE,
        f"You cannot use `tl.math.{name}` in case {number} of {'many ' * draw.randrange(20)}kernels.",
        f"Use another spelling of {name}.",
        Scope(draw.choice(("", ">=3.0", "==3.6.*", "==3.7.*")), draw.choice(("", "cuda", "hip")), (), draw.choice(FAMILIES)),
        evidence,
        (Pattern(f"triton.language.math.{name}"),),
        Counters(draw.randrange(99), draw.randrange(20), draw.randrange(50)),
        revision=1,
    )


def resident_mib() -> float:
    """Return the memory that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


async def fill(engine: AsyncEngine, number_of_skills: int) -> None:
    """Write the skills, a thousand a statement."""
    for start in range(0, number_of_skills, 1_000):
        made = [skill(number) for number in range(start, min(start + 1_000, number_of_skills))]
        async with transaction(engine) as connection:
            await connection.execute(insert(skills), [to_row(one) for one in made])
            tasks = [{"skill_name": one.name, "task_digest": digest} for one in made for digest in one.evidence.task_digests]
            await connection.execute(insert(skill_tasks), tasks)
    await engine.dispose()


async def select_times(engine: AsyncEngine, calls: int) -> tuple[float, list[float], float]:
    """Return the seconds until the memory is ready, the milliseconds of each call, and those of processor for one.

    Every tenth call follows a write.
    """
    draw = random.Random(0)
    async with open_store(engine) as store:
        memory = Memory(store, now_us=lambda: 1)
        started = time.perf_counter()
        await memory.warm()
        ready_s, times, busy_s = time.perf_counter() - started, [], time.process_time()
        for call in range(calls):
            if call % 10 == 0:
                async with store.transaction() as tx:
                    await tx.update(skill(draw.randrange(1_000)))
            query = Query(frozenset(draw.sample(OPERATORS, 3)), Environment("3.7.1", "sm_90"), draw.random() < 0.5)
            started = time.perf_counter()
            chosen = await memory.select(query)
            times.append((time.perf_counter() - started) * 1e3)
            if not chosen:
                raise SystemExit("nothing was selected")
        memory.close()
        busy_ms = (time.process_time() - busy_s) / calls * 1e3
    return ready_s, times, busy_ms


def measured(kind: str, place: str, calls: int) -> None:
    """Print what selecting costs, in a process of its own, whose memory is that of the memory service alone."""
    before = resident_mib()
    ready_s, times, busy_ms = asyncio.run(select_times(engine_of(kind, place), calls))
    cuts = statistics.quantiles(times, n=100)
    grown = resident_mib()
    print(
        f"{kind}: SelectSkills p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms over {calls} calls, {busy_ms:.1f} ms of processor each; ",
        end="",
    )
    print(f"ready after {ready_s:.1f} s; {grown:.0f} MiB resident ({before:.0f} MiB before)", flush=True)


def write(kind: str, place: str, writer: int, failures: int) -> None:
    """Record failures, one after the other."""

    async def record() -> None:
        async with open_store(engine_of(kind, place)) as store:
            memory = Memory(store, now_us=lambda: 1)
            for number in range(failures):
                name = NAMES[(writer + number) % len(NAMES)]
                await memory.record_failure(
                    FailureReport(
                        f"{writer}-{number}",
                        f"task-{number % 50}",
                        f"kernel-{writer}-{number}",
                        SOURCE.replace("NAME", name),
                        "FAILED",
                        "COMPILE",
                        "COMPILE",
                        exception_type="AttributeError",
                        detail=f"module 'triton.language.math' has no attribute '{name}'",
                        triton_version="3.7.1",
                        target="sm_90",
                    )
                )
            memory.close()

    asyncio.run(record())


async def counted(engine: AsyncEngine) -> tuple[int, int]:
    """Return the recorded failures and the sum of what the rules count."""
    async with open_store(engine) as store, store.reading() as tx:
        recorded = sum(count for count, _ in (await tx.stats()).failures.values())
        found = [await tx.find_by_signature(f"missing-name:triton.language.math.{name}@3.7") for name in NAMES]
        return recorded, sum(rule.evidence.failure_count for rule in found if rule)


def engine_of(kind: str, place: str) -> AsyncEngine:
    """Return an engine, as another process would have it."""
    if kind == "sqlite":
        return sqlite_engine(Path(place), busy_timeout_ms=600_000)
    return postgres_engine(place, application="benchmark", lock_timeout_ms=600_000, pool_size=2)


async def prepared(engine: AsyncEngine) -> None:
    """Make the tables."""
    await upgrade(engine, SCHEMA)
    await engine.dispose()


@contextmanager
def places() -> Iterator[dict[str, tuple[str, str]]]:
    """Yield two fresh places of a store for each kind of database."""
    with tempfile.TemporaryDirectory() as folder, running_postgres() as server:
        files = [str(Path(folder, name)) for name in ("many.sqlite3", "written.sqlite3")]
        urls = [server.url("postgres"), server.url("template1")]
        yield {"sqlite": (files[0], files[1]), "postgresql": (urls[0], urls[1])}


def in_processes(work: Sequence[tuple[Callable[..., None], tuple[object, ...]]]) -> None:
    """Run functions at once, each in a process of its own, to their end."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=function, args=given) for function, given in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("skills", 100_000), ("calls", 2_000), ("writers", 16), ("failures", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with places() as found:
        for kind, (many, written) in found.items():
            for place in (many, written):
                asyncio.run(prepared(engine_of(kind, place)))
            if given.calls:
                asyncio.run(fill(engine_of(kind, many), given.skills))
                in_processes([(measured, (kind, many, given.calls))])
            if given.failures:
                started = time.perf_counter()
                in_processes([(write, (kind, written, number, given.failures)) for number in range(given.writers)])
                took = time.perf_counter() - started
                recorded, by_rules = asyncio.run(counted(engine_of(kind, written)))
                expected = given.writers * given.failures
                exact = "exact" if recorded == by_rules == expected else "WRONG"
                print(f"{kind}: {given.writers} writers × {given.failures} failures in {took:.0f} s: {recorded} recorded, ", end="")
                print(f"{by_rules} counted by rules, {expected} expected: {exact}", flush=True)


if __name__ == "__main__":
    main()
