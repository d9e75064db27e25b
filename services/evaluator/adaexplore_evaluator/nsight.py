"""Finds Nsight Compute, says whether it may read counters here, and reads what it prints; neither torch nor a task is imported here."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

METRICS: Final = (
    "gpu__time_duration.sum",
    "dram__bytes.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "lts__t_sector_hit_rate.pct",
    "smsp__inst_executed.sum",
)
NOT_INSTALLED: Final = "Nsight Compute (ncu) is not found on the evaluator's host; install the CUDA toolkit or the package nsight-compute"
NOT_PERMITTED: Final = (
    "the driver lets nobody but the administrator read counters; who loads it may allow all by NVreg_RestrictProfilingToAdminUsers=0"
)
_NAME: Final = "ncu"
_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_DENIED: Final = "ERR_NVGPUCTRPERM"
_MOST_LAUNCHES: Final = 64


@dataclass(frozen=True)
class NsightCompute:
    """An installed Nsight Compute.

    Attributes:
        program: Its absolute path.
        root: Folder that holds it and what it loads.

    """

    program: Path
    root: Path

    def argv(self, log: Path) -> list[str]:
        """Command line up to the program to be looked at, of which it reads what runs while the program asks for it."""
        return [
            *(str(self.program), "--log-file", str(log), "--csv", "--page", "raw", "--print-units", "base"),
            *("--metrics", ",".join(METRICS), "--profile-from-start", "off", "--launch-count", str(_MOST_LAUNCHES)),
            # The clocks of the GPU are not this tool's to set.
            *("--clock-control", "none", "--target-processes", "application-only"),
        ]


@dataclass(frozen=True)
class Counted:
    """Counters of one kernel, the mean over its launches, by the tool's names of metrics; bytes and nanoseconds, or per cent."""

    kernel: str
    launches: int
    values: dict[str, float]


@dataclass(frozen=True)
class CounterLog:
    """What the tool printed: counters by kernel, or the first error; `denied` if that is the driver's."""

    kernels: tuple[Counted, ...]
    error: str
    denied: bool


def find_nsight_compute() -> NsightCompute | None:
    """The first Nsight Compute of PATH, the toolkit's usual place and the package's; None if there is none."""
    for place in _places():
        if place.is_file() and os.access(place, os.X_OK):
            program = place.resolve()
            # In a folder of programs it is a script, which starts the tool that lies beside that folder.
            return NsightCompute(program, program.parent.parent if program.parent.name == "bin" else program.parent)
    return None


def restricted(parameters: Path = _PARAMETERS) -> bool:
    """True if the driver says that it lets nobody but the administrator read counters, as which nothing in a sandbox runs."""
    try:
        lines = parameters.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.replace(" ", "") == "RmProfilingAdminOnly:1" for line in lines)


def parse_counters(text: str) -> CounterLog:
    """What is in the tool's log; the launches of one name are one kernel, the one with most time first."""
    lines = text.splitlines()
    errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    rows = list(csv.reader(line for line in lines if line.startswith('"')))
    found: dict[str, list[dict[str, float]]] = {}
    for row in rows[2:] if rows else []:  # names, units, launches
        fields = dict(zip(rows[0], row, strict=False))
        found.setdefault(fields.get("Kernel Name", "")[:200], []).append(_values(fields))
    kernels = [Counted(name, len(launches), _means(launches)) for name, launches in found.items()]
    kernels.sort(key=lambda item: -item.launches * item.values.get(METRICS[0], 0.0))
    return CounterLog(tuple(kernels), errors[0][:300] if errors else "", any(_DENIED in line for line in errors))


def _values(fields: dict[str, str]) -> dict[str, float]:
    found = {}
    for name in METRICS:
        try:
            found[name] = float(fields[name].replace(",", ""))
        except (KeyError, ValueError):  # a metric that this GPU lacks is "n/a"
            continue
    return found


def _means(launches: list[dict[str, float]]) -> dict[str, float]:
    told = {name: [values[name] for values in launches if name in values] for name in METRICS}
    return {name: sum(values) / len(values) for name, values in told.items() if values}


def _places() -> Iterator[Path]:
    on_path = shutil.which(_NAME)
    if on_path:
        yield Path(on_path)
    yield Path("/usr/local/cuda/bin", _NAME)
    yield from sorted(Path("/opt/nvidia/nsight-compute").glob(f"*/{_NAME}"), reverse=True)
