"""The checks of one candidate over all cases, with hints where a failure looks like a known mistake."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch

from adaexplore_evaluator.referee.answers import Answer, Caller, Tuning, output_name, same_bits
from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.clock import CHECK
from adaexplore_evaluator.referee.distributions import Distribution
from adaexplore_evaluator.referee.numerics import ClassRules, Comparison, scaled_error
from adaexplore_evaluator.referee.runners import RunnerFailureError
from adaexplore_evaluator.referee.verdicts import FAILED, INCONCLUSIVE, REJECTED, TOO_SLOW, StopError, stop
from adaexplore_evaluator.runner.wire import tensors_of

_HINTS: Mapping[str, str] = {
    "tf32": "the error looks like tf32: pass input_precision='ieee' to tl.dot",
    "tf32_truncated": "the error looks like tf32: pass input_precision='ieee' to tl.dot",
    "bf16": "the error looks like operands rounded to bfloat16: keep them in the task's dtype",
    "default_state": (
        "the answer is that of the default parameters: tensors built from weights in __init__ were not rebuilt after the state was loaded; "
        "build them in after_load() or in forward()"
    ),
}
_LOOKS_LIKE = 0.3
# Up to so many configurations of an autotuned kernel, each is judged; of more, so many besides those that were chosen.
MANY_CONFIGURATIONS: Final = 8
_MORE_CONFIGURATIONS = 4
_NAMED_CHARS = 120
# Calls before the first case is done with, at least, and the seconds and the part of what is left that they may take.
_FEWEST_CALLS: Final = 12
_CALLS_S: Final = 4.0
_CALLS_SHARE: Final = 0.125


@dataclass(frozen=True)
class Check:
    """One comparison: its family, and its scaled error against what was allowed."""

    family: str
    passed: bool
    error: float
    budget: float


class Checker:
    """Runs a candidate over cases of one state after another.

    Args:
        caller: Calls the candidate.
        rules: Rules of the task's class.
        draw: Gives fresh random integers below 2**31.
        now_s: A monotonic clock in seconds.

    Attributes:
        checks: Every comparison so far, in order.
        first: The first answer; its launches are those of the judged shape.

    """

    def __init__(self, caller: Caller, rules: ClassRules, draw: Callable[[], int], now_s: Callable[[], float] = time.monotonic) -> None:
        self._caller = caller
        self._rules = rules
        self._draw = draw
        self._now_s = now_s
        self._passed: list[tuple[Case, Answer]] = []
        self.checks: list[Check] = []
        self.first: Answer | None = None

    def check(self, case: Case) -> None:
        """Judge one case; the first one often, under different poison and order. Raises StopError at the first failure."""
        poison, order = self._draw(), self._draw()
        answer = self._caller.call(case, poison, order)
        if isinstance(case.comparer, Distribution):
            self._demand_another(case, answer, case.comparer)
        if self.first is not None:
            self._judge(case, answer)
            return
        self.first = answer
        again = self._caller.call(case, poison + 1, self._draw())
        if not answer.same_bits(again) and not (self._accepts(case, answer) and self._accepts(case, again)):
            repeated = self._caller.call(case, poison, order)
            raise _differing(case, answer, again, poisoned=repeated.same_bits(answer))
        self._judge(case, answer)
        self._check_configurations(case, answer.tuning)
        self._outlast(case)

    def _demand_another(self, case: Case, answer: Answer, distribution: Distribution) -> None:
        """What is random must be drawn anew in each call, and each draw be right."""
        self._judge(case, answer)
        again = self._caller.call(case, self._draw(), self._draw())
        if not distribution.repeats and answer.same_bits(again):
            message = f"two calls give the same random numbers (inputs `{case.family}`); draw a new seed in each call"
            raise stop(FAILED, "NUMERIC", CHECK, message)
        self._judge(case, again)

    def _check_configurations(self, case: Case, tuning: Tuning) -> None:
        """Judge the case once more under each configuration of its autotuned kernels; of many, the chosen ones and a few others."""
        for number in self._to_judge(tuning):
            self._judge(case, self._caller.call(case, self._draw(), self._draw(), configuration=number))
        for number, text in enumerate(tuning.unfit[:MANY_CONFIGURATIONS]):
            try:
                self._judge(case, self._caller.call(case, self._draw(), self._draw(), configuration=-1 - number))
            except (StopError, RunnerFailureError) as error:
                if isinstance(error, RunnerFailureError) and error.error.kind == TOO_SLOW:
                    raise
                message = f"at full shape it tunes to {text[:_NAMED_CHARS]}, which cannot be judged at the judged shape; prune less"
                raise stop(INCONCLUSIVE, "SHAPE_DEPENDENT", CHECK, message) from error

    def _outlast(self, case: Case) -> None:
        """Call it so often that what is honest for its first calls alone is found out, here or by the cases that follow."""
        end_s = self._now_s() + min(_CALLS_S, self._caller.left_s() * _CALLS_SHARE)
        for _ in range(_FEWEST_CALLS + self._draw() % _FEWEST_CALLS):
            if self._now_s() > end_s:
                return
            answer = self._caller.call(case, self._draw(), self._draw())
            if not self._accepts(case, answer):
                self._judge(case, answer)

    def _to_judge(self, tuning: Tuning) -> list[int]:
        """Configurations that the case was not judged under, each once."""
        count = len(tuning.configurations)
        if count <= MANY_CONFIGURATIONS:
            return list(range(1, count))
        others = {self._draw() % count for _ in range(_MORE_CONFIGURATIONS)}
        return sorted((others | set(range(min(tuning.chosen, MANY_CONFIGURATIONS)))) - {0})

    def release(self) -> None:
        """Let go of all answers, when no case follows; of large ones they are many times what one takes."""
        self._passed.clear()
        self.first = None

    def unused_kernels(self, case: Case) -> bool:
        """True if the answer is right even when no Triton kernel does anything."""
        return self._accepts(case, self._caller.call(case, self._draw(), self._draw(), interpret=False))

    def _accepts(self, case: Case, answer: Answer) -> bool:
        return case.accepts(self._rules, answer.outputs)

    def _judge(self, case: Case, answer: Answer) -> None:
        comparisons = case.compare(self._rules, answer.outputs)
        worst = max(comparisons, key=_excess, default=None)
        if worst is not None:
            error, budget = _figures(worst)
            self.checks.append(Check(case.family, all(item.passed for item in comparisons), error, budget))
        for place, comparison in enumerate(comparisons):
            if comparison.mismatch is not None:
                raise self._wrong(case, answer, comparison, place)
        self._passed.append((case, answer))

    def _wrong(self, case: Case, answer: Answer, comparison: Comparison, place: int) -> StopError:
        name = output_name(place, len(case.expected))
        if any(answer.same_bits(earlier) and other_tensors(case, before) for before, earlier in self._passed):
            message = f"{name} for the inputs `{case.family}` is bit for bit an earlier answer; compute it from the inputs of each call"
            return stop(REJECTED, "REPLAY", CHECK, message)
        mismatch = comparison.mismatch
        assert mismatch is not None  # noqa: S101 - the caller looked
        if mismatch.kind == "distribution":
            message = (
                f"{name} is no draw of the reference's distribution (inputs `{case.family}`): its {mismatch.what} is {mismatch.found:.4g}, "
                f"of the reference about {mismatch.expected:.4g}"
            )
            return stop(FAILED, "NUMERIC", CHECK, message)
        error, budget = _figures(comparison)
        cause = "SPECIAL_VALUES" if mismatch.kind == "special" else "NUMERIC"
        hint = self._hint(case, answer, place)
        tuned = f", configuration {answer.tuned_to[:_NAMED_CHARS]}" if answer.tuned_to else ""
        message = (
            f"{name}{list(mismatch.index)} is {mismatch.found:.9g}, must be {mismatch.expected:.9g} "
            f"(inputs `{case.family}`{tuned}; scaled error {error:.2g}, allowed {budget:.2g}){'; ' if hint else ''}{hint}"
        )
        return stop(FAILED, cause, CHECK, message)

    def _hint(self, case: Case, answer: Answer, place: int) -> str:
        found, expected = answer.outputs[place], case.expected[place]
        if not found.is_floating_point():
            return ""
        if not bool(found.any()):
            return "the output is all zeros"
        if found.numel() > 1 and bool((found == found.reshape(-1)[0]).all()):
            return "the output is constant"
        own = scaled_error(self._rules, found, expected.truth, expected.reference).rms
        # Of an answer without finite values every error is infinite, and any other one small beside it.
        for name, answers in case.lookalikes.items() if math.isfinite(own) else ():
            if scaled_error(self._rules, found, answers[place], expected.reference).rms <= _LOOKS_LIKE * own:
                return _HINTS[name]
        if found.dtype == torch.float32 and torch.equal(found.half().float(), found):
            return "every value is a float16 value: keep intermediate results in float32"
        return ""


def _differing(case: Case, answer: Answer, again: Answer, poisoned: bool) -> StopError:
    place, index, left, right = _first_difference(answer, again)
    name = f"{output_name(place, len(case.expected))}{index}"
    if poisoned:
        message = f"{name} depends on memory that nothing wrote ({left:.9g} or {right:.9g}); write every element of each output and buffer"
        return stop(FAILED, "MEMORY", CHECK, message)
    message = f"{name} differs between two calls on the same inputs ({left:.9g}, then {right:.9g}); keep no state and let no programs race"
    return stop(FAILED, "NONDETERMINISTIC", CHECK, message)


def _first_difference(answer: Answer, again: Answer) -> tuple[int, list[int], float, float]:
    for place, (left, right) in enumerate(zip(answer.outputs, again.outputs, strict=True)):
        different = ~((left == right) | (torch.isnan(left.real) & torch.isnan(right.real)))
        if bool(different.any()):
            index = [int(item) for item in different.nonzero()[0]]
            return place, index, float(left[tuple(index)].real), float(right[tuple(index)].real)
    return 0, [], 0.0, 0.0


def other_tensors(case: Case, before: Case) -> bool:
    """True if tensors or state of two cases differ: where only other arguments do, a kernel that ignores these repeats itself honestly."""
    left, right = (tensors_of([item.made.inputs, item.state]) for item in (case, before))
    return len(left) != len(right) or not all(same_bits(*pair) for pair in zip(left, right, strict=True))


def _figures(comparison: Comparison) -> tuple[float, float]:
    """The error and the budget that tell: of the worst element, or in the mean square where only that is exceeded."""
    error, budget = comparison.error, comparison.budget
    if error.largest <= budget.largest and error.rms > budget.rms:
        return error.rms, budget.rms
    return error.largest, budget.largest


def _excess(comparison: Comparison) -> float:
    if comparison.mismatch is not None and comparison.mismatch.kind == "special":
        return float("inf")
    error, budget = _figures(comparison)
    return error / budget if budget else error
