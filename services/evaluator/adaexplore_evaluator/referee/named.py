"""Tasks of named cases: every case as its test makes it, held to the dtypes that it has, and compared as the task demands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch

from adaexplore_evaluator.referee.cases import BUDGET_CAP, Case, CaseMaker, ReferenceChangedError, draws_for
from adaexplore_evaluator.referee.contracts import Contract, Figures, figures_of, per_row, quantised
from adaexplore_evaluator.referee.determinism import alike
from adaexplore_evaluator.referee.distributions import DRAWS, Distribution, distribution_of
from adaexplore_evaluator.referee.families import OWN, SECOND_SEED, TRANSFORMS
from adaexplore_evaluator.referee.invariants import invariants_for
from adaexplore_evaluator.referee.numerics import RULES, Budget, ClassRules, Expected, expected_output
from adaexplore_evaluator.referee.outline import outline_of
from adaexplore_evaluator.referee.reference import Answered, LoadedTask, Made, ReferenceSession
from adaexplore_evaluator.referee.runners import RunnerFailureError
from adaexplore_evaluator.runner.wire import Value, encode_types, map_tensors, tensors_of

_SMALL_CLASSES = ((torch.bfloat16, "bf16"), (torch.float16, "fp16"))
_SMALL_ELEMENTS = 1 << 16
_LARGE_ELEMENTS = 1 << 18
_FEW_TRANSFORMS = ("scaled_down", "negated")


class InvalidCasesError(Exception):
    """Named cases by which no candidate can be judged.

    Attributes:
        cause: Cause of the verdict TASK_INVALID.
        message: Why.

    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause, self.message = cause, message


@dataclass(frozen=True)
class NamedInputs:
    """Two draws of a task's named cases.

    Attributes:
        timed: Inputs that are timed: those of the task's own maker, or else of the largest case.
        second: The same, drawn from the other seed.
        others: The named cases that are not timed, with their names.

    """

    timed: Made
    second: Made
    others: tuple[tuple[str, Made], ...]


class NamedCaseMaker(CaseMaker):
    """Builds cases whose dtypes are their own, and whose answers are compared by contract or invariants where the task demands it.

    Args:
        session: The task, loaded.
        rules: Rules of its precision class, for float32.
        generator: Source of the referee's randomness.
        contract: The task's contract, if it has one.

    """

    def __init__(self, session: ReferenceSession, rules: ClassRules, generator: torch.Generator, contract: Contract | None) -> None:
        super().__init__(session, rules, generator)
        self._contract = contract

    def case(self, family: str, made: Made, state: Value) -> Case:
        """The case of these inputs; raises what the reference's runner raises."""
        answered = self._session.answer(made, state, "class")
        made = Made(made.inputs, made.init_inputs, answered.changed)
        rules = class_rules(self._rules, [*tensors_of(made.inputs), *answered.leaves])
        outline = outline_of(answered.outputs)
        again = self._session.answer(made, state, "class", watch=made.changed)
        if not alike(answered.leaves, again.leaves):
            return self._random(Case(family, made, state, (), outline=outline, rules=rules), rules, answered)
        truth, noisy = self._truths(made, state, answered)
        if self._contract is not None:
            budget = Budget(rules.floor, rules.floor_rms)
            held = tuple(Expected(item, own, budget) for item, own in zip(truth, answered.leaves, strict=True))
            return Case(family, made, state, held, outline=outline, rules=rules, comparer=self._contract)
        if answered.factors:
            return _decomposed(Case(family, made, state, (), outline=outline, rules=rules), answered, rules, truth, noisy)
        expected = tuple(
            _expected(rules, item, answered.leaves[place], [draw[place] for draw in noisy]) for place, item in enumerate(truth)
        )
        return Case(family, made, state, expected, outline=outline, rules=rules)

    def _random(self, case: Case, rules: ClassRules, answered: Answered) -> Case:
        """The case compared as a distribution, of which the reference gives draws."""
        if self._contract is not None:
            raise InvalidCasesError(
                "NONDETERMINISTIC_REFERENCE", f"`{case.family}` answers differently for the same inputs, which no contract can judge"
            )
        more = [self._session.answer(case.made, case.state, "class", watch=case.made.changed).leaves for _ in range(DRAWS - 1)]
        draws = [answered.leaves, *more]
        if any(not _same_shapes(draw, draws[0]) for draw in more):
            message = f"`{case.family}` answers with another shape from call to call; let only values be random"
            raise InvalidCasesError("NONDETERMINISTIC_REFERENCE", message)
        wide = [item.to(torch.complex128 if item.is_complex() else torch.float64) for item in draws[0]]
        held = tuple(Expected(item, own, Budget(rules.floor, rules.floor_rms)) for item, own in zip(wide, draws[0], strict=True))
        return replace(case, expected=held, comparer=distribution_of(draws, rules))

    def _truths(self, made: Made, state: Value, answered: Answered) -> tuple[Sequence[torch.Tensor], list[tuple[torch.Tensor, ...]]]:
        """The truth and truths of rounded inputs; where the reference cannot answer in float64, it is its own truth."""
        reference = answered.leaves
        try:
            truth = self._answer(made, state)
            noisy = [] if self._contract is not None else self._noisy(made, state, draws_for(truth))
        except RunnerFailureError:
            return reference, []
        if not _same_shapes(truth, reference):
            return reference, []
        return truth, [_within_domain(draw, truth) for draw in noisy if _same_shapes(draw, reference)]


