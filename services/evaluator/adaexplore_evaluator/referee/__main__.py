"""Entry point: `python -m adaexplore_evaluator.referee CONFIG`; jobs on standard input, events on standard output, one JSON object a line.

A job is `{"id", "job": "evaluate" | "describe" | "compile", …}` or `{"cancel": id}`. Its events are
`{"id", "progress": {"phase", "message"}}` and one of `{"id", "result": …}` and `{"id", "error": {"kind", "message"}}`, where a kind is
`worker_lost`, `host_unfit`, `cancelled` or `internal`.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # what is imported here stays, and looking for garbage in it costs a fifth of the start

import contextlib
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import torch

from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.referee.jobs import Jobs, JobSettings
from adaexplore_evaluator.referee.tasks import JobCancelledError, WorkerLostError
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.sandbox import GpuAccess, Limits, Sandbox, SandboxError, SandboxLevel

_PR_SET_PDEATHSIG = 1
_IDLE_S = 0.5


def main() -> int:
    """Answer jobs until standard input closes."""
    settings = json.loads(sys.argv[1])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gc.freeze()
    gc.enable()
    torch.set_num_threads(1)
    # Whatever a library prints must not mix with the events.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    limits = Limits(memory_bytes=settings["runner_memory_bytes"])
    root = Path(settings["scratch_root"]) if settings.get("scratch_root") else None
    try:
        gpu = GpuAccess(**settings["gpu"]) if settings.get("gpu") else None
        sandbox = Sandbox(SandboxLevel(settings["require_sandbox"]), limits, root, gpu)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    sharers = int(settings.get("sharers", 1))
    with _jobs(sandbox, JobSettings.parse(settings), gpu, sharers) as (fleet, jobs):
        if os.getppid() == settings["parent"]:
            _Loop(fleet, jobs, events).run({"tasks_bounded": sandbox.bounds_tasks})
    return 0


@contextlib.contextmanager
def _jobs(sandbox: Sandbox, settings: JobSettings, gpu: GpuAccess | None, sharers: int) -> Iterator[tuple[Fleet, Jobs]]:
    if gpu is None:
        with Fleet(sandbox) as fleet:
            yield fleet, Jobs(fleet, settings, time.monotonic)
        return
    from adaexplore_evaluator.referee.cuda.site import cuda_jobs  # noqa: PLC0415 - the cpu device needs none of it

    with cuda_jobs(sandbox, settings, gpu, sharers) as made:
        yield made


class _Loop:
    def __init__(self, fleet: Fleet, jobs: Jobs, events: IO[str]) -> None:
        self._fleet = fleet
        self._jobs = jobs
        self._events = events
        self._waiting: queue.SimpleQueue[JsonObject | None] = queue.SimpleQueue()
        self._cancelled: set[int] = set()

    def run(self, host: JsonObject) -> None:
        """Work in this thread, on which every runner's life depends; another thread listens for cancellation.

        Args:
            host: Facts about the host to tell beside the platform.

        """
        self._warm_up()
        self._send({"ready": {**self._jobs.platform(), **host}})
        threading.Thread(target=self._listen, daemon=True).start()
        while (job := self._next()) is not None:
            self._answer(job)
            self._warm_up()

    def _next(self) -> JsonObject | None:
        while True:
            try:
                return self._waiting.get(timeout=_IDLE_S)
            except queue.Empty:
                self._jobs.idle()

    def _warm_up(self) -> None:
        # A host that is unfit now may be fit when the next job comes; if not, that job says so.
        with contextlib.suppress(SandboxError):
            self._fleet.warm_up()

    def _listen(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "cancel" in message:
                self._cancelled.add(message["cancel"])
                if self._jobs.current == message["cancel"]:
                    self._fleet.cancel()
            else:
                self._waiting.put(message)
        self._waiting.put(None)
        self._fleet.cancel()

    def _answer(self, job: JsonObject) -> None:
        number = job.get("id")
        assert isinstance(number, int)  # noqa: S101 - the server numbers its jobs

        def progress(phase: str, message: str) -> None:
            self._send({"id": number, "progress": {"phase": phase, "message": message}})

        try:
            result = self._jobs.do(number, job, progress, lambda: number in self._cancelled)
            self._send({"id": number, "result": result})
        except JobCancelledError:
            self._fail(number, "cancelled", "cancelled")
        except WorkerLostError as error:
            self._fail(number, "worker_lost", str(error))
        except SandboxError as error:
            self._fail(number, "host_unfit", str(error))
        except Exception as error:  # a defect of ours must not cost the next job its referee
            sys.excepthook(type(error), error, error.__traceback__)
            self._fail(number, "internal", f"{type(error).__name__}: {error}")

    def _fail(self, number: int, kind: str, message: str) -> None:
        self._send({"id": number, "error": {"kind": kind, "message": " ".join(message.split())[:1000]}})

    def _send(self, event: JsonObject) -> None:
        self._events.write(json.dumps(event, separators=(",", ":"), allow_nan=False) + "\n")
        self._events.flush()


if __name__ == "__main__":
    sys.exit(main())
