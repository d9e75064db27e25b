"""One candidate on a GPU, from its first line to its verdict and its latency."""

from __future__ import annotations

import re
import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch

from adaexplore_evaluator.devices.cpu.launches import Launch
from adaexplore_evaluator.referee.answers import Answer, Caller
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.clock import TIMING, PhaseClock
from adaexplore_evaluator.referee.conduct import demand_alone
from adaexplore_evaluator.referee.cuda.baselines import Baselines, device_floor_us
from adaexplore_evaluator.referee.cuda.canary import Reading
from adaexplore_evaluator.referee.cuda.clock import RoundClock, Rounds, Verify
from adaexplore_evaluator.referee.cuda.proof import Proof
from adaexplore_evaluator.referee.cuda.runner import CudaRunner
from adaexplore_evaluator.referee.cuda.timing import MeasuredBaseline, disagreement, faster_of, timing_of
from adaexplore_evaluator.referee.cuda.turns import GpuTurns
from adaexplore_evaluator.referee.reference import Made
from adaexplore_evaluator.referee.rounds import Options, Round
from adaexplore_evaluator.referee.runners import RunnerFailureError
from adaexplore_evaluator.referee.structure import triton_names
from adaexplore_evaluator.referee.tasks import MemoryLostError, PreparedTask
from adaexplore_evaluator.referee.timing import DEFAULTS_ONLY, Timing
from adaexplore_evaluator.referee.verdicts import FAILED, stop
from adaexplore_evaluator.runner.wire import Value

_REPEATED_CALLS = 8
_PLAIN = -1
_TRACER_S = 30.0
# Rounds between whose beginning and end the GPU has changed are made so often.
_ATTEMPTS = 2
# The first case is called twice under different poisons, and once more where both answers differ.
_POISONED_CALLS = 3
_NO_FIGURES: dict[str, Any] = dict.fromkeys(("median_us", "speedup", "speedup_low", "speedup_high", "speedup_over_eager"))
_LIBRARY = re.compile(r"cublas|cutlass|cudnn|gemm|gemv|xmma|nvjet|cufft|convolve|implicit_con|flash_fwd|fmha", re.IGNORECASE)


class CudaCaller(Caller):
    """Calls a candidate; of the calls after the first three, some have nothing between the candidate and torch.

    Attributes:
        launches: What all calls so far have launched.

    """

    def __init__(self, runner: CudaRunner, clock: PhaseClock, output_bytes: int) -> None:
        super().__init__(runner, clock, output_bytes)
        self._calls = 0
        self.launches: list[Launch] = []

    def call(self, case: Case, poison: int, order_seed: int, interpret: bool = True, configuration: int = 0) -> Answer:
        """One call on a case's inputs; raises as `Caller.call` does."""
        self._calls += 1
        # Where kernels are left out, memory that an earlier answer filled must not pass for a new one.
        plain = interpret and self._calls > _POISONED_CALLS and secrets.randbelow(2) == 1
        answer = super().call(case, _PLAIN if plain else poison, order_seed, interpret, configuration)
        self.launches += answer.launches
        return answer


