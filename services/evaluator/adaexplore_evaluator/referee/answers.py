"""One call of a candidate: what it answered, checked for form, and whether it left its inputs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from adaexplore_evaluator.devices.cpu.launches import Launch
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.clock import CHECK, TUNE, PhaseClock
from adaexplore_evaluator.referee.conduct import demand_quiet
from adaexplore_evaluator.referee.outline import arranged
from adaexplore_evaluator.referee.runners import Runner
from adaexplore_evaluator.referee.structure import Kernel, kernels_of, parsed_launches
from adaexplore_evaluator.referee.values import MalformedReplyError, check_storages, leaves, names, objects, types_of
from adaexplore_evaluator.referee.verdicts import FAILED, REJECTED, StopError, stop
from adaexplore_evaluator.runner.frames import JsonObject
from adaexplore_evaluator.runner.wire import DTYPE_NAMES, Value, tensors_of

Types = Sequence[tuple[str, tuple[int, ...]]]
# Of an even share of the time, what the first call may take, and its seconds at least: machines are slower at times.
_FIRST_SHARE: Final = 0.5
_FIRST_LEAST_S: Final = 2.0
# Of what is left, what any other call and what tuning may take.
_NEXT_SHARE: Final = 0.9
_TUNING_SHARE: Final = 0.6


@dataclass(frozen=True)
class Tuning:
    """Configurations of autotuned kernels, described: those that run at the judged shape, of which the first `chosen` were chosen at full
    shape, and those that were chosen there and do not run here.
    """

    configurations: tuple[str, ...] = ()
    chosen: int = 0
    unfit: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Outputs of one call, copied out of the shared folder, and what was launched for them."""

    outputs: list[torch.Tensor]
    launches: list[Launch]
    kernels: set[Kernel]
    tuning: Tuning = Tuning()
    configuration: int = 0

    @property
    def tuned_to(self) -> str:
        """The configuration of its autotuned kernels, described; empty without any."""
        known = self.tuning.configurations if self.configuration >= 0 else self.tuning.unfit
        number = self.configuration if self.configuration >= 0 else -1 - self.configuration
        return known[number] if number < len(known) else ""

    def same_bits(self, other: Answer) -> bool:
        """True if every output is bit for bit the same."""
        return len(self.outputs) == len(other.outputs) and all(
            same_bits(left, right) for left, right in zip(self.outputs, other.outputs, strict=True)
        )


class Caller:
    """Calls one candidate.

    Args:
        runner: Its runner, the candidate loaded and constructed.
        clock: Time budgets.
        output_bytes: Size that its outputs may have together.
        expected_calls: How many calls are to come, to know how long the first may take where kernels are interpreted; 0 where none are.

    """

    def __init__(self, runner: Runner, clock: PhaseClock, output_bytes: int, expected_calls: int = 0) -> None:
        self._runner = runner
        self._clock = clock
        self._output_bytes = output_bytes
        self._expected_calls = expected_calls
        self._is_first = True

    def left_s(self) -> float:
        """Seconds that are left for checks."""
        self._clock.begin(CHECK)
        return self._clock.left_s()

    def call(self, case: Case, poison: int, order_seed: int, interpret: bool = True, configuration: int = 0) -> Answer:
        """One call on a case's inputs.

        Autotuned kernels run the configuration of this number in the answer's tuning, or the unfit one of number -1 - `configuration`.

        Raises:
            StopError: An access out of bounds, a race, a mutated input, outputs of another form, or text on standard output.
            MalformedReplyError: The reply has not the form of the protocol.

        """
        self._clock.begin(CHECK, "comparing with the float64 truth")
        tree = self._runner.encode(case.made.inputs)
        asked: dict[str, object] = {"poison": poison, "order_seed": order_seed, "interpret": interpret, "configuration": configuration}
        asked |= self._allowance()
        reply = self._runner.command("run", self._clock, inputs=tree, **asked)
        demand_quiet(self._runner, reply, CHECK)
        refuse_violations(reply)
        if reply.get("late") is True:
            message = "the outputs are written after the call returns; join all threads, and let the current stream wait for the others"
            raise stop(REJECTED, "HIDDEN_WORK", CHECK, message)
        outputs = arranged(reply.get("outputs"), case.outline, case.family)
        demand_types(types_of(outputs), expected_types(case), case.family)
        _demand_device(reply, case.family)
        check_storages(outputs, self._output_bytes)
        found = leaves(self._runner.decode(outputs))
        after = self._runner.decode(tree)
        _demand_unchanged(case.made.inputs, after, case.family, case.made.changed)
        written = tensors_of(after)
        found += [written[place].detach() for place in case.made.changed]
        self._runner.forget_buffers()
        return Answer(found, parsed_launches(reply), kernels_of(reply), _tuning_of(reply), configuration)

    def _allowance(self) -> dict[str, float]:
        """Seconds that interpreting one call may take: if all were to be as slow as the first, the time would do for twice as many."""
        if not self._expected_calls:
            return {}
        left_s = max(self._clock.left_s(), 0.0)
        even_s = max(_FIRST_SHARE * left_s / self._expected_calls, min(_FIRST_LEAST_S, _NEXT_SHARE * left_s))
        found = {"interpreting_s": even_s if self._is_first else _NEXT_SHARE * left_s}
        self._is_first = False
        return {**found, "tuning_s": max(_TUNING_SHARE * self._clock.left_s(TUNE), 0.0)}


