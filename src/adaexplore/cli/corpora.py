"""Which task files a path means: one file, a folder of them, or a checkout of a public collection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adaexplore.cli.failures import CliError

# The fourth level of KernelBench loads models from a hub.
_LEVELS = ("level1", "level2", "level3")


@dataclass(frozen=True)
class TaskFile:
    """A task file and its name within what it was found in, for example `level1/19_ReLU`."""

    name: str
    path: Path


def task_files(place: Path) -> list[TaskFile]:
    """Return the task files of a path, in the order of their names, numbers by value.

    KernelBench (levels 1 to 3) and KernelBench-X are known by their folders; of any other folder every Python file below it counts, but
    those whose name, or whose folder's, begins with a dot or an underscore.

    Raises:
        CliError: There is no such path, or no Python file below it.

    """
    if place.is_file():
        return [TaskFile(place.stem, place)]
    if not place.is_dir():
        raise CliError(f"{place}: no such file or folder; give a task file, a folder of them or a checkout")
    found = sorted(_files(place), key=lambda item: _order(item.name))
    if not found:
        raise CliError(f"{place}: no Python file below it")
    return found


def _files(place: Path) -> Iterator[TaskFile]:
    levels = place / "KernelBench"
    if levels.is_dir():
        for level in _LEVELS:
            yield from _below(levels, levels / level)
        return
    cases = place / "data" / "kernelbenchx"
    yield from _below(*((cases, cases) if cases.is_dir() else (place, place)))


def _below(root: Path, folder: Path) -> Iterator[TaskFile]:
    for path in folder.rglob("*.py"):
        inside = path.relative_to(root)
        if not any(part.startswith((".", "_")) for part in inside.parts):
            yield TaskFile(inside.with_suffix("").as_posix(), path)


def _order(name: str) -> tuple[str, int, str]:
    folder, _, file = name.rpartition("/")
    number, _, rest = file.partition("_")
    return (folder, int(number), rest) if number.isdigit() else (folder, -1, file)