def named_inputs(session: ReferenceSession, loaded: LoadedTask, seeds: Sequence[int]) -> NamedInputs:
    """Draw a task's cases from two seeds."""
    first, second = (_without_repeats(session.make_cases(seed)) for seed in seeds)
    if loaded.has_inputs:
        timed, other = (session.make_inputs(seed) for seed in seeds)
        return NamedInputs(timed, other, tuple(first))
    place = max(range(len(first)), key=lambda number: (_elements(first[number][1]), -number))
    again = dict(second).get(first[place][0], first[place][1])
    return NamedInputs(first[place][1], again, tuple(item for number, item in enumerate(first) if number != place))


def build_cases(session: ReferenceSession, maker: NamedCaseMaker, made: NamedInputs, state: Value, contract: Contract | None) -> list[Case]:
    """The timed case, its families, and every other named case.

    Raises:
        InvalidCasesError: A random case has another shape from call to call, or the contract cannot be kept by the task's own scheme.

    """
    try:
        own = maker.case(OWN, made.timed, state)
        others = [maker.case(name, item, state) for name, item in made.others]
    except ReferenceChangedError as error:
        raise InvalidCasesError("UNSATISFIABLE", f"{error}; its results must not depend on the dtype") from error
    if isinstance(own.comparer, Distribution):
        return [own, maker.case(SECOND_SEED, made.second, state), *others]
    if contract is None:
        return [own, *maker.families(own, made.second, _transforms(made.timed)), *others]
    cases = [own, maker.case(SECOND_SEED, made.second, state), *others]
    demand_satisfiable(session, contract, cases, state)
    return cases


def demand_satisfiable(session: ReferenceSession, contract: Contract, cases: Sequence[Case], state: Value) -> None:
    """InvalidCasesError unless one way to round that the task names, done ideally, keeps the contract in every case."""
    broken: dict[str, tuple[str, Figures]] = {}
    kept: set[str] = set()
    for case in cases:
        for scheme, figures in _ideal(session, contract, case, state):
            kept.add(scheme)
            missed = next((item for item in figures if not contract.kept_by(item)), None)
            if missed is not None:
                broken.setdefault(scheme, (case.family, missed))
    if kept - broken.keys() or not broken:
        return
    scheme, (family, worst) = min(broken.items(), key=lambda item: item[1][1].rmse)
    raise InvalidCasesError(
        "UNSATISFIABLE",
        f"ideal rounding under the task's own scheme (scales by {scheme}) reaches cosine {worst.cosine:.3f}, relative L1 "
        f"{worst.relative_l1:.3f} and RMSE {worst.rmse:.3g} for `{family}`, but the contract demands {contract.cosine:g}, "
        f"{contract.relative_l1:g} and {contract.rmse:g}; demand what the scheme can reach",
    )


def class_rules(rules: ClassRules, tensors: Sequence[torch.Tensor]) -> ClassRules:
    """Rules of the smallest floating point dtype among tensors; `rules` where none is smaller than float32."""
    dtypes = {tensor.dtype for tensor in tensors}
    return next((RULES[name] for dtype, name in _SMALL_CLASSES if dtype in dtypes), rules)


