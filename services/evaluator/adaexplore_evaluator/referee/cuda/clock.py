"""The referee's clock: rounds of calls on a runner, timed from `go` until its own read of the last output has come back.

The latency of one call is the slope over two round lengths. Every slot of a round has inputs of its own, written anew before each round
while the runner stands still, and an output region of its own, which the referee poisons before and reads after without asking the runner.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from adaexplore_evaluator.referee.clock import TIMING, PhaseClock
from adaexplore_evaluator.referee.cuda.caches import CacheTimes, Replays, cache_times
from adaexplore_evaluator.referee.cuda.first_look import Bar
from adaexplore_evaluator.referee.cuda.halves import Halves
from adaexplore_evaluator.referee.cuda.outputs import Regions, listed
from adaexplore_evaluator.referee.cuda.profile import Kernel, parsed_profile
from adaexplore_evaluator.referee.cuda.runner import CudaRunner
from adaexplore_evaluator.referee.cuda.slots import Given, Slots, slot_count
from adaexplore_evaluator.referee.runners import RunnerFailureError
from adaexplore_evaluator.referee.values import MalformedReplyError
from adaexplore_evaluator.referee.values import count as count_in
from adaexplore_evaluator.referee.verdicts import FAILED, REJECTED, stop
from adaexplore_evaluator.runner.cuda.driver import reset_persisting_lines
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import Value

ROUND_S = 0.05
# What a round costs besides its calls is less: waking the runner, and giving the GPU from one process to another.
ROUND_COST_S = 1e-3
_LEAST_PROBED = 4
_MOST_PROBED = 256
_REPEATS = 11
# Where graphs tell the latency, plain launches tell only what Python adds.
_PLAIN_REPEATS = 4
_MOST_PLAIN = 512
_DISCARDED = 1
# Answers of all repeats are kept to be compared, unless they are larger together; then of so many early and late ones.
_KEPT_BYTES = 1 << 32
_CHECKED_EARLY = 1
_CHECKED_LATE = 3
# So many are compared, drawn when all are in, and more while the time lasts.
_LEAST_COMPARED = 12
_COMPARING_S = 2.0
_LARGE_BYTES = 1 << 31
_NO_BAR = Bar()

# Given a slot's arguments, what the subject answered there, and what it wrote to arguments that it may change: raises if that is wrong.
Verify = Callable[[Value, Value, list[torch.Tensor]], None]


@dataclass(frozen=True)
class Rounds:
    """What rounds of one subject took, in microseconds a call.

    Attributes:
        busy_us: Slopes over replays of captured graphs; empty where nothing could be captured.
        end_to_end_us: Slopes over plain launches.
        slots: Slots of a long round.
        cold: Whether a round's inputs exceed the caches, so that none is read from them.
        not_captured: Why there are no graphs; empty if there are.
        first_look: Whether they ended after a first look, since the subject is far behind the best baseline.
        caches: Latency with cold and with warm caches, of a captured subject whose answers are checked.
        span_us: Time of one call between first start and last end, as the profiler in the runner's own process says; 0 if unknown.
        kernels: Name, calls and total microseconds of the kernels of the profiled calls, the longest first.
        profiled: Calls that were profiled.
        nodes: Kernels and copies of one call, as its graph has them; 0 if unknown.
        beside_us: Time of one call as the referee's clock says, with what a round costs, right before the profiled calls; 0 if unknown.

    """

    busy_us: tuple[float, ...]
    end_to_end_us: tuple[float, ...]
    slots: int
    cold: bool
    not_captured: str = ""
    span_us: float = 0.0
    kernels: tuple[Kernel, ...] = ()
    first_look: bool = False
    caches: CacheTimes = field(default_factory=CacheTimes)
    profiled: int = 0
    nodes: float = 0.0
    beside_us: float = 0.0

    @property
    def samples_us(self) -> tuple[float, ...]:
        """The slopes that count: GPU-busy where there are graphs, else end to end."""
        return self.busy_us or self.end_to_end_us


@dataclass(frozen=True)
class _Kept:
    """An answer of a timed round, what it was given, and what it wrote to arguments that it may change."""

    given: Given
    output: Value
    written: list[torch.Tensor]


class RoundClock:
    """Times a subject that a runner has bound.

    Args:
        runner: The runner.
        clock: Time budget.
        arguments: Arguments of one call, as the base of all slots.
        output_bytes: Size of one call's outputs.
        cache_bytes: Size of the GPU's largest cache.
        draw: The referee's own random numbers.
        verify: Checks an answer; None trusts the subject, as a baseline is.
        changed: Tensors of the arguments, by number, that a call is to write to.
        in_detail: Whether cold and warm latency are told too.
        output_tensors: Tensors of one call's outputs.
        even: Whether all elements of an argument are scaled alike, as `Slots` says.
        others: Further draws of the arguments, as `Slots` says.

    """

    def __init__(
        self,
        runner: CudaRunner,
        clock: PhaseClock,
        arguments: Value,
        output_bytes: int,
        cache_bytes: int,
        draw: random.Random,
        verify: Verify | None,
        changed: Sequence[int] = (),
        in_detail: bool = False,
        output_tensors: int = 1,
        even: bool = False,
        others: Sequence[Value] = (),
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._slots = Slots(runner, arguments, draw, even, others)
        self._output_bytes = output_bytes
        self._cache_bytes = cache_bytes
        self._draw = draw
        self._verify = verify
        self._changed = tuple(changed)
        self._in_detail = in_detail
        self._output_tensors = output_tensors
        self._halves = Halves()
        self._count = 0
        self._reason = ""
        self._kept: list[_Kept] = []

    def prepare(self) -> None:
        """Find out how long rounds must be, fill their slots and capture their graphs; others may use the GPU meanwhile.

        Raises what the runner's failures raise.
        """
        self.close()
        count = self._affordable(self._probed(min(_LEAST_PROBED, self._affordable(0.0))))
        if count > _MOST_PROBED:  # so few calls told little but what a round costs
            count = self._affordable(self._probed(_MOST_PROBED))
        self._open(count)
        self._count, self._halves = count, Halves()
        self._reason = self._capture(self._halves, count)

    def run(self, bar: Bar = _NO_BAR) -> Rounds:
        """All rounds that were prepared, whose slots and graphs stay until `close`; `settle` compares the answers that they leave.

        Args:
            bar: The best baselines. Of a subject that is out of their reach only those further rounds are made whose answers are
                compared, where not all are; what is compared is as much as ever.

        Raises what the runner's failures raise.

        """
        halves, count, reason = self._halves, self._count, self._reason
        self._kept = []
        busy: list[float] = []
        plain: list[float] = []
        checked, hopeless = self._checked(), False
        for repeat in range(_REPEATS):
            if hopeless and (len(checked) == _REPEATS or repeat not in checked):
                continue
            if not reason:
                busy.append(self._captured_slope(halves, count, repeat in checked))
            if reason or repeat < _PLAIN_REPEATS:
                plain.append(self._plain_slope(count if reason else min(count, _MOST_PLAIN), repeat in checked))
            hopeless = hopeless or bar.is_out_of_reach(busy[_DISCARDED:], plain[_DISCARDED:])
        cold = count // 2 * self._slots.bytes >= 2 * self._cache_bytes
        found = Rounds(tuple(busy[_DISCARDED:]), tuple(plain[_DISCARDED:]), count, cold, reason, nodes=halves.nodes, first_look=hopeless)
        if found.busy_us and self._in_detail and not hopeless:
            found = replace(found, caches=self._caches(halves, count, statistics.median(found.busy_us), cold))
        return found

    def settle(self) -> None:
        """Compare what the last `run` kept, in an order that nobody knew while it ran; nobody has to be alone for it.

        Raises what `verify` raises.
        """
        kept, self._kept = self._kept, []
        self._draw.shuffle(kept)
        start_s = time.perf_counter()
        for number, answer in enumerate(kept):
            if number >= _LEAST_COMPARED and time.perf_counter() - start_s > _COMPARING_S:
                break
            self._compare(answer)

    def _compare(self, answer: _Kept) -> None:
        if self._verify is not None:
            self._verify(answer.given.arguments(), answer.output, answer.written)

    def _checked(self) -> set[int]:
        """Numbers of the repeats whose answers are kept."""
        answers = 2 * len(self._looked_at(_LEAST_PROBED, 0)) * _REPEATS
        if answers * self._output_bytes <= _KEPT_BYTES:
            return set(range(_REPEATS))
        early, late = range(_PLAIN_REPEATS), range(_PLAIN_REPEATS, _REPEATS)
        return {*self._draw.sample(early, _CHECKED_EARLY), *self._draw.sample(late, _CHECKED_LATE)}

    def profiled(self, rounds: Rounds) -> Rounds:
        """What `run` found, with what the profiler sees of one half's graph, or of all plain calls, made as they were when they were timed.

        Last, since a tracer slows calls from then on.
        """
        halves = None if rounds.not_captured else self._halves
        graphs, count = ([0], rounds.slots // 2) if halves else ([], rounds.slots)
        # A GPU that has been idle is faster at first than under load, so that the profiler's time needs one of that moment beside it.
        beside_us = 1e6 * self._replay_s(halves, graphs) / count if halves else 0.0
        self._prepare(halves.regions(graphs) if halves else None, count)
        try:
            span_us, kernels = parsed_profile(self._command("spans", graphs=graphs, first=0, count=count), count)
        except RunnerFailureError:  # another profiler may hold the counters; it is detail
            return rounds
        return replace(rounds, span_us=span_us, beside_us=beside_us, kernels=kernels, profiled=count)

    def close(self) -> None:
        """Give back the slots, the graphs and what they map."""
        self._halves.drop()
        self._slots.release()
        self._runner.segments.forget()  # before the runner frees what they map
        self._command("close_rounds")
        self._runner.forget_buffers()

    def _affordable(self, call_s: float) -> int:
        # Plain rounds keep their outputs beside those of the graphs.
        slot_bytes = self._slots.bytes + 2 * self._output_bytes
        named = max(self._slots.tensors, self._output_tensors)
        return slot_count(call_s, ROUND_S, slot_bytes, torch.cuda.mem_get_info()[0], named)

    def _open(self, count: int) -> None:
        self._command("open_rounds", slots=self._slots.allocate(count))

    def _probed(self, count: int) -> float:
        """Seconds of one call, roughly: of graphs where they can be captured."""
        self._open(count)
        halves = Halves()
        times = []
        reason = self._capture(halves, count)
        for _attempt in range(3):
            start_s = time.perf_counter()
            if reason:
                self._command("plain", first=0, count=count)
            else:
                self._command("replay", graphs=halves.graphs)
            times.append(time.perf_counter() - start_s)
        halves.drop()
        self.close()  # what it holds must not pass for memory that is not free
        return max(min(times) - 50e-6, 1e-6) / count

    def _capture(self, halves: Halves, count: int) -> str:
        for first in (0, count // 2):
            reason = self._captured(halves, first, count // 2)
            if reason:
                return reason
        return ""

    def _captured(self, halves: Halves, first: int, count: int, times: int = 1, flush_bytes: int = 0) -> str:
        reply = self._command("capture", first=first, count=count, times=times, flush_bytes=flush_bytes)
        if reply.get("captured") is not True:
            return str(reply.get("reason") or "it cannot be captured in a CUDA graph")[:300]
        halves.outputs.append(listed(self._runner.look(reply.get("outputs")), count * times))
        halves.graphs.append(len(halves.graphs))
        halves.nodes = halves.nodes or count_in(reply, "nodes") / (count * times)
        return ""

    def _captured_slope(self, halves: Halves, count: int, check: bool) -> float:
        return self._slope(lambda: self._replay_s(halves, [0]), lambda: self._replay_s(halves, [0, 1], check), count)

    def _replay_s(self, halves: Halves, graphs: list[int], check: bool = False, times: int = 1) -> float:
        """Seconds of a round over new inputs, each slot of which is called `times` times."""
        regions = halves.regions(graphs)
        number = sum(len(halves.outputs[graph]) for graph in graphs)
        secret = self._draw.randrange(number) if check else number - 1
        elapsed_s, fresh = self._around(graphs, regions, number // times)
        if not fresh and self._verify is not None:
            raise stop(REJECTED, "FORGED_RESULT", TIMING, "a timed round was said to be done before its last output was written")
        if check:
            self._check({at // times: regions.copied(at) for at in self._looked_at(number, secret)})
        return elapsed_s

    def _around(self, graphs: list[int], regions: Regions, slots: int) -> tuple[float, bool]:
        """Seconds of a replay after so many slots are written anew, and whether the last output was; the read of it is timed too."""
        self._prepare(regions, slots)
        start_s = time.perf_counter()
        self._command("replay", graphs=graphs)
        fresh = regions.last_is_fresh()
        return time.perf_counter() - start_s, fresh

    def _prepare(self, regions: Regions | None, slots: int) -> None:
        """Write so many slots anew while the runner stands still; where outputs are known, poison them."""
        with self._runner.paused():
            if regions is not None:
                regions.poison()
            self._slots.fill(slots)  # after the poison: an output may be an input
            reset_persisting_lines()
            torch.cuda.synchronize()

    def _looked_at(self, number: int, secret: int) -> set[int]:
        """Slots whose answers are compared; of large ones one, since each is held beside its truth."""
        return {secret} if self._output_bytes > _LARGE_BYTES else {number - 1, secret}

    def _caches(self, halves: Halves, count: int, rotating_us: float, is_cold: bool) -> CacheTimes:
        times: dict[int, int] = {}

        def capture(slots: int, calls: int, flush_bytes: int) -> int:
            if self._captured(halves, 0, slots, calls, flush_bytes):
                return -1
            times[halves.graphs[-1]] = calls
            return halves.graphs[-1]

        def capture_flushes(flushes: int, size: int) -> int:
            self._command("capture_flushes", count=flushes, flush_bytes=size)
            halves.outputs.append([])
            halves.graphs.append(len(halves.graphs))
            return halves.graphs[-1]

        def seconds(graph: int, check: bool) -> float:
            if halves.outputs[graph]:
                return self._replay_s(halves, [graph], check, times.get(graph, 1))
            # The same around it as around one that calls: what that costs must cancel.
            return self._around([graph], halves.regions([0]), len(halves.outputs[0]))[0]

        call_bytes = self._slots.bytes + self._output_bytes
        lent = Replays(capture, capture_flushes, seconds)
        # A second call on what the first has changed is another call.
        return cache_times(lent, 0, count // 2, rotating_us, is_cold, call_bytes, self._cache_bytes, repeats=not self._changed)

    def _plain_slope(self, count: int, check: bool) -> float:
        def round_of(number: int, checked: bool) -> float:
            self._prepare(None, number)
            start_s = time.perf_counter()
            reply = self._command("plain", first=0, count=number)
            elapsed_s = time.perf_counter() - start_s
            if checked:
                self._check_plain(reply, number)
            return elapsed_s

        return self._slope(lambda: round_of(count // 2, False), lambda: round_of(count, check), count)

    def _slope(self, short: Callable[[], float], long: Callable[[], float], count: int) -> float:
        """Microseconds a call; the order of both rounds is drawn.

        A runner that answers short rounds late would lower the slope; a long round less what a round costs bounds it from below.
        """
        if self._draw.random() < 0.5:
            short_s, long_s = short(), long()
        else:
            long_s, short_s = long(), short()
        return 1e6 * max((long_s - short_s) / (count - count // 2), (long_s - ROUND_COST_S) / count)

    def _check_plain(self, reply: JsonObject, number: int) -> None:
        """The outputs must lie where the round's own answer said, which was told before anybody knew which are looked at."""
        told = reply.get("pointers")
        tree = self._command("plain_outputs").get("outputs")
        if not isinstance(told, list) or len(told) != number:
            raise MalformedReplyError("a round names another number of outputs")
        regions = Regions(listed(self._runner.look(tree), number))
        if not regions.lie_as(told, self._runner.segments.base_of):
            raise MalformedReplyError("outputs of a round lie elsewhere than was said when it ended")
        self._check({at: regions.copied(at) for at in self._looked_at(number, self._draw.randrange(number))})

    def _check(self, found: dict[int, Value]) -> None:
        if self._verify is None:
            return
        written = {at: self._slots.copied(at, self._changed) for at in found}
        torch.cuda.synchronize()
        for at, output in found.items():
            if not self._slots.untouched(at, self._changed):
                raise stop(FAILED, "MEMORY", TIMING, "an input was changed in a timed round; write to a tensor of its own instead")
            answer = _Kept(self._slots.given(at), output, written[at])
            if self._output_bytes > _LARGE_BYTES:  # one is as much as there is room for
                self._compare(answer)
            else:
                self._kept.append(answer)

    def _command(self, name: str, **arguments: Any) -> JsonObject:
        return self._runner.command(name, self._clock, **arguments)