def expected_types(case: Case) -> Types:
    """Dtype and shape of each output of a case."""
    return [(DTYPE_NAMES[item.reference.dtype], tuple(item.reference.shape)) for item in case.returned]


def demand_types(found: Types, expected: Types, where: str) -> None:
    """StopError unless number, shapes and dtypes of outputs agree."""
    if len(found) != len(expected):
        raise stop(FAILED, "SHAPE", CHECK, f"the candidate returns {len(found)} tensors, the task {len(expected)} ({where})")
    for place, ((dtype, shape), (right_dtype, right_shape)) in enumerate(zip(found, expected, strict=True)):
        name = output_name(place, len(expected))
        if shape != right_shape:
            raise stop(FAILED, "SHAPE", CHECK, f"{name} has shape {list(shape)}, must be {list(right_shape)} ({where})")
        if dtype != right_dtype:
            raise stop(FAILED, "DTYPE", CHECK, f"{name} is {dtype}, must be {right_dtype} ({where}); cast it before returning")


def output_name(place: int, count: int) -> str:
    """How messages call an output."""
    return "the output" if count == 1 else f"output {place}"


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """True if two tensors have the same type and the same bytes; NaN equals NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.equal(left.contiguous().reshape(-1).view(torch.uint8), right.contiguous().reshape(-1).view(torch.uint8))


def _tuning_of(reply: JsonObject) -> Tuning:
    tuning = reply.get("tuning")
    if not isinstance(tuning, dict) or type(tuning.get("chosen")) is not int:
        raise MalformedReplyError("tuning has another form")
    return Tuning(tuple(names(tuning, "configurations")), tuning["chosen"], tuple(names(tuning, "unfit")))


def refuse_violations(reply: JsonObject, where: str = "") -> None:
    """StopError for the first violation of a reply; `where` begins its message."""
    for violation in objects(reply, "violations"):
        raise _violation(violation, where)


def _violation(violation: JsonObject, where: str) -> StopError:
    kernel, line = str(violation.get("kernel_name") or ""), violation.get("line")
    number = line if isinstance(line, int) and line > 0 else 0
    cause = "NONDETERMINISTIC" if violation.get("kind") == "race" else "MEMORY"
    place = f"kernel {kernel}, line {number}" if number else f"kernel {kernel}" if kernel else "the candidate"
    remedy = {
        "out_of_bounds": "mask the access by the tensor's extent",
        "offset_overflow": "the offset overflows int32; cast the row index to tl.int64",
        "race": "let each program write its own elements, or use atomics",
    }.get(str(violation.get("kind")), "write each element before it is read")
    return stop(FAILED, cause, CHECK, f"{where}{place}: {violation.get('message')}; {remedy}", number, kernel[:200])


def _demand_device(reply: JsonObject, family: str) -> None:
    for place, device in enumerate(names(reply, "devices")):
        if device != "cuda":
            message = f"output {place} lives on {device[:20]}, must be on the inputs' device ({family}); create it with device=x.device"
            raise stop(FAILED, "DEVICE", CHECK, message)


def _demand_unchanged(before: Value, after: Value, family: str, allowed: Sequence[int] = ()) -> None:
    for place, (left, right) in enumerate(zip(tensors_of(before), tensors_of(after), strict=True)):
        if place not in allowed and not same_bits(left.detach(), right.detach()):
            raise stop(FAILED, "MEMORY", CHECK, f"input {place} was changed in place ({family}); write to a tensor of its own instead")