def shapes_by_value(session: ReferenceSession, own: Case) -> bool:
    """True if the shapes of outputs depend on what the inputs hold: on zeros of the same types they are others."""
    zeros = map_tensors(own.made.inputs, torch.zeros_like)
    try:
        answer = session.answer(replace(own.made, inputs=zeros), own.state, "class", watch=own.made.changed).leaves
    except RunnerFailureError:
        return False
    return not _same_shapes(answer, [item.reference for item in own.expected])


def of_one_form(cases: Sequence[Case]) -> list[Case]:
    """The cases whose outputs are as many as the first one's and of its dtypes: only among these can an answer stand for another."""
    form = _dtypes(cases[0])
    return [case for case in cases if _dtypes(case) == form]


def _ideal(session: ReferenceSession, contract: Contract, case: Case, state: Value) -> list[tuple[str, list[Figures]]]:
    """Figures of each output under each scheme."""
    truths = [item.truth for item in case.expected]
    if contract.quantises_output:
        rounded = [quantised(item, per_row(item.double().abs()), contract.activation_bits) if item.dim() else item for item in truths]
        return [("row of the output", [figures_of(*pair) for pair in zip(rounded, truths, strict=True)])]
    found = []
    for scheme, inputs in contract.schemes(case.made.inputs):
        answer = session.answer(Made(inputs, case.made.init_inputs), state, "float64").leaves
        found.append((scheme, [figures_of(*pair) for pair in zip(answer, truths, strict=True)]))
    return found


def _decomposed(
    case: Case, answered: Answered, rules: ClassRules, truth: Sequence[torch.Tensor], noisy: Sequence[Sequence[torch.Tensor]]
) -> Case:
    """The case compared by invariants; its budgets are those of the invariants, since factors themselves may differ freely."""
    comparer = invariants_for(answered.factors, rules, truth, answered.leaves, noisy)
    expected = tuple(
        Expected(
            own.to(item.dtype),
            own,
            Budget(max(part.budget.largest for part in parts), max(part.budget.rms for part in parts)),
            max(part.sensitivity for part in parts),
        )
        for item, own, parts in zip(truth, answered.leaves, comparer.expected, strict=True)
    )
    return Case(case.family, case.made, case.state, expected, outline=case.outline, rules=rules, comparer=comparer)


def _expected(rules: ClassRules, truth: torch.Tensor, reference: torch.Tensor, noisy: Sequence[torch.Tensor]) -> Expected:
    """What an output must be; at a jump, where rounding of inputs tells nothing, an exact reference shows that exact answers are due."""
    expected = expected_output(rules, truth, reference, noisy)
    exact = torch.equal(truth.to(reference.dtype), reference)
    return expected_output(rules, truth, reference, []) if exact and expected.budget.largest > BUDGET_CAP else expected


def _within_domain(draw: Sequence[torch.Tensor], truth: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """A draw with the truth where rounding carried an input over the edge of its domain, which tells nothing of conditioning."""
    pairs = zip(draw, truth, strict=True)
    return tuple(torch.where(torch.isfinite(item) == torch.isfinite(right), item, right) for item, right in pairs)


def _dtypes(case: Case) -> list[torch.dtype]:
    return [item.reference.dtype for item in case.expected]


def _same_shapes(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(one.shape == other.shape for one, other in zip(left, right, strict=True))


def _transforms(made: Made) -> Collection[str]:
    """All, but for large inputs on the cpu, where a kernel is interpreted: a case is never reduced, so there are fewer of them."""
    on_cpu = all(tensor.device.type == "cpu" for tensor in tensors_of(made.inputs))
    return _FEW_TRANSFORMS if on_cpu and _elements(made) > _LARGE_ELEMENTS else tuple(TRANSFORMS)


def _without_repeats(cases: Sequence[tuple[str, Made]]) -> list[tuple[str, Made]]:
    """The cases without further large draws under one name that differ in nothing but their random numbers."""
    kept: list[tuple[str, Made]] = []
    seen: list[tuple[str, object]] = []
    for name, made in cases:
        key = (name.partition("[")[0], encode_types(made.inputs))
        if _elements(made) <= _SMALL_ELEMENTS or key not in seen:
            kept.append((name, made))
            seen.append(key)
    return kept


def _elements(made: Made) -> int:
    return sum(tensor.numel() for tensor in tensors_of(made.inputs))
