"""One order instead of a dialogue: for a runner under a tool that need not pass descriptors on to what it starts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch.cuda import profiler

from adaexplore_evaluator.runner.errors import error_report
from adaexplore_evaluator.runner.service import Fields, Role

ORDER_FILE, GO_FILE, REPLY_FILE = "order.json", "go", "reply.json"
_LOOK_S = 0.02
# Bound before the cpu device gives torch another answer.
_HAS_GPU = torch.cuda.is_available


def do_order(role: Role, source: Path, shared: Path) -> None:
    """Wait for the order in the folder of sources, do its commands until one fails, and write the last answer without its values."""
    # The second file is written after the first one is complete.
    while not (source / GO_FILE).exists():
        time.sleep(_LOOK_S)
    commands = json.loads((source / ORDER_FILE).read_text(encoding="utf-8"))
    answer: Fields = {"ok": True}
    for command in commands:
        try:
            with _marked() if command.get("marked") else nullcontext():
                role.commands()[command["command"]](command)
        except BaseException as error:  # SystemExit of the file must not end the runner without an answer
            answer = {"ok": False, "error": error_report(error, role.path)}
            break
    (shared / REPLY_FILE).write_text(json.dumps(answer), encoding="utf-8")


@contextmanager
def _marked() -> Iterator[None]:
    """A profiler that waits for it looks at what runs in the body, on a GPU."""
    if not _HAS_GPU():
        yield
        return
    with profiler.profile():
        yield
        torch.cuda.synchronize()
