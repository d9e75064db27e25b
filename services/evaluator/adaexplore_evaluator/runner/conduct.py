"""What a file must leave alone: other processes, the network, the disk, and the functions of torch, Triton and the runner.

The file shares the process with all of this, so nothing here can be enforced, and no number depends on it: outputs are compared and
clocks are read elsewhere. What is caught here is named to the author instead of passing without a word.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from adaexplore_evaluator.runner.errors import RunnerError
from adaexplore_evaluator.runner.printing import line_in

_PACKAGE: Final = __name__.rpartition(".")[0]
_MODULES: Final = ("time", "random", "gc", "torch", "torch.cuda", "torch.random", "torch.testing", "triton", "triton.testing")
_CLASSES: Final = (("torch", "Tensor"), ("torch", "Generator"), ("torch.cuda", "Event"), ("torch.cuda", "Stream"))
# They wrap functions of their own when parts of them are imported late.
_MAY_REPLACE: Final = frozenset({"torch", "triton", _PACKAGE.partition(".")[0]})
_NETWORK: Final = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"})
_TRACING: Final = frozenset({"ptrace", "process_vm_readv", "process_vm_writev", "kill", "tgkill", "killpg"})
_PRIVATE_PLACES: Final = ("/private/home", "/private/tmp", "/tmp", "/dev/shm")  # noqa: S108 - the sandbox's own
_FULL_BYTES: Final = 1 << 20
_NAMED: Final = 4

_ABSENT: Final = object()


@dataclass(frozen=True)
class _Name:
    """A name that is watched: where it stands, and what stood there; `_ABSENT` for what a class only inherits."""

    owner: str
    name: str
    space: Mapping[str, object]
    before: object

    @property
    def replaced(self) -> bool:
        now = self.space.get(self.name, _ABSENT)
        return now is not self.before and str(getattr(now, "__module__", "")).partition(".")[0] not in _MAY_REPLACE


class Conduct:
    """Notes what a file does to its surroundings.

    Args:
        path: Gives the file, for the lines of what is noted.
        listen: Has a function hear of every audited call of this process.

    """

    def __init__(
        self, path: Callable[[], str], listen: Callable[[Callable[[str, tuple[Any, ...]], None]], None] = sys.addaudithook
    ) -> None:
        self._path = path
        self._listen = listen
        self._deed = ""
        self._line = 0
        self._names: tuple[_Name, ...] = ()
        self._tracing: tuple[object, object] = (None, None)

    def watch(self) -> None:
        """Begin; called once, when everything is imported and before any file is. What hears of system calls stays until the end."""
        self._names = tuple(_functions())
        self._tracing = sys.gettrace(), sys.getprofile()
        self._listen(self._heard)

    def demand_proper(self) -> None:
        """Check what was done until now.

        Raises:
            RunnerError: `tamper` for other processes, the network or replaced functions, `out_of_memory` for a disk that is full.

        """
        if self._deed:
            raise RunnerError("tamper", self._message(), self._line)
        replaced = [f"{item.owner}.{item.name}" for item in self._names if item.replaced]
        if replaced:
            shown = ", ".join(replaced[:_NAMED]) + (f" and {len(replaced) - _NAMED} more" if len(replaced) > _NAMED else "")
            raise RunnerError("tamper", f"the candidate replaces {shown}; leave torch, Triton and the clocks as they are")
        if (sys.gettrace(), sys.getprofile()) != self._tracing:
            raise RunnerError("tamper", "the candidate traces what runs after it; set no trace or profile function")
        if any(_is_full(place) for place in _PRIVATE_PLACES if os.path.ismount(_PRIVATE_PLACES[0])):
            raise RunnerError("out_of_memory", "the candidate filled its disk; write no files")

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        deed = _deed(event, arguments)
        if deed and not self._deed:
            self._deed, self._line = deed, line_in(self._path())
        if deed:
            raise RunnerError("tamper", self._message(), self._line)

    def _message(self) -> str:
        return f"the candidate {self._deed}; compute, and leave everything else alone"


def _deed(event: str, arguments: tuple[Any, ...]) -> str:
    """What an audited call does that no computation needs; empty for everything else."""
    if event in _NETWORK:
        return "uses the network"
    if event == "ctypes.dlsym" and arguments[1] in _TRACING:
        return f"reaches for {arguments[1]}"
    if event == "os.killpg" or (event == "os.kill" and arguments[1] and not _is_own(arguments[0])):
        return "signals other processes"
    return ""


def _is_own(pid: int) -> bool:
    """True for this process and its children."""
    if pid == os.getpid():
        return True
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (OSError, OverflowError, TypeError):
        return False
    return True


def _functions() -> Iterator[_Name]:
    """Every function of what is watched."""
    own = [name for name in sys.modules if name.startswith(f"{_PACKAGE}.") and name != __name__]
    for name in (*_MODULES, *own):
        module = sys.modules.get(name)
        members = dict(vars(module)) if module is not None else {}
        yield from _members(name, module)
        for item in members.values() if name in own else ():
            if isinstance(item, type) and item.__module__ == name:
                yield from _members(f"{name}.{item.__name__}", item)
    for module_name, name in _CLASSES:
        yield from _members(f"{module_name}.{name}", getattr(sys.modules.get(module_name), name, None))


def _members(owner: str, holder: object) -> Iterator[_Name]:
    """What a module or class has, and what a class inherits: a function set on the class would hide that."""
    if holder is None:
        return
    space = vars(holder)
    inherited = [name for place in holder.__mro__[1:-1] for name in vars(place)] if isinstance(holder, type) else []
    for name in dict.fromkeys([*space, *inherited]):
        value = space.get(name, _ABSENT)
        if value is _ABSENT or callable(value) or hasattr(type(value), "__get__"):
            yield _Name(owner, name, space, value)


def _is_full(place: str) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _FULL_BYTES <= found.f_blocks * found.f_frsize
