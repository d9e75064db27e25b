"""Checks answers of timed rounds against the reference on the very inputs of their slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from adaexplore_evaluator.referee.cases import Case
from adaexplore_evaluator.referee.clock import TIMING
from adaexplore_evaluator.referee.cuda.baseline_runner import reference_at_work
from adaexplore_evaluator.referee.distributions import Distribution, distribution_of
from adaexplore_evaluator.referee.numerics import RULES, Expected, budget_for
from adaexplore_evaluator.referee.reference import Made, ReferenceSession
from adaexplore_evaluator.referee.tasks import PreparedTask
from adaexplore_evaluator.referee.values import leaves
from adaexplore_evaluator.referee.verdicts import FAILED, stop
from adaexplore_evaluator.runner.wire import Value

_TIMED = "timed"
# Draws of the reference that a random answer is held against: as many as a few gigabytes hold.
_MOST_DRAWS = 32
_FEWEST_DRAWS = 8
_DRAWN_BYTES = 2**31


class Proof:
    """The truth about timed rounds of one candidate.

    Args:
        task: The task.
        session: Its reference.
        made: Arguments of a call and of the constructor at full shape.
        state: Parameters and buffers.
        own: The case of the task's own inputs, whose budgets hold here too.

    Attributes:
        output_bytes: Size of one call's outputs.
        output_tensors: How many tensors they are.

    """

    def __init__(self, task: PreparedTask, session: ReferenceSession, made: Made, state: Value, own: Case) -> None:
        self._rules = RULES[task.source.precision]
        self._session = session
        self._made = made
        self._state = state
        self._own = own
        with reference_at_work():
            outputs = leaves(session.run(made, state, "class", shape="full"))
        self.output_bytes = sum(item.numel() * item.element_size() for item in outputs)
        self.output_tensors = len(outputs)

    def verify(self, arguments: Value, output: Value, written: Sequence[torch.Tensor] = ()) -> None:
        """StopError unless an answer to these arguments, and what was `written` to those that the call is to change, is right."""
        made = replace(self._made, inputs=arguments)
        if isinstance(self._own.comparer, Distribution):
            self._verify_draw(made, output, written)
            return
        with reference_at_work():
            truth = self._session.answer(made, self._state, "float64", shape="full", watch=made.changed).leaves
            answer = self._session.answer(made, self._state, "class", shape="full", watch=made.changed)
        reference, found = answer.leaves, [*leaves(_in_order_of(answer.outputs, output)), *written]
        expected = tuple(self._expected(place, *pair) for place, pair in enumerate(zip(truth, reference, strict=True)))
        rules, comparer = self._own.rules or self._rules, self._own.comparer
        fresh = comparer.renewed(rules, truth, reference) if comparer is not None else None
        case = Case(_TIMED, made, self._state, expected, rules=rules, comparer=fresh)
        _demand_form(found, reference)
        for comparison in case.compare(self._rules, found):
            mismatch = comparison.mismatch
            if mismatch is not None:
                message = (
                    f"in a timed round the output{list(mismatch.index)} is {mismatch.found:.9g}, must be {mismatch.expected:.9g}, though "
                    "single calls are right; compute every call from its own inputs, on the stream it is called on"
                )
                raise stop(FAILED, "NUMERIC", TIMING, message)

    def _verify_draw(self, made: Made, output: Value, written: Sequence[torch.Tensor]) -> None:
        """StopError unless a random answer looks like one more draw of the reference for the same arguments."""
        count = max(_FEWEST_DRAWS, min(_MOST_DRAWS, _DRAWN_BYTES // max(self.output_bytes, 1)))
        with reference_at_work():
            answers = [self._session.answer(made, self._state, "class", shape="full", watch=made.changed) for _ in range(count)]
        found = [*leaves(_in_order_of(answers[0].outputs, output)), *written]
        _demand_form(found, answers[0].leaves)
        rules = self._own.rules or self._rules
        for comparison in distribution_of([answer.leaves for answer in answers], rules).compare(rules, found, ()):
            mismatch = comparison.mismatch
            if mismatch is not None:
                message = (
                    "in a timed round the output is no draw of the reference's distribution, though single calls are: its "
                    f"{mismatch.what} is {mismatch.found:.4g}, must be near {mismatch.expected:.4g}; draw anew in every call, on the "
                    "stream it is called on"
                )
                raise stop(FAILED, "NUMERIC", TIMING, message)

    def _expected(self, place: int, truth: torch.Tensor, reference: torch.Tensor) -> Expected:
        budget, own = budget_for(self._own.rules or self._rules, truth, reference, []), self._own.expected[place].budget
        return Expected(truth, reference, replace(budget, largest=max(budget.largest, own.largest), rms=max(budget.rms, own.rms)))


def _demand_form(found: Sequence[torch.Tensor], reference: Sequence[torch.Tensor]) -> None:
    same = len(found) == len(reference) and all(
        left.shape == right.shape and left.dtype == right.dtype for left, right in zip(found, reference, strict=True)
    )
    if not same:
        raise stop(FAILED, "SHAPE", TIMING, "in a timed round outputs have another form than in single calls; always return the same form")


def _in_order_of(answer: Value, output: Value) -> Value:
    """The output with its dictionaries in the order of the reference's."""
    if isinstance(answer, dict) and isinstance(output, dict) and answer.keys() == output.keys():
        return {key: _in_order_of(inner, output[key]) for key, inner in answer.items()}
    if isinstance(answer, list | tuple) and isinstance(output, list | tuple) and len(answer) == len(output):
        return [_in_order_of(inner, item) for inner, item in zip(answer, output, strict=True)]
    return output
