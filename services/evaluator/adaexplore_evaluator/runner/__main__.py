"""Entry point: `python -m adaexplore_evaluator.runner --role reference --command-fd 3 --reply-fd 4 --buffers DIR`."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # what is imported here stays, and looking for garbage in it costs a quarter of the start

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from adaexplore_evaluator.runner.brake import Brake
from adaexplore_evaluator.runner.conduct import Conduct
from adaexplore_evaluator.runner.printing import NotingOutput
from adaexplore_evaluator.runner.service import Replies, Role, serve
from adaexplore_evaluator.runner.wire import BufferFolder


def main(argv: Sequence[str] | None = None) -> int:
    """Start a role, import what it will need, and answer commands until the command pipe closes."""
    arguments = _parser().parse_args(argv)
    if arguments.order:
        return _do_order(arguments.device, Path(arguments.buffers), Path(arguments.order))
    for fd in (arguments.command_fd, arguments.reply_fd):
        os.set_inheritable(fd, False)
    # A task is tried at many shapes, some of which do not fit it; torch would log a traceback for each.
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    os.register_at_fork(after_in_child=lambda: _silence(arguments.reply_fd))
    replies = Replies(arguments.reply_fd)
    role = (_cuda_role if arguments.device == "cuda" else _role)(arguments.role, Path(arguments.buffers), replies)
    output = NotingOutput(lambda: role.path)
    sys.stdout = sys.__stdout__ = output  # type: ignore[misc]
    conduct = Conduct(lambda: role.path) if arguments.role == "candidate" else None
    if conduct is not None:
        conduct.watch()
        sys.addaudithook(Brake(arguments.processes).heard)
    gc.freeze()
    gc.enable()
    serve(role, arguments.command_fd, replies, output, conduct)
    return 0


def _silence(fd: int) -> None:
    """Let a child that the file forks write its replies nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, fd, inheritable=False)
    os.close(nowhere)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="adaexplore_evaluator.runner", description="Runs one task or one candidate.")
    parser.add_argument("--role", choices=("reference", "candidate"), required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--processes", type=int, default=64, help="processes that a candidate may have at one time")
    parser.add_argument("--command-fd", type=int, required=True, help="descriptor to read commands from")
    parser.add_argument("--reply-fd", type=int, required=True, help="descriptor to write replies to")
    parser.add_argument("--buffers", required=True, help="folder shared with the referee that holds tensor storages")
    parser.add_argument("--order", default="", help="folder that will hold one order, to be done in place of commands")
    return parser


def _do_order(device: str, shared: Path, source: Path) -> int:
    from adaexplore_evaluator.runner.once import do_order  # noqa: PLC0415 - a dialogue needs none of it

    if device == "cuda":
        from adaexplore_evaluator.runner.cuda.candidate import CudaCandidateRole  # noqa: PLC0415
        from adaexplore_evaluator.runner.cuda.files import FileBuffers  # noqa: PLC0415

        do_order(CudaCandidateRole(FileBuffers(shared), lambda _phase, _message: None), source, shared)
        return 0
    from adaexplore_evaluator.runner.candidate import CandidateRole  # noqa: PLC0415

    do_order(CandidateRole(BufferFolder(shared, "c"), lambda _phase, _message: None), source, shared)
    return 0


def _role(name: str, buffers: Path, replies: Replies) -> Role:
    """The role, with its heavy imports done before the first command."""
    if name == "reference":
        from adaexplore_evaluator.runner.graph import warm_up  # noqa: PLC0415 - a candidate needs none of it
        from adaexplore_evaluator.runner.reference import ReferenceRole  # noqa: PLC0415

        warm_up()
        return ReferenceRole(BufferFolder(buffers, "r"), replies.progress)
    from adaexplore_evaluator.runner.deferred import defer_dynamo  # noqa: PLC0415 - a reference needs none of it

    defer_dynamo()
    from adaexplore_evaluator.runner.candidate import CandidateRole  # noqa: PLC0415
    from adaexplore_evaluator.runner.recording import warm_up as warm_up_recording  # noqa: PLC0415

    warm_up_recording()
    return CandidateRole(BufferFolder(buffers, "c"), replies.progress)


def _cuda_role(name: str, _folder: Path, replies: Replies) -> Role:
    """The role on the GPU that the sandbox shows, its context made before the first command."""
    from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers  # noqa: PLC0415 - the cpu device needs none of it
    from adaexplore_evaluator.runner.cuda.service import RoleWithBuffers  # noqa: PLC0415

    if name == "reference":
        from adaexplore_evaluator.runner.cuda.reference import CudaReferenceRole, warm_up  # noqa: PLC0415

        warm_up()
        buffers = DeviceBuffers("r")
        return RoleWithBuffers(CudaReferenceRole(buffers, replies.progress), buffers)
    from adaexplore_evaluator.runner.cuda.candidate import CudaCandidateRole  # noqa: PLC0415

    buffers = DeviceBuffers("c")
    return RoleWithBuffers(CudaCandidateRole(buffers, replies.progress), buffers)


if __name__ == "__main__":
    raise SystemExit(main())
