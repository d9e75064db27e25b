"""Facts about trees of processes, read from /proc, and their end."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")


def become_subreaper() -> None:
    """Inherit the orphans of this process's descendants, so that none escapes by daemonising."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> dict[int, int]:
    """Parent of every process that is visible, by process id."""
    found: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The name in parentheses may hold anything, so the fields are counted from its end.
                found[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    return found


def tree_of(root: int, table: dict[int, int] | None = None) -> list[int]:
    """The process `root` and all its descendants, `root` first."""
    table = parents() if table is None else table
    children: dict[int, list[int]] = {}
    for pid, parent in table.items():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def running_below(root: int) -> set[int]:
    """Descendants of a process that run, zombies left out."""
    return {pid for pid in tree_of(root)[1:] if is_running(pid)}


def resident_bytes(pids: Iterable[int]) -> int:
    """Anonymous and shared memory of the processes in bytes, without mapped program files; a page counts in each process that maps it."""
    return sum(_resident_kib(pid) for pid in pids) * 1024


def share_bytes(pid: int) -> int:
    """The same of one process, a page that n processes map counted as 1/n; in full where the process hides its share."""
    share = _kib_of(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))
    return (_resident_kib(pid) if share is None else share) * 1024


def signal_all(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to each process; one that is gone already is fine."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


@contextmanager
def paused_tree(root: int, most: int) -> Iterator[list[int]]:
    """All processes of a tree, stopped in the body, also those that they start meanwhile; more than `most` need not be all."""
    stopped: list[int] = []
    try:
        while new := [pid for pid in tree_of(root) if pid not in stopped]:
            stopped += new
            signal_all(new, signal.SIGSTOP)
            if len(stopped) > most:
                break
        yield stopped
    finally:
        signal_all(stopped, signal.SIGCONT)


def kill_tree(root: int) -> None:
    """Kill a process and its descendants until none is left, also those it starts meanwhile."""
    for _ in range(50):
        alive = [pid for pid in tree_of(root) if is_running(pid)]
        if not alive:
            return
        signal_all(alive)
        time.sleep(0.01)


def kill_strays(own: Collection[int], marker: str) -> None:
    """Kill children of this process that are not its `own`, and whatever carries `marker` in its environment.

    Only orphans of runners can be such children, see `become_subreaper`.
    """
    for _ in range(50):
        table = parents()
        known = {os.getpid(), *(pid for root in own for pid in tree_of(root, table))}
        strays = {pid for pid in tree_of(os.getpid(), table) if pid not in known}
        strays |= {pid for pid in table if pid not in known and carries(pid, marker)}
        for pid in strays:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        alive = [pid for pid in strays if is_running(pid)]
        if not alive:
            return
        signal_all(alive)
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """True while the process exists and is no zombie."""
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def _resident_kib(pid: int) -> int:
    return _kib_of(pid, "status", ("RssAnon:", "RssShmem:")) or 0


def _kib_of(pid: int, file: str, names: tuple[str, ...]) -> int | None:
    """Sum of some lines of a file of a process; None where they cannot be read or are not there."""
    try:
        lines = (_PROC / str(pid) / file).read_text().splitlines()
        found = [int(line.split()[1]) for line in lines if line.startswith(names)]
    except (OSError, ValueError, IndexError):
        return None
    return sum(found) if found else None


def carries(pid: int, marker: str) -> bool:
    """True if a process has a text in its environment; False where it is gone or not ours to read."""
    try:
        return marker.encode() in (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
