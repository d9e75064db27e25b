"""The command loop of a runner: one frame in, progress frames and one answer out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from adaexplore_evaluator.runner.conduct import Conduct
from adaexplore_evaluator.runner.errors import MAX_MESSAGE_CHARS, RunnerError, clean, error_report
from adaexplore_evaluator.runner.frames import FrameError, read_frame, write_frame
from adaexplore_evaluator.runner.printing import NotingOutput

Fields = dict[str, object]
Handler = Callable[[Fields], Fields]
# Not between the rounds that a clock measures.
_LOOKED_AT = frozenset({"load_candidate", "construct", "load_state", "run", "run_full", "close_rounds"})


class Role(Protocol):
    """What a role offers to the loop."""

    @property
    def path(self) -> str:
        """The file that the role has loaded."""
        ...

    def commands(self) -> dict[str, Handler]:
        """Handlers by command name."""
        ...


class Replies:
    """The reply side: progress and answers under the id of the command at hand."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._id: object = 0

    def begin(self, command_id: object) -> None:
        """Send what follows under this id."""
        self._id = command_id

    def progress(self, phase: str, message: str) -> None:
        """Say that a phase (`load`, `setup`, `compile`, `tune`, `check`) has begun."""
        write_frame(self._fd, {"id": self._id, "progress": {"phase": phase, "message": clean(message, MAX_MESSAGE_CHARS)}})

    def answer(self, fields: Fields) -> None:
        """Send the one answer of the command; one that is too large for a frame is nothing that this device can judge."""
        try:
            write_frame(self._fd, {"id": self._id, **fields})
        except FrameError as error:
            message = f"what one call reports is too large; do the work in fewer, larger launches ({error})"
            refusal = RunnerError("not_interpretable", message)
            write_frame(self._fd, {"id": self._id, "ok": False, "error": error_report(refusal, "")})


def serve(role: Role, command_fd: int, replies: Replies, output: NotingOutput | None = None, conduct: Conduct | None = None) -> None:
    """Answer commands until the command pipe is closed; whatever a file raises, even SystemExit, becomes an error answer.

    What a command leaves in `output` is written before its answer; where `conduct` finds fault, that is the answer.
    """
    handlers = role.commands()
    owner = os.getpid()
    while (command := read_frame(command_fd)) is not None:
        replies.begin(command.get("id", 0))
        answer = _answer(role, handlers, command, conduct)
        if os.getpid() != owner:  # a child that the file forked must not speak for its parent
            os._exit(0)
        told = output.told() if output is not None else {}
        replies.answer({**answer, **told})


def _answer(role: Role, handlers: dict[str, Handler], command: Fields, conduct: Conduct | None) -> Fields:
    name = str(command.get("command"))
    if name == "hello":
        return {"ok": True}
    handler = handlers.get(name)
    if handler is None:
        return {"ok": False, "error": error_report(LookupError(f"unknown command {name}"), "")}
    try:
        fields = handler(command)
        if conduct is not None and name in _LOOKED_AT:
            conduct.demand_proper()
        return {"ok": True, **fields}
    except BaseException as error:  # SystemExit and KeyboardInterrupt of the file must not end the runner
        return {"ok": False, "error": error_report(error, role.path)}
