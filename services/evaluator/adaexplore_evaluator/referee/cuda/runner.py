"""A runner on a GPU as the referee sees it: values travel through the runner's device memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import torch

from adaexplore_evaluator.processes import tree_of
from adaexplore_evaluator.referee.clock import SETUP, PhaseClock
from adaexplore_evaluator.referee.cuda.segments import Segments
from adaexplore_evaluator.referee.cuda.way import Way
from adaexplore_evaluator.referee.runners import Runner, RunnerFailureError, RunnerKilledError
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import Tree, Value, WireError, decode_with, encode_types, tensors_of
from adaexplore_evaluator.sandbox import Launch, Role, Sandbox

_MEMORY_S = 30.0
_MOST_IDLE_BYTES = 4 << 30
# Whoever waits for the GPU waits so much longer.
_POLL_S = 0.05


class CudaRunner(Runner):
    """A started runner on a GPU; raises as `Runner` does, and RunnerFailureError(out_of_memory) where its device memory is used up.

    Args:
        sandbox: Starts it.
        role: What it runs.
        sweep: As of `Runner`.
        way: Lets others pass who wait for the GPU, while it is at work and stopped for that; nobody passes by default.

    """

    def __init__(self, sandbox: Sandbox, role: Role, sweep: Callable[[Launch], None], way: Way | None = None) -> None:
        super().__init__(sandbox, role, sweep)
        self.segments = Segments()
        self._way = way
        self._poll_s = _POLL_S

    def command(self, name: str, clock: PhaseClock, /, **arguments: object) -> JsonObject:
        """Send a command and wait for its reply, as `Runner.command` does; where its buffers lie is noted."""
        reply = super().command(name, clock, **arguments)
        self.segments.learn(reply)
        return reply

    def place(self, name: str, text: str) -> str:
        """Write a source file, and let the runner open the GPU before it runs anything.

        Raises:
            RunnerKilledError: The GPU cannot be opened, which no source can have caused.

        """
        try:
            self.command("open_device", memory_clock())
        except RunnerFailureError as error:
            raise RunnerKilledError(f"the GPU cannot be opened: {error}") from error
        return super().place(name, text)

    def _meanwhile(self, clock: PhaseClock) -> None:
        if self._way is None or not self._way.is_asked_for():
            return
        clock.left_s()  # what was used so far counts
        with self.paused():
            self._way.give()
        clock.excuse()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all its processes for the body, so that nothing is computed before it is asked for."""
        pids = tree_of(self.pid)
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def allocate(self, tree: Tree, guarded: bool = False) -> JsonObject:
        """Let it allocate tensors of these types, with guard zones if asked; the reply's `tree` names them."""
        # It shares the GPU's memory: what this process keeps for its next copies could be what it lacks.
        if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > _MOST_IDLE_BYTES:
            torch.cuda.empty_cache()
        return self.command("allocate", memory_clock(), tree=tree, guarded=guarded)

    def encode(self, value: Value) -> Tree:
        """Tree of a value whose tensors are written to memory that the runner allocates for them, guarded."""
        reply = self.allocate(encode_types(value), guarded=True)
        tree = reply.get("tree")
        targets = tensors_of(decode_with(tree, self.segments.view))
        sources = tensors_of(value)
        same = len(targets) == len(sources) and all(
            target.shape == source.shape and target.dtype == source.dtype for target, source in zip(targets, sources, strict=True)
        )
        if not isinstance(tree, dict) or not same:
            raise WireError("the runner allocated something else")
        for source, target in zip(sources, targets, strict=True):
            _copy_storage(source, target)
        torch.cuda.synchronize()
        return tree

    def decode(self, tree: object) -> Value:
        """Value of a tree that it sent, copied out of its memory; WireError if its buffers do not fit the tree."""
        value = decode_with(tree, self.segments.copy)
        torch.cuda.synchronize()
        return value

    def look(self, tree: object) -> Value:
        """Value of a tree as the runner's very memory, which may change at any time."""
        return decode_with(tree, self.segments.view)

    def forget_buffers(self) -> None:
        """Drop every buffer of both sides."""
        self.segments.forget()
        self.command("forget", memory_clock())

    def close(self) -> None:
        """Kill it if it is alive, and end every mapping of its memory."""
        self.segments.forget()
        super().close()


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _copy_storage(source: torch.Tensor, target: torch.Tensor) -> None:
    size = min(source.untyped_storage().nbytes(), target.untyped_storage().nbytes())
    if size:
        _raw(target, size).copy_(_raw(source.cuda(), size))


def _raw(tensor: torch.Tensor, size: int) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(tensor.untyped_storage(), 0, (size,), (1,))


def memory_clock() -> PhaseClock:
    """Time budget of commands that only allocate and forget."""
    clock = PhaseClock({SETUP: _MEMORY_S}, time.monotonic, lambda _phase, _message: None)
    clock.begin(SETUP)
    return clock
