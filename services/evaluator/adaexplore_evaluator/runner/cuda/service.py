"""Commands about device memory that both roles know, and the places of new buffers in every answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers

Fields = dict[str, Any]
Handler = Callable[[Fields], Fields]
# Answers of these name no buffers.
_QUIET = frozenset(
    {"replay", "plain", "start_tracer", "spans", "close_rounds", "open_device", "load_candidate", "load_task", "describe", "judged_shape"}
)
# Before these are answered memory that is not used any more goes back: the other side is about to copy what they answer.
_LAVISH = frozenset({"run", "run_reference", "make_inputs", "make_cases", "make_state"})
_MOST_IDLE_BYTES = 1 << 30


class _Role(Protocol):
    @property
    def path(self) -> str: ...

    def commands(self) -> dict[str, Handler]: ...


class RoleWithBuffers:
    """A role with the commands `open_device`, `allocate` (memory for the referee to fill) and `forget`; answers say where buffers lie."""

    def __init__(self, role: _Role, buffers: DeviceBuffers) -> None:
        self._role = role
        self._buffers = buffers

    @property
    def path(self) -> str:
        """File that the role has loaded."""
        return self._role.path

    def commands(self) -> dict[str, Handler]:
        """The role's handlers, and those of the buffers."""
        own: dict[str, Handler] = {"open_device": self._open_device, "allocate": self._allocate, "forget": self._forget}
        return {name: handler if name in _QUIET else self._told(name, handler) for name, handler in (self._role.commands() | own).items()}

    def _open_device(self, _fields: Fields) -> Fields:
        # Not before it is asked: while a runner waits, another one may be timed.
        torch.zeros(1, device="cuda")
        return {}

    def _allocate(self, fields: Fields) -> Fields:
        return {"tree": self._buffers.allocate(fields["tree"], fields.get("guarded") is True)}

    def _forget(self, _fields: Fields) -> Fields:
        self._buffers.forget()
        _give_back_idle()
        return {}

    def _told(self, name: str, handler: Handler) -> Handler:
        def answer(fields: Fields) -> Fields:
            known = self._buffers.names()
            found = handler(fields)
            if name in _LAVISH:
                _give_back_idle()
            return {**found, "segments": self._buffers.segments(since=known)}

        return answer


def _give_back_idle() -> None:
    """Other processes of this GPU need what this one does not use any more."""
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > _MOST_IDLE_BYTES:
        torch.cuda.empty_cache()
