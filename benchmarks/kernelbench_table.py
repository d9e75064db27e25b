"""Runs `adaexplore optimize` over tasks of a KernelBench checkout, or of a folder, and prints a Markdown table: verdict, latency, seconds.

    python -m benchmarks.kernelbench_table CHECKOUT [--tasks 1/19,2/12] [--steps 8] [--jobs 1] [--out FOLDER] [-- FLAGS OF OPTIMIZE]

CHECKOUT holds `KernelBench/level1/…`, or tasks themselves as `examples` does; these are named without `.py`. Each task gets a folder and a
state of its own; one JSON line a task goes to FOLDER/results.jsonl, and a task that has a line there is not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

LEVEL_1 = (19, 21, 23, 24, 26, 36, 40, 47, 88, 95, 1, 2, 9)
LEVEL_2 = (12, 29, 37, 39, 63, 76, 86, 95, 99)
DEFAULT = ",".join([*(f"1/{number}" for number in LEVEL_1), *(f"2/{number}" for number in LEVEL_2)])
COLUMNS = ("task", "result", "best, µs", "over best baseline", "over eager", "of the roofline", "verdicts", "seconds")
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def task_file(checkout: Path, key: str) -> Path:
    """The file of a task such as `1/19`, or of a name in a plain folder."""
    if not (checkout / "KernelBench").is_dir() and (checkout / f"{key}.py").is_file():
        return checkout / f"{key}.py"
    level, _, number = key.partition("/")
    found = sorted((checkout / "KernelBench" / f"level{level}").glob(f"{number}_*.py"))
    if not found:
        raise SystemExit(f"{checkout}: no task {key}; give the root of a KernelBench checkout, or a folder of tasks")
    return found[0]


def name_of(path: Path) -> str:
    """A task's name in the table."""
    level = path.parent.name.removeprefix("level")
    return f"{level}/{path.stem}" if level.isdigit() else path.stem


def run(path: Path, folder: Path, steps: int, flags: list[str]) -> dict[str, Any]:
    """Optimize one task and return what came out, as one JSON object."""
    command = [sys.executable, "-m", "adaexplore", "optimize", str(path), "--steps", str(steps), "--json"]
    command += ["--out", str(folder / path.stem), "--state-dir", str(folder / path.stem / "state"), *flags]
    start_s = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return {
        "task": name_of(path),
        "exit": done.returncode,
        "error": done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else None,
        "seconds": round(time.monotonic() - start_s, 1),
        **{key: result.get(key) for key in ("state", "stop_reason", "verdict", "keep_pytorch", "timing", "steps", "nodes")},
    }


def row(found: dict[str, Any]) -> str:
    """The table's row of one task."""
    timing = found["timing"] or {}
    verdicts: Counter[str] = Counter()
    for node in found["nodes"] or []:
        if node["step"]:
            verdicts[" ".join(filter(None, (node["verdict"], node["cause"]))) or node["outcome"] or "NO KERNEL"] += 1
    result = found["error"] or ("keep PyTorch" if found["keep_pytorch"] else "PASSED, faster")
    if not found["error"] and found["verdict"] is None:
        result = f"keep PyTorch, no kernel ({found['stop_reason']})"
    numbers = [
        f"{timing[key]:.{digits}f}{unit}" if timing.get(key) else "–"
        for key, digits, unit in (("median_us", 1, ""), ("speedup", 2, "×"), ("speedup_over_eager", 2, "×"))
    ]
    interval = timing.get("speedup_interval")
    numbers[1] += f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else ""
    numbers.append(f"{timing['roofline_share']:.0%}" if timing.get("roofline_share") else "–")
    counts = ", ".join(f"{count} {name}" for name, count in verdicts.most_common())
    return f"| {found['task']} | {result} | {' | '.join(numbers)} | {counts or '–'} | {found['seconds']:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument(
        "--tasks", help="names, separated by commas; without, those of the table in docs/kernelbench.md, or the whole folder"
    )
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, help="searches at one time")
    parser.add_argument("--out", type=Path, default=Path("adaexplore-out/kernelbench"))
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    store = options.out / "results.jsonl"
    known = {item["task"]: item for item in map(json.loads, store.read_text().splitlines())} if store.exists() else {}
    print(HEAD, flush=True)
    plain = ",".join(sorted(path.stem for path in options.checkout.glob("*.py")))
    names = options.tasks or (DEFAULT if (options.checkout / "KernelBench").is_dir() else plain)
    paths = [task_file(options.checkout, key) for key in names.split(",")]
    with ThreadPoolExecutor(options.jobs) as threads:
        new = [path for path in paths if name_of(path) not in known]
        for done in as_completed([threads.submit(run, path, options.out, options.steps, options.flags) for path in new]):
            with store.open("a") as lines:
                lines.write(json.dumps(done.result()) + "\n")
            print(row(done.result()), flush=True)
    for name in map(name_of, paths):
        if name in known:
            print(row(known[name]), flush=True)


if __name__ == "__main__":
    main()
