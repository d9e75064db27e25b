"""Many evaluations in a row, one in four hostile: is memory flat, is every verdict right, is anything left behind?

    python -m benchmarks.endurance [--evaluations 500] [--device cpu|cuda] [--workers 1] [--samples 20] [--seed 0]

Candidates are those of `hostile_stream`, of four tasks in turn. After every part of the stream, when nothing is under way and the warm
runners are back, memory of the server, its referees and its runners is read (anonymous and shared memory; a page that n processes map
counts 1/n), with their processes, open files and private folders. Memory is flat if the median slope between all pairs of samples, the
first left out, makes less over the whole run than a twentieth of it or 24 MiB. At the end the server is stopped: no process, folder or
control group of it may be left. Exit code 1 if a verdict is wrong, memory grows or something is left.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from adaexplore_evaluator.processes import carries, is_running, parents, share_bytes, tree_of

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.testing.servers import running_fleet
from benchmarks.hostile_stream import GOOD, TASK, gpu_memory_mib, judged, right, stream

MIB = 1 << 20
TASKS = [TASK.replace("200, 300", f"{rows}, 300") for rows in (200, 208, 216, 224)]
ROLES = ("server", "referees", "runners")
_FLAT_SHARE, _FLAT_MIB = 0.05, 24.0
_STEADY_S, _SETTLED_S, _LOOK_S = 3.0, 60.0, 0.5


@dataclass(frozen=True)
class Sample:
    """What the evaluator holds after so many evaluations; memory by role in MiB."""

    evaluations: int
    mib: dict[str, float]
    processes: int
    files: int
    folders: int
    gpu_mib: int


def words_of(pid: int) -> str:
    """Command line of a process; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def role_of(pid: int, server: int) -> str:
    """What a process of the evaluator's tree is; what wraps or waits for a runner counts as one."""
    if pid == server:
        return "server"
    return "referees" if "adaexplore_evaluator.referee" in words_of(pid) else "runners"


def settle(server: int) -> None:
    """Wait until no process of the evaluator has come or gone for a while."""
    deadline_s = time.monotonic() + _SETTLED_S
    seen, since_s = set[int](), time.monotonic()
    while time.monotonic() < deadline_s and time.monotonic() - since_s < _STEADY_S:
        time.sleep(_LOOK_S)
        now = {pid for pid in tree_of(server) if is_running(pid)}
        if now != seen:
            seen, since_s = now, time.monotonic()


def sample(server: int, scratch: Path, evaluations: int) -> Sample:
    """What the evaluator holds now."""
    pids = [pid for pid in tree_of(server) if is_running(pid)]
    mib = dict.fromkeys(ROLES, 0.0)
    files = 0
    for pid in pids:
        mib[role_of(pid, server)] += share_bytes(pid) / MIB
        if role_of(pid, server) != "runners":
            with suppress(OSError):
                files += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Sample(evaluations, mib, len(pids), files, len(list(scratch.iterdir())), gpu_memory_mib())


def growth(samples: Sequence[Sample], values: Sequence[float]) -> float:
    """Growth over all evaluations by the median slope between pairs of samples, the first of which is still warming up."""
    points = [(item.evaluations, value) for item, value in zip(samples, values, strict=True)][1:]
    slopes = [(high - low) / (after - before) for (before, low), (after, high) in itertools.combinations(points, 2)]
    return statistics.median(slopes) * (samples[-1].evaluations - samples[0].evaluations) if slopes else 0.0


