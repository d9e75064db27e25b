"""Candidates of `adaexplore evaluate --batch`: a folder or a file of lines, judged many at a time, a row each."""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from adaexplore.cli.failures import CliError
from adaexplore.cli.fleet import addresses
from adaexplore.cli.inputs import InitChoice, PrecisionChoice, SanitizerChoice, TrackChoice, read_source, read_task
from adaexplore.cli.output import evaluation_json
from adaexplore.cli.rows import Row, RowFile, fill, name_of, outcome, print_counts
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.runtime.errors import UnavailableError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2

ChoiceT = TypeVar("ChoiceT", bound=enum.StrEnum)
_TASK_NAME = "task.py"
_LISTED_CHARS = 140
_FIELDS = {"task", "kernel", "name", "precision", "track", "init"}


@dataclass(frozen=True)
class Candidate:
    """One kernel for one task, and how it is judged."""

    name: str
    task: Path
    kernel: Path
    precision: PrecisionChoice
    track: TrackChoice
    init: InitChoice
    sanitizer: SanitizerChoice | None = None


def candidates(place: Path, common: Candidate) -> list[Candidate]:
    """Return the candidates of a folder or of a file of JSON Lines.

    A folder holds folders, each with a `task.py` and the kernels for it. A line is an object with `task` and `kernel`, paths from the
    file's folder, and where it differs from `common`, `name`, `precision`, `track` and `init`.

    Raises:
        CliError: There is none, a line is malformed, or two have one name.

    """
    if place.is_dir():
        found = [
            replace(common, name=f"{task.parent.name}/{kernel.stem}", task=task, kernel=kernel)
            for task in sorted(place.glob(f"*/{_TASK_NAME}"))
            for kernel in sorted(task.parent.glob("*.py"))
            if kernel.name != _TASK_NAME
        ]
    else:
        found = [_candidate(line, f"{place}, line {number}", place.parent, common) for number, line in enumerate(_lines(place), 1) if line]
    if not found:
        raise CliError(f"{place}: no candidate; give folders with task.py and kernels beside it, or lines with task and kernel")
    twice = [name for name, count in Counter(item.name for item in found).items() if count > 1]
    if twice:
        raise CliError(f"{place}: two candidates are called {twice[0]}; give each a name of its own")
    return found


async def judge_all(
    file: RowFile, items: Sequence[Candidate], spec: kernel_pb2.DeviceSpec, jobs: int, timeout_s: float, state_dir: Path, *, quiet: bool
) -> list[Row]:
    """Judge what has no row yet, and return the rows of all, in order."""
    keyed = [(_key(item, spec), item) for item in items]
    if any(not file.done(key) for key, _item in keyed):
        async with addresses(["evaluator"], state_dir) as at, at.client(AsyncEvaluatorClient) as client:
            await fill(file, keyed, functools.partial(_judged, client, spec, timeout_s), jobs, Console(stderr=True, quiet=quiet))
    return [file.rows[key] for key, _item in keyed]


def request_of(item: Candidate, spec: kernel_pb2.DeviceSpec) -> evaluator_pb2.EvaluateKernelRequest:
    """Return the request that judges a candidate; CliError if a file cannot be read."""
    return evaluator_pb2.EvaluateKernelRequest(
        request_id=uuid.uuid4().hex,
        task=read_task(item.task, item.precision, item.track),
        kernel=kernel_pb2.Kernel(source=read_source(item.kernel)),
        device=spec,
        state_mode=evaluator_pb2.StateMode.Value(f"STATE_MODE_{item.init.name}"),
        sanitizer=evaluation_pb2.Sanitizer.Value(f"SANITIZER_{item.sanitizer.name if item.sanitizer else 'UNSPECIFIED'}"),
    )


def counts(rows: Sequence[Row]) -> Counter[str]:
    """Return how many rows have each verdict with its cause."""
    return Counter(_word(row) for row in rows)


def print_rows(rows: Sequence[Row], file: Path) -> None:
    """Print a line a candidate and a table of verdicts."""
    console = Console(highlight=False, soft_wrap=True)
    for row in rows:
        told = row.get("error") or row.get("refused") or row.get("message") or _latency(row)
        console.print(f"{name_of(row)}: {_word(row)}{': ' if told else ''}{(told or '')[:_LISTED_CHARS]}", markup=False)
    print_counts(console, file, "kernels", counts(rows))


async def _judged(client: AsyncEvaluatorClient, spec: kernel_pb2.DeviceSpec, timeout_s: float, item: Candidate) -> Row:
    async for event in client.evaluate_kernel(request_of(item, spec), timeout_s=timeout_s):
        if event.HasField("evaluation"):
            return {**_named(item), **evaluation_json(event.evaluation)}
    raise UnavailableError("the evaluator ended its answer without a result")


def _named(item: Candidate) -> Row:
    return {"name": item.name, "task": str(item.task), "kernel": str(item.kernel), "init": item.init.value}


def _latency(row: Row) -> str:
    timing = row.get("timing") or {}
    words = [f"{timing['median_us']:.1f} µs {(timing['status'] or '').lower()}"] if timing.get("median_us") else []
    words += [f"{timing['speedup']:.2f}× over the best baseline"] if timing.get("speedup") else []
    return ", ".join(words)


def _word(row: Row) -> str:
    return outcome(row, " ".join(filter(None, (row.get("verdict"), row.get("cause")))))


def _key(item: Candidate, spec: kernel_pb2.DeviceSpec) -> str:
    """What a row answers for: name, both sources, class, track, how state is given, the sanitizer and the device."""
    digest = hashlib.sha256()
    for path in (item.task, item.kernel):
        digest.update(path.read_bytes() if path.is_file() else b"")
        digest.update(b"\0")
    place = spec.SerializeToString(deterministic=True).hex()
    digest.update("\0".join((item.precision, item.track, item.init, item.sanitizer or "", place)).encode())
    return f"{item.name}//{digest.hexdigest()[:16]}"


def _lines(place: Path) -> list[str]:
    try:
        return [line.strip() for line in place.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{place}: not a readable file of JSON Lines; give a folder, or a file with an object a line") from error


def _candidate(line: str, where: str, folder: Path, common: Candidate) -> Candidate:
    try:
        fields: Any = json.loads(line)
    except ValueError as error:
        raise CliError(f"{where}: not JSON ({error})") from error
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name), str) for name in ("task", "kernel")):
        raise CliError(f"{where}: an object with the strings task and kernel is needed")
    unknown = sorted(name for name, value in fields.items() if name not in _FIELDS or not isinstance(value, str))
    if unknown:
        raise CliError(f"{where}: {unknown[0]} is no field with a string; {', '.join(sorted(_FIELDS))} are")
    task, kernel = folder / fields["task"], folder / fields["kernel"]
    return Candidate(
        fields.get("name") or f"{task.stem}/{kernel.stem}",
        task,
        kernel,
        _choice(fields, "precision", common.precision, where),
        _choice(fields, "track", common.track, where),
        _choice(fields, "init", common.init, where),
        common.sanitizer,
    )


def _choice(fields: dict[str, str], name: str, common: ChoiceT, where: str) -> ChoiceT:
    values = [item.value for item in type(common)]
    if name in fields and fields[name] not in values:
        raise CliError(f"{where}: {name} is {fields[name]!r}; {', '.join(values)} are known")
    return type(common)(fields.get(name, common))
