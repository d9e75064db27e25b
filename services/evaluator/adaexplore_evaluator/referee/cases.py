"""Cases: inputs of one family with everything that an answer to them must be, and how an answer is compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import torch

from adaexplore_evaluator.referee.families import (
    NEAR_ONE,
    ONE_ELEMENT,
    PARAMETERS_MOVED,
    SECOND_SEED,
    TRANSFORMS,
    one_element_changed,
    perturbed,
    rounded_to,
    transformed,
)
from adaexplore_evaluator.referee.numerics import (
    ClassRules,
    Comparison,
    Expected,
    compare,
    expected_output,
    finite_share,
    same_specials,
)
from adaexplore_evaluator.referee.outline import TENSOR, Outline, outline_of
from adaexplore_evaluator.referee.reference import Made, ReferenceSession
from adaexplore_evaluator.referee.runners import RunnerFailureError
from adaexplore_evaluator.referee.values import leaves
from adaexplore_evaluator.runner.wire import Value, tensors_of

# A budget above this would let errors of 5 % pass: the case tells nothing.
BUDGET_CAP: Final = 0.05
_SMALL_ELEMENTS: Final = 4096
# Growing inputs may overflow in places, as cumulative products do; where little is finite, rounding decides too much.
_FINITE_SHARE: Final = 0.1
_COVERED_SHARE: Final = 0.99
_STRENGTHS: Final = (4.0, 40.0, 1000.0)


class Comparer(Protocol):
    """How answers are compared where not element by element with the truth."""

    def compare(self, rules: ClassRules, found: Sequence[torch.Tensor], expected: Sequence[Expected]) -> list[Comparison]:
        """One comparison an output, of answers of the right shape and dtype."""
        ...

    def renewed(self, rules: ClassRules, truth: Sequence[torch.Tensor], reference: Sequence[torch.Tensor]) -> Comparer:
        """The same for other inputs, from the float64 truth and the reference in its class."""
        ...


@dataclass(frozen=True)
class Case:
    """Inputs, and what their outputs must be.

    Attributes:
        family: Name of the input family.
        made: Arguments of the call and of the constructor.
        state: Parameters and buffers; cases that share them share one instance of the candidate.
        expected: One entry for each tensor that the reference returns, then one for each input that it is to write to.
        lookalikes: What well-known mistakes would answer, by their description; only for the first case.
        outline: How the reference nests its outputs.
        rules: Rules of the dtypes that it has, if they are not those of the task's class.
        comparer: How answers are compared; None for element by element.

    """

    family: str
    made: Made
    state: Value
    expected: tuple[Expected, ...]
    lookalikes: Mapping[str, tuple[torch.Tensor, ...]] = field(default_factory=dict)
    outline: Outline = TENSOR
    rules: ClassRules | None = None
    comparer: Comparer | None = None

    @property
    def returned(self) -> tuple[Expected, ...]:
        """What the tensors that a call returns must be."""
        return self.expected[: len(self.expected) - len(self.made.changed)]

    def compare(self, rules: ClassRules, found: list[torch.Tensor]) -> list[Comparison]:
        """Comparison of each output; shapes and dtypes must have been checked."""
        rules = self.rules or rules
        if self.comparer is not None:
            return self.comparer.compare(rules, found, self.expected)
        return [compare(rules, item, expected) for item, expected in zip(found, self.expected, strict=True)]

    def accepts(self, rules: ClassRules, found: list[torch.Tensor]) -> bool:
        """True if an answer of this shape and dtype passes."""
        return all(item.passed for item in self.compare(rules, found))

    @property
    def bytes(self) -> int:
        """Memory that the case holds, roughly."""
        tensors = [*leaves(self.made.inputs), *leaves(self.state)]
        tensors += [tensor for item in self.expected for tensor in (item.truth, item.reference)]
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


class CaseMaker:
    """Builds cases by asking the reference.

    Args:
        session: The task, loaded.
        rules: Rules of its precision class.
        generator: Source of the referee's randomness.

    """

    def __init__(self, session: ReferenceSession, rules: ClassRules, generator: torch.Generator) -> None:
        self._session = session
        self._rules = rules
        self._generator = generator

    def case(self, family: str, made: Made, state: Value) -> Case:
        """The case of these inputs; raises what the reference's runner raises."""
        answered = self._session.answer(made, state, "class")
        made, reference = replace(made, changed=answered.changed), answered.leaves
        truth = list(self._answer(made, state))
        if len(truth) != len(reference) or any(left.shape != right.shape for left, right in zip(truth, reference, strict=True)):
            raise ReferenceChangedError("the reference returns tensors of other shapes in float64 than in its class")
        noisy = self._noisy(made, state, draws_for(truth))
        expected = tuple(
            expected_output(self._rules, item, reference[place], [draw[place] for draw in noisy]) for place, item in enumerate(truth)
        )
        return Case(family, made, state, expected, outline=outline_of(answered.outputs))

    def families(self, own: Case, second: Made, transforms: Collection[str] = tuple(TRANSFORMS)) -> list[Case]:
        """Cases of all families that tell something, for the state of `own`, which is not among them; of TRANSFORMS those named.

        The one-element change comes first: right after `own`, an answer kept for like inputs is most likely to be given again. Where some
        element is nought or infinite for every family, as the end of a long cumulative product is, inputs around one are added.
        """
        one_element = self._one_element(own)
        made = [(SECOND_SEED, second)]
        if any(tensor.is_floating_point() for tensor in tensors_of(own.made.inputs)):
            made += [(family, replace(own.made, inputs=transformed(own.made.inputs, family))) for family in transforms]
        attempts = [self._attempt(family, item, own.state) for family, item in made]
        cases = [case for case in (one_element, *attempts) if case is not None and (case is one_element or tells(case, own))]
        if len(made) > 1 and not covered([own, *cases]):
            around = self._attempt(NEAR_ONE, replace(own.made, inputs=transformed(own.made.inputs, NEAR_ONE)), own.state)
            cases += [around] if around is not None and tells(around, own) else []
        return cases

    def _one_element(self, own: Case) -> Case | None:
        """Inputs that differ from `own` in one element a tensor, by enough that its answer is no longer accepted."""
        for strength in _STRENGTHS:
            inputs = one_element_changed(own.made.inputs, self._generator, strength)
            if inputs is None:
                return None
            case = self._attempt(ONE_ELEMENT, replace(own.made, inputs=inputs), own.state)
            if case is not None and tells(case, own) and not case.accepts(self._rules, [item.reference for item in own.expected]):
                return case
        return None

    def moved(self, made: Made, state: Value, own: Case) -> Case | None:
        """The same inputs under other parameters."""
        case = self._attempt(PARAMETERS_MOVED, made, state)
        return case if case is not None and tells(case, own) else None

    def lookalikes(self, own: Case, default_state: Value) -> dict[str, tuple[torch.Tensor, ...]]:
        """Answers to `own` that known mistakes give: operands rounded to less precision, or the state never used."""
        found: dict[str, tuple[torch.Tensor, ...]] = {}
        narrow: tuple[tuple[str, Callable[[Value], Value]], ...] = (
            ("tf32", lambda value: rounded_to(value, 10)),
            ("tf32_truncated", lambda value: rounded_to(value, 10, towards_zero=True)),
            ("bf16", lambda value: rounded_to(value, 7)),
        )
        for name, change in narrow:
            found[name] = self._answer(replace(own.made, inputs=change(own.made.inputs)), change(own.state))
        found["default_state"] = self._answer(own.made, default_state)
        return found

    def _answer(self, made: Made, state: Value) -> tuple[torch.Tensor, ...]:
        return tuple(self._session.answer(made, state, "float64", watch=made.changed).leaves)

    def _noisy(self, made: Made, state: Value, draws: int) -> list[tuple[torch.Tensor, ...]]:
        def draw() -> tuple[torch.Tensor, ...]:
            inputs = perturbed(made.inputs, self._rules.input_noise, self._generator)
            return self._answer(replace(made, inputs=inputs), perturbed(state, self._rules.input_noise, self._generator))

        return [draw() for _ in range(draws)]

    def _attempt(self, family: str, made: Made, state: Value) -> Case | None:
        """The case, or None if the reference does not accept such inputs, for example an index or a domain that it checks."""
        try:
            return self.case(family, made, state)
        except (RunnerFailureError, ReferenceChangedError):
            return None