def started(pid: int) -> str:
    """When a process started, in the kernel's ticks: a number that comes again is another process."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    return ""


def is_stray(pid: int, table: dict[int, int]) -> bool:
    """True for a process of a runner that no referee stands above."""
    if not carries(pid, "ADAEXPLORE_RUNNER=adaexplore-"):
        return False
    while pid > 1:
        if "adaexplore_evaluator.referee" in words_of(pid):
            return False
        pid = table.get(pid, 0)
    return True


def left_behind(known: set[tuple[int, str]], strays_before: set[int], scratch: Path) -> list[str]:
    """What still exists of a stopped evaluator, in words: processes, folders, control groups."""
    table = parents()
    numbers = {str(pid) for pid, _when in known}
    pids = [pid for pid in table if is_running(pid) and ((pid, started(pid)) in known or is_stray(pid, table))]
    groups = [path for path in Path("/sys/fs/cgroup").rglob("adaexplore-runner-*") if path.name.split("-")[2] in numbers]
    return [
        *(f"process {pid}: {words_of(pid)[:80]}" for pid in pids if pid not in strays_before),
        *(f"folder {path}" for path in scratch.iterdir()),
        *(f"control group {path}" for path in groups),
    ]


def run(options: argparse.Namespace, state: Path) -> tuple[list[Sample], Counter[str], list[str], float]:
    """Samples, wrong verdicts, what is left behind, and seconds of the stream."""
    scratch = state / "scratch"
    scratch.mkdir()
    hostile = options.evaluations // 4
    items = list(enumerate(stream(options.evaluations - hostile, hostile, options.seed)))
    wrong: Counter[str] = Counter()
    known, table = set[tuple[int, str]](), parents()
    strays_before = {pid for pid in table if is_stray(pid, table)}
    flags = ["--workers", str(options.workers), "--gpu-workers", str(options.workers), "--scratch-root", str(scratch)]
    with running_fleet(state, ("evaluator",), {"evaluator": flags}) as fleet, EvaluatorClient(fleet.address("evaluator")) as client:
        server = fleet.services["evaluator"].process.pid
        for task in TASKS:
            judged(client, GOOD.format(wild="", before="pass", block=1024), options.device, task)

        def one(item: tuple[int, tuple[str, str]]) -> None:
            number, (kind, source) = item
            verdict, cause, _seconds = judged(client, source, options.device, TASKS[number % len(TASKS)])
            if not right(kind, verdict, cause):
                wrong[f"{kind}: {verdict} {cause}"] += 1

        settle(server)
        samples = [sample(server, scratch, 0)]
        told(samples[-1])
        part = max(options.workers, -(-options.evaluations // options.samples))
        busy_s = 0.0
        with ThreadPoolExecutor(options.workers) as threads:
            for first in range(0, len(items), part):
                start_s = time.monotonic()
                list(threads.map(one, items[first : first + part]))
                busy_s += time.monotonic() - start_s
                settle(server)
                samples.append(sample(server, scratch, min(first + part, len(items))))
                told(samples[-1])
                known |= {(pid, started(pid)) for pid in tree_of(server)}
    return samples, wrong, left_behind(known, strays_before, scratch), busy_s


def told(item: Sample) -> None:
    """Print a sample as a line of the table."""
    memory = "  ".join(f"{item.mib[role]:8.1f}" for role in ROLES)
    print(f"{item.evaluations:11}  {memory}  {item.processes:9}  {item.files:10}  {item.folders:7}  {item.gpu_mib:7}", flush=True)


def summary(samples: Sequence[Sample]) -> list[str]:
    """Print how memory went by role, and return the roles whose memory grows."""
    grows = []
    for role in ROLES:
        values = [item.mib[role] for item in samples]
        grown, middle = growth(samples, values), statistics.median(values[1:])
        flat = abs(grown) <= max(_FLAT_SHARE * middle, _FLAT_MIB)
        grows += [] if flat or grown < 0 else [role]
        word = "flat" if flat else "not flat"
        print(f"{role:9} median {middle:8.1f} MiB, {min(values):.1f}–{max(values):.1f}; over the run {grown:+.1f} MiB: {word}")
    files = growth(samples, [float(item.files) for item in samples])
    print(f"open files of server and referees over the run: {files:+.0f}; GPU memory {samples[-1].gpu_mib - samples[0].gpu_mib:+} MiB")
    return grows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=500)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("evaluations    server  referees   runners  processes  open files  folders  GPU MiB")
    with tempfile.TemporaryDirectory() as state:
        samples, wrong, left, busy_s = run(options, Path(state))
    grows = summary(samples)
    print(f"{options.evaluations} evaluations in {busy_s:.0f} s, {60 * options.evaluations / busy_s:.1f} a minute")
    print(f"wrong verdicts: {wrong.total()} {dict(wrong) or ''}")
    print(f"left behind: {len(left)} {left or ''}")
    sys.exit(1 if wrong or left or grows else 0)


if __name__ == "__main__":
    main()
