"""Reads what compute-sanitizer logs, whose wording differs by tool and version; pure text, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

_PREFIX: Final = "========="
_ACCESS = re.compile(
    r"(?:Potential )?(?:[Ii]nvalid|Uninitialized) (?:__\w+__ )?(?:memory )?(?:read|write|atomic|access)\w*(?: of size ([\d,]+))?"
)
_OTHER = re.compile(
    r"Barrier (?:error detected|called)|Syncwarp called|Deadlock detected|Malloc/Free error|Double free|Tensor Memory column"
)
_RACE = re.compile(r"(\w+):\s*(?:\([\w -]+\) )?(?:Race reported between|Potential \w+ hazard detected)", re.IGNORECASE)
_PLACE = re.compile(r"(?:^|\s)at (?:0x[0-9a-f]+ in )?(?!__\w+__ )([^\s:(+]+)", re.IGNORECASE)
_ADDRESS = re.compile(r"Address (0x[0-9a-f]+)(.*)", re.IGNORECASE)
_THREAD = re.compile(r"threads? (?:starting at )?(\([\d,]+\)) in block (\([\d,]+\))")
_BLOCK = re.compile(r"in block (\([\d,]+\))")
_HAZARDS = re.compile(r"\[([\d,]+) hazards?\]")
_SUMMARY = re.compile(r"ERROR SUMMARY: ([\d,]+) errors?")
_RACES = re.compile(r"RACECHECK SUMMARY: ([\d,]+) hazards? displayed \(([\d,]+) errors?, ([\d,]+) warnings?\)")
_INTERNAL = re.compile(
    r"Internal Sanitizer Error|Unable to find injection|didn't track the launch|terminated before first instrumented|Unable to attach"
    r"|process didn't terminate|returned an error|couldn't find exit code|not supported|Device not supported|Insufficient",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SanitizerError:
    """One kind of error in one kernel.

    Attributes:
        kind: First words, for example `Invalid __global__ read of size 4`.
        kernel: Name without arguments; empty if not told.
        size_bytes: Size of the access; 0 if not told.
        address: As told, hexadecimal; empty if not told.
        distance: Where the address lies from the nearest allocation, as told.
        thread: Coordinates of the first thread; empty if not told.
        block: Coordinates of its block; empty if not told.
        count: How often it was seen; of races, how many hazards.

    """

    kind: str
    kernel: str = ""
    size_bytes: int = 0
    address: str = ""
    distance: str = ""
    thread: str = ""
    block: str = ""
    count: int = 1


@dataclass(frozen=True)
class SanitizerLog:
    """What a log says.

    Attributes:
        errors: Errors, the same in one kernel counted together, in order.
        total: Errors of the summary; None without a summary.
        problem: Why the tool did not see everything, in its words; empty if it says nothing like that.

    """

    errors: tuple[SanitizerError, ...]
    total: int | None
    problem: str


def parse_log(text: str) -> SanitizerLog:
    """What the text of a log says; lines that the tool did not begin are left out."""
    lines = [line[len(_PREFIX) :].strip() for line in text.splitlines() if line.startswith(_PREFIX)]
    records: list[list[str]] = []
    total, problem = None, ""
    for line in lines:
        summary = _RACES.search(line)
        if summary:
            total = _number(summary[2])
        elif _SUMMARY.search(line):
            found = _SUMMARY.search(line)
            total = _number(found[1]) if found else None
        elif not problem and _INTERNAL.search(line):
            problem = line[:300]
        if _begins(line):
            records.append([line])
        elif records and records[-1] and line and not summary and not _SUMMARY.search(line) and not _is_warning(line):
            records[-1].append(line)
        else:
            records.append([])
    return SanitizerLog(tuple(_together(_error(record) for record in records if record)), total, problem)


def _begins(line: str) -> bool:
    race = _RACE.match(line)
    return race[1].lower() == "error" if race else bool(_ACCESS.match(line) or _OTHER.match(line))


def _is_warning(line: str) -> bool:
    return line.lower().startswith("warning")


def _error(record: list[str]) -> SanitizerError:
    head, rest = record[0], " ".join(line for line in record[1:] if not line.startswith(("Saved host", "Host Frame")))
    both = f"{head} {rest}"
    access, address = _ACCESS.match(head), next((found for line in record[1:] if (found := _ADDRESS.search(line))), None)
    place = _device_kernel(record) or _PLACE.search(both.replace("starting at (", "starting ("))
    thread, block, hazards = _THREAD.search(both), _BLOCK.search(both), _HAZARDS.search(both)
    near = next((line.removeprefix("and is ") for line in record[1:] if "nearest allocation" in line), "")
    return SanitizerError(
        kind=_kind(head),
        kernel=place[1] if place else "",
        size_bytes=_number(access[1]) if access and access[1] else 0,
        address=address[1] if address else "",
        distance=near or (address[2].strip() if address else ""),
        thread=thread[1] if thread else "",
        block=thread[2] if thread else block[1] if block else "",
        count=_number(hazards[1]) if hazards else 1,
    )


def _device_kernel(record: list[str]) -> re.Match[str] | None:
    """The outermost device frame, which is the kernel where the error is in a function that it calls."""
    frames = [re.search(r"Device Frame:\s*([^\s:(+]+)", line) for line in record]
    own = [frame for frame in frames if frame and not frame[1].startswith("NVIDIA")]
    return own[-1] if own else None


def _kind(head: str) -> str:
    race = re.search(r"Race reported between (\w+) access|Potential (\w+) hazard", head)
    if race:
        return f"{race[2]} hazard on shared memory" if race[2] else "race on shared memory"
    return re.split(r" by thread| encountered|, \(active| bytes?$", head)[0].strip().rstrip(".")


def _together(errors: Iterable[SanitizerError]) -> list[SanitizerError]:
    found: dict[tuple[str, str], SanitizerError] = {}
    for error in errors:
        key = (error.kind, error.kernel)
        known = found.get(key)
        found[key] = replace(known, count=known.count + error.count) if known else error
    return list(found.values())


def _number(text: str) -> int:
    return int(text.replace(",", ""))
