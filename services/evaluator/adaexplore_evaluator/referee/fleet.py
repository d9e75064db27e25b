"""All runners of one referee: starts them, keeps one of each role warm, and leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from adaexplore_evaluator.monitor import KillReason
from adaexplore_evaluator.processes import become_subreaper, kill_strays
from adaexplore_evaluator.referee.runners import Runner
from adaexplore_evaluator.sandbox import Attended, Launch, Role, Sandbox, SandboxLevel


class Fleet:
    """Owner of every runner; a context manager that ends them all.

    Runners die with the thread that starts them, so `candidate`, `reference` and `warm_up` belong to one long-lived thread.

    Args:
        sandbox: Starts the runners.
        value_bytes: Size that the tensors of one value of a runner may have together; half of a runner's memory by default.
        runner_type: What a runner is on this device.
        spares: Runners of each role that are kept warm, one by default.
        eager: Whether the next one is started as soon as one is taken, so that it is warm when the job ends; else when the job has ended.

    """

    def __init__(
        self,
        sandbox: Sandbox,
        value_bytes: int | None = None,
        runner_type: Callable[[Sandbox, Role, Callable[[Launch], None]], Runner] = Runner,
        spares: Mapping[Role, int] | None = None,
        eager: bool = False,
    ) -> None:
        self._sandbox = sandbox
        self._runner_type = runner_type
        self._wanted = {role: (spares or {}).get(role, 1) for role in Role}
        self.value_bytes = value_bytes or sandbox.limits.memory_bytes // 2
        self._lock = threading.RLock()
        self._alive: dict[int, Runner] = {}
        self._spares: dict[Role, list[Runner]] = {role: [] for role in Role}
        self._eager = eager
        self._warmed = self._missed = False
        become_subreaper()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for runner in list(self._alive.values()):
            self.release(runner)

    @property
    def level(self) -> SandboxLevel:
        """Isolation that the runners get."""
        return self._sandbox.level

    @property
    def memory_bytes(self) -> int:
        """Resident memory that one runner may use."""
        return self._sandbox.limits.memory_bytes

    def reference(self) -> Runner:
        """A runner for one task, the warm one if there is one."""
        return self._take(Role.REFERENCE)

    def candidate(self) -> Runner:
        """A runner for one candidate, the warm one if there is one."""
        return self._take(Role.CANDIDATE)

    def attended(self, attended: Attended) -> Runner:
        """A runner that does one order under a tool; its values travel in files on every device."""
        with self._lock:
            runner = Runner(self._sandbox, Role.CANDIDATE, self._sweep, attended)
            self._alive[runner.pid] = runner
            return runner

    def warm_up(self) -> None:
        """Start the next runners of each role ahead, so that their imports cost nobody time.

        Every candidate takes a runner, but many a fleet sees one task only: references are started ahead again once one was missing.
        """
        for role, spares in self._spares.items():
            if role is Role.REFERENCE and self._warmed and not self._missed:
                continue
            while len(spares) < self._wanted[role]:
                spares.append(self._start(role))
        self._warmed = True

    def release(self, runner: Runner) -> None:
        """End a runner and remove its files."""
        runner.close()
        with self._lock:
            self._alive.pop(runner.pid, None)

    def cancel(self) -> None:
        """Kill every runner that is at work; callable from any thread."""
        with self._lock:
            spares = [spare for kept in self._spares.values() for spare in kept]
            busy = [runner for runner in self._alive.values() if runner not in spares]
        for runner in busy:
            runner.kill(KillReason.CANCELLED)

    def _take(self, role: Role) -> Runner:
        runner = self._spare(role)
        if runner is None:
            self._missed |= role is Role.REFERENCE
            runner = self._start(role)
        while self._eager and len(self._spares[role]) < self._wanted[role]:
            self._spares[role].append(self._start(role))
        return runner

    def _spare(self, role: Role) -> Runner | None:
        while self._spares[role]:
            spare = self._spares[role].pop(0)
            if spare.alive:
                return spare
            self.release(spare)
        return None

    def _start(self, role: Role) -> Runner:
        # Under the lock, so that no sweep meets a runner that is not registered yet.
        with self._lock:
            runner = self._runner_type(self._sandbox, role, self._sweep)
            self._alive[runner.pid] = runner
            return runner

    def _sweep(self, launch: Launch) -> None:
        with self._lock:
            kill_strays(set(self._alive) - {launch.process.pid}, launch.marker)
