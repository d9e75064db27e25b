"""Control groups that bound the tasks of one runner: the kernel's `pids` controller, of version 1 or 2, where this host lets us use it.

No candidate outruns it: a process or thread beyond the bound is never made, however slow the host and whatever starts it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "adaexplore-runner-"
_JOINS = "import sys; open(sys.argv[1], 'w').write('0')"
_SELF = Path("/proc/self")


@dataclass(frozen=True)
class TaskGroup:
    """A group for the processes and threads of one runner.

    Attributes:
        folder: Its folder in the kernel's hierarchy.
        most: Processes and threads that it may have at one time.

    """

    folder: Path
    most: int

    @property
    def entrance(self) -> Path:
        """File that makes the process that writes 0 to it a member, with all that it starts later."""
        return self.folder / "cgroup.procs"

    @property
    def was_full(self) -> bool:
        """Whether a task was refused because of this group's own bound, since it was made."""
        refused = _number(self.folder / "pids.events", "max ")
        peak = _number(self.folder / "pids.peak")
        # A group above this one may be full too. Where the kernel keeps no peak, the refusal alone must do.
        return bool(refused) and (peak is None or peak >= self.most)

    def processes(self) -> list[int]:
        """Ids of its processes; empty where the kernel does not tell, as in a threaded group of version 2."""
        return _numbers(self.folder / "cgroup.procs")

    def members(self) -> list[int]:
        """Ids of its processes; in a threaded group of version 2, of their threads."""
        return self.processes() or _numbers(self.folder / "cgroup.threads")

    def kill(self) -> None:
        """Kill every member; none can start another one meanwhile."""
        with suppress(OSError):
            (self.folder / "pids.max").write_text("0")
        for _ in range(50):
            members = self.members()
            if not members:
                return
            for pid in members:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def remove(self) -> None:
        """Kill what is left in it and remove it."""
        for _ in range(50):
            self.kill()
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)  # what has just ended is a member for a moment more
            else:
                return


class TaskGroups:
    """Makes groups below the one that this process is in.

    Args:
        parent: Folder of that group, with the `pids` controller.

    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    def make(self, most: int) -> TaskGroup:
        """An empty group of at most so many processes and threads at one time.

        Raises:
            OSError: The kernel refuses it.

        """
        folder = self._parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
        folder.mkdir()
        try:
            kind = folder / "cgroup.type"
            if kind.exists() and kind.read_text().strip() == "domain invalid":
                kind.write_text("threaded")  # below a group with processes of its own, version 2 takes no other
            (folder / "pids.max").write_text(str(most))
        except OSError:
            folder.rmdir()
            raise
        return TaskGroup(folder, most)


def usable_groups() -> TaskGroups | None:
    """Groups for runners, None where this host has none for us: no controller, or one that this user or container may not change."""
    for parent in _own_groups():
        groups = TaskGroups(parent)
        try:
            _delegate(parent)
            probe = groups.make(8)
        except OSError:
            continue
        try:
            if _can_join(probe):
                return groups
        finally:
            probe.remove()
    return None


def remove_stale_groups() -> None:
    """Remove groups whose referee is dead, for example killed by the host; their processes have died with it."""
    for parent in _own_groups():
        for folder in parent.glob(f"{_PREFIX}*"):
            owner = folder.name.removeprefix(_PREFIX).split("-")[0]
            if owner.isdigit() and not Path("/proc", owner).exists():
                with suppress(OSError):
                    folder.rmdir()


def _can_join(group: TaskGroup) -> bool:
    command = [sys.executable, "-I", "-S", "-c", _JOINS, str(group.entrance)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).returncode == 0


def _delegate(parent: Path) -> None:
    """Let groups below this one have the controller, which version 2 wants to be told."""
    control = parent / "cgroup.subtree_control"
    if control.exists() and "pids" not in control.read_text().split():
        control.write_text("+pids")


def _own_groups() -> Iterator[Path]:
    """Folders of the groups that this process is in and that have the controller."""
    paths = dict(_paths())
    with suppress(OSError):
        for line in (_SELF / "mountinfo").read_text().splitlines():
            ours, _, kind = line.partition(" - ")
            root, place = ours.split()[3:5]
            version, _, options = kind.split(" ", 2)
            name = "pids" if version == "cgroup" and "pids" in options.split(",") else "" if version == "cgroup2" else None
            if name in paths and Path(paths[name]).is_relative_to(root):
                folder = Path(place) / Path(paths[name]).relative_to(root)
                if version == "cgroup" or "pids" in _text(folder / "cgroup.controllers").split():
                    yield folder


def _paths() -> Iterator[tuple[str, str]]:
    """Path of this process's group by controller, the empty name for version 2."""
    for line in _text(_SELF / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        yield from ((name, path) for name in controllers.split(","))


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""


def _numbers(path: Path) -> list[int]:
    return [int(line) for line in _text(path).split()]


def _number(path: Path, before: str = "") -> int | None:
    """The number of the line that begins with some text; None where there is none."""
    found = [line.removeprefix(before).strip() for line in _text(path).splitlines() if line.startswith(before)]
    return int(found[0]) if found and found[0].isdigit() else None
