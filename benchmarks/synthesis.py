"""How many composed tasks run, are finite, tell inputs apart and differ in structure: `python benchmarks/synthesis.py --tasks 1500`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import torch
from adaexplore_generator.synthesis import compose, load_operators


def outcome(source: str) -> str:
    """Return `good`, `not finite`, `constant`, or the name of the exception that the task raised."""
    space: dict[str, Any] = {}
    try:
        exec(compile(source, "task.py", "exec"), space)
        torch.manual_seed(0)
        result = space["Model"](*space["get_init_inputs"]())(*space["get_inputs"]())
    except Exception as error:
        return type(error).__name__
    if not result.isfinite().all():
        return "not finite"
    return "constant" if result.max() - result.min() < 1e-5 * (1 + result.abs().max()) else "good"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1500)
    tasks = parser.parse_args().tasks
    started = time.perf_counter()
    made = [compose(seed) for seed in range(tasks)]
    composed = time.perf_counter() - started
    torch.set_num_threads(1)
    print(f"operators: {len({item.name for item in load_operators()})}, {composed / tasks * 1000:.2f} ms a task")
    print(f"distinct structures: {len({task.digest for task in made})} of {tasks}")
    print(f"outcomes: {dict(Counter(outcome(task.source) for task in made))}")


if __name__ == "__main__":
    main()