class CudaRound(Round):
    """Judges one candidate at the full shape on the GPU."""

    def __init__(
        self,
        task: PreparedTask,
        source: str,
        options: Options,
        clock: PhaseClock,
        runner: CudaRunner,
        baselines: Baselines,
        turns: GpuTurns,
    ) -> None:
        self._caller = CudaCaller(runner, clock, baselines.value_bytes)
        super().__init__(task, source, options, clock, runner, baselines.value_bytes, self._caller)
        self._gpu = runner
        self._baselines = baselines
        self._turns = turns
        self._draw = secrets.SystemRandom()

    def _judge(self) -> Timing:
        try:
            return self._judged()
        except torch.OutOfMemoryError as error:
            raise self._crowded() from error

    def _judged(self) -> Timing:
        with self._using():
            self._load()
        demand_alone(self._runner, self._clock.phase)
        cases = self._task.default_cases if self._options.seeded else self._task.cases
        for group in _by_state(cases):
            with self._using():
                self._construct(group[0])
            for case in group:
                with self._using():
                    self._checker.check(case)
        with self._using():
            self._construct(cases[0])
            for _repeat in range(_REPEATED_CALLS):
                self._checker.check(cases[0])
        demand_alone(self._runner, self._clock.phase)
        with self._using():
            self._hold_to_track(self._caller.launches, cases)
        launches = list(self._checker.first.launches) if self._checker.first else []
        self._checker.release()
        return self._timed(launches, cases[0])

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Use the GPU beside others; nobody pays for the wait."""
        self._clock.left_s()  # what was used so far counts
        with self._turns.using():
            self._clock.excuse()
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else uses the GPU; nobody pays for the wait."""
        self._clock.left_s()
        with self._turns.alone():
            self._clock.excuse()
            yield

    def _crowded(self) -> Exception:
        """What it means that the referee's own copies find no memory: most often that a candidate keeps it."""
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        if total_bytes - free_bytes - torch.cuda.memory_reserved() < total_bytes // 2:
            return MemoryLostError("the memory of the GPU does not suffice to judge this task")
        message = (
            "the candidate leaves too little of the GPU's memory to compare its outputs; allocate less and keep nothing from call to call"
        )
        return stop(FAILED, "OUT_OF_MEMORY", self._clock.phase, message)

    def _timed(self, launches: list[Launch], own: Case) -> Timing:
        self._clock.begin(TIMING, "timing")
        # What takes long and need not be alone comes before and between: compiling the baselines, and starting the tracer.
        self._baselines.prepare(self._task)
        with self._using():
            made, state = self._baselines.full(self._task, own, self._options.seeded)
            proof = Proof(self._task, self._baselines.session(self._task), made, state, own)
            even = self._baselines.even(self._task, made, state)
        with self._alone():
            start_s = time.perf_counter()
            self._construct_for(made, state)
            setup_us = 1e6 * (time.perf_counter() - start_s)
        clock = RoundClock(
            *(self._gpu, self._clock, made.inputs, proof.output_bytes, self._baselines.cache_bytes, self._draw),
            self._unpaid(proof.verify),
            changed=own.made.changed,
            in_detail=True,
            output_tensors=proof.output_tensors,
            even=even,
            others=made.others,
        )
        rounds, reading, drift = self._steady(clock)
        self._hold_kernels_to_track(rounds, triton_names(self._caller.launches))
        self._gpu.close()  # nothing of a candidate may be alive where a baseline is measured
        timing = replace(self._confirmed(rounds, launches, reading, drift), setup_us=setup_us)
        timing = replace(timing, ceilings=self._baselines.ceilings.known(self._task.source.precision))
        self._clock.excuse()
        return replace(timing, explanation=DEFAULTS_ONLY + timing.explanation) if self._options.seeded else timing

    def _start_tracer(self) -> None:
        budget = PhaseClock({TIMING: _TRACER_S}, time.monotonic, lambda _phase, _message: None)
        budget.begin(TIMING)
        with suppress(RunnerFailureError):  # what it tells is detail
            self._runner.command("start_tracer", budget)

    def _steady(self, clock: RoundClock) -> tuple[Rounds, Reading, str]:
        """Rounds during which the GPU stayed as fast as it was, how fast that is, and in words what changed if it never did."""
        with self._using():
            self._command("bind_rounds")
            clock.prepare()
        for _attempt in range(_ATTEMPTS):
            with self._alone():
                before = self._reading()
                rounds = clock.run(self._baselines.bar(self._task))
                after = self._reading()
            drift = after.drifted_from(before)
            if not drift:
                break
        with self._using():
            clock.settle()
        self._start_tracer()
        with self._alone():
            rounds = clock.profiled(rounds)
        return rounds, after, drift

    def _reading(self) -> Reading:
        with self._gpu.paused():
            found = self._baselines.reading()
        self._clock.excuse()
        return found

    def _confirmed(self, rounds: Rounds, launches: list[Launch], reading: Reading, drift: str) -> Timing:
        """The timing against baselines that were measured now or before; that of a leader against the best one measured once more."""
        floor_us = device_floor_us(self._task, self._options.target)
        fresh = self._baselines.refresh(self._task, reading)
        baselines = self._baselines.known(self._task)
        timing = timing_of(rounds, baselines, launches, floor_us)
        if timing.status != "MEASURED" or timing.median_us is None:
            return timing
        if drift:
            return _noisy(timing, f"The GPU's speed has changed while the candidate was timed: {drift}.")
        changed = self._baselines.changed()
        if changed:
            return _noisy(timing, f"The GPU's speed has changed between the candidate and its baselines: {changed}.")
        if not fresh and self._baselines.leads(self._task, timing.median_us):
            timing = self._against_the_best(timing, rounds, launches, baselines)
        if timing.status != "MEASURED":
            return timing
        median_us = statistics.median(timing.samples_us)
        self._baselines.measured(self._task, median_us)
        bound_us = self._baselines.ceilings.roofline_us(self._task)
        return timing if bound_us is None else replace(timing, roofline_share=bound_us / median_us)

    def _against_the_best(self, timing: Timing, rounds: Rounds, launches: list[Launch], baselines: Sequence[MeasuredBaseline]) -> Timing:
        """The timing against the best baseline as it is before and after the candidate, the faster of which counts."""
        before = min(baselines, key=lambda item: item.median_us)
        after = self._baselines.again(self._task, before.kind)
        apart = disagreement(before, after)
        if apart:
            return _noisy(timing, apart)
        chosen = tuple(faster_of(before, after) if item is before else item for item in baselines)
        found = timing_of(rounds, chosen, launches, device_floor_us(self._task, self._options.target))
        return replace(found, explanation=f"{found.explanation} Its baseline was measured before and after it.")

    def _unpaid(self, verify: Verify) -> Verify:
        """The same, at nobody's expense: the reference's time is not the candidate's."""

        def verified(arguments: Value, output: Value, written: list[torch.Tensor]) -> None:
            verify(arguments, output, written)
            self._clock.excuse()

        return verified

    def _hold_kernels_to_track(self, rounds: Rounds, own: list[str]) -> None:
        """Kernels of libraries, by the names that they bear on the device, in what was timed."""
        track = self._task.source.track
        total_us = sum(us for _name, _count, us in rounds.kernels) or 1.0
        for name, _count, us in rounds.kernels if track != "any" else ():
            if name not in own and _LIBRARY.search(name):
                message = (
                    f"the track {track} forbids {name[:120]}, which takes {us / total_us:.0%} of the GPU's time; compute it in a kernel"
                )
                raise stop(FAILED, "TRACK", TIMING, message)

    def _construct_for(self, made: Made, state: Value) -> None:
        self._command("construct", init_inputs=self._runner.encode(made.init_inputs), seed=self._task.seed)
        if not self._options.seeded:
            self._demand_state(self._command("load_state", state=self._runner.encode(state)))
        self._runner.forget_buffers()


def _noisy(timing: Timing, text: str) -> Timing:
    return replace(timing, status="INCONCLUSIVE", cause="NOISE", explanation=text, **_NO_FIGURES)


def _by_state(cases: Sequence[Case]) -> list[list[Case]]:
    groups: list[list[Case]] = []
    for case in cases:
        if groups and groups[-1][0].state is case.state:
            groups[-1].append(case)
        else:
            groups.append([case])
    return groups