class ReferenceChangedError(Exception):
    """The reference answers with other tensors than before."""


def draws_for(truth: Sequence[torch.Tensor]) -> int:
    """How often inputs are rounded at random to find the conditioning: of a small output one draw tells little."""
    return 3 if max((item.numel() for item in truth), default=0) <= _SMALL_ELEMENTS else 1


def covered(cases: Sequence[Case]) -> bool:
    """True if almost every element of each floating point output is finite and no zero in some case."""
    for place, first in enumerate(cases[0].expected):
        if not first.truth.is_floating_point() or not first.truth.numel():
            continue
        seen = torch.zeros_like(first.truth, dtype=torch.bool)
        tiny = torch.finfo(first.reference.dtype).tiny if first.reference.is_floating_point() else 0.0
        for case in cases:
            truth = case.expected[place].truth
            if truth.shape == seen.shape:
                seen |= torch.isfinite(case.expected[place].reference) & (truth.abs() >= tiny)
        if float(seen.double().mean()) < _COVERED_SHARE:
            return False
    return True


def tells(case: Case, own: Case) -> bool:
    """True if a family can tell right from wrong: the reference keeps its meaning there and the budget its teeth."""
    if len(case.expected) != len(own.expected):
        return False
    return all(_meaningful(item, base) for item, base in itertools.zip_longest(case.expected, own.expected))


def _meaningful(item: Expected, own: Expected) -> bool:
    if item.truth.shape != own.truth.shape or item.budget.largest > BUDGET_CAP or not same_specials(item.truth, item.reference):
        return False
    new_nan = bool(torch.isnan(item.reference).any()) and not bool(torch.isnan(own.reference).any())
    return not new_nan and finite_share(item.reference) >= _FINITE_SHARE * finite_share(own.reference)
