"""Whether a task can tell right from wrong: degenerate answers must fail, the reference must pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from adaexplore_evaluator.referee.cases import BUDGET_CAP, Case
from adaexplore_evaluator.referee.numerics import ClassRules, same_specials, scaled_error
from adaexplore_evaluator.runner.wire import tensors_of


@dataclass(frozen=True)
class Control:
    """One degenerate answer: whether it was refused, and its largest scaled error over all cases."""

    name: str
    refused: bool
    error: float


@dataclass(frozen=True)
class Audit:
    """Result of the audit; `cause` is empty for a task that can judge."""

    cause: str
    message: str
    controls: tuple[Control, ...]
    reference_error: float
    error_budget: float


Accepts = Callable[[Case, list[torch.Tensor]], bool]


def audit(rules: ClassRules, cases: Sequence[Case], accepts: Accepts | None = None) -> Audit:
    """Audit a task on cases of its default state, its own inputs first.

    Args:
        rules: Rules of the task's precision class.
        cases: All cases, the own inputs first.
        accepts: The comparison under audit, if it is not the rules' own; one that lets degenerate answers pass is found out.

    """
    own = cases[0]
    judge = accepts or (lambda case, answer: case.accepts(rules, answer))
    reference_error = max((scaled_error(rules, e.reference, e.truth, e.reference).largest for e in own.expected), default=0.0)
    budget = max((item.budget.largest for item in own.expected), default=0.0)
    names = ("zeros", "mean", "previous_output", "copy_of_input")
    controls = tuple(control for name in names if (control := _control(rules, name, cases, judge)) is not None)
    cause, message = _ruling(own, controls, reference_error)
    return Audit(cause, message, controls, reference_error, budget)


def _ruling(own: Case, controls: Sequence[Control], reference_error: float) -> tuple[str, str]:
    if any(not same_specials(item.truth, item.reference) for item in own.expected):
        return "UNSATISFIABLE", (
            "the reference is infinite or NaN in its class where the float64 truth is finite; use smaller inputs or another precision class"
        )
    # A budget without teeth has two reasons: a truth that inputs do not determine (degenerate), or a reference that loses its digits.
    if any(item.budget.largest > BUDGET_CAP >= item.sensitivity for item in own.expected):
        return "UNSATISFIABLE", (
            f"the reference's own error in its class is {reference_error:.1e}, too large to judge by; use a wider precision class"
        )
    accepted = [control for control in controls if not control.refused]
    if accepted and not all(_is_identity(control, own) for control in accepted):
        name = accepted[0].name.replace("_", " ")
        return "DEGENERATE", (
            f"an answer of {name} passes for every input, so no kernel can be judged; "
            "change the task so that its output depends on its inputs beyond rounding"
        )
    if any(item.budget.largest > BUDGET_CAP for item in own.expected):
        return "DEGENERATE", (
            "rounding the inputs changes the output entirely, so no kernel can be judged; let the output depend on its inputs"
        )
    return "", ""


def _is_identity(control: Control, own: Case) -> bool:
    """Returning an input bit for bit is right where that is what the task does."""
    return control.name == "copy_of_input" and any(
        len(own.expected) == 1 and torch.equal(tensor, own.expected[0].reference)
        for tensor in tensors_of(own.made.inputs)
        if tensor.dtype == own.expected[0].reference.dtype and tensor.shape == own.expected[0].reference.shape
    )


def _control(rules: ClassRules, name: str, cases: Sequence[Case], accepts: Accepts) -> Control | None:
    """Refused if any case refuses it, or has no input to copy; None if no case can try it."""
    tried = [(case, answer) for case in cases if (answer := _answer(name, case, cases)) is not None]
    if not tried:
        return None
    refused = any(not accepts(case, answer) for case, answer in tried) or (name == "copy_of_input" and len(tried) < len(cases))
    errors = [
        scaled_error(rules, found, item.truth, item.reference).largest
        for case, answer in tried
        for found, item in zip(answer, case.expected, strict=True)
    ]
    return Control(name, refused, max(errors, default=0.0))


def _answer(name: str, case: Case, cases: Sequence[Case]) -> list[torch.Tensor] | None:
    references = [item.reference for item in case.expected]
    first = [item.reference for item in cases[0].expected]
    if name == "zeros":
        return [torch.zeros_like(item) for item in references]
    if name == "mean":
        return [torch.full_like(item, _mean(other)) for item, other in zip(references, first, strict=True)]
    if name == "previous_output":
        fits = all(item.shape == other.shape for item, other in zip(references, first, strict=True))
        return first if fits and case is not cases[0] else None
    return _copies(case, references)


def _copies(case: Case, references: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """For each output an input of its type; None if an output has none."""
    copies = []
    for item in references:
        same = [t for t in tensors_of(case.made.inputs) if t.dtype == item.dtype and t.shape == item.shape]
        if not same:
            return None
        copies.append(next((t for t in same if torch.equal(t, item)), same[0]))
    return copies


def _mean(tensor: torch.Tensor) -> float:
    wide = tensor.to(torch.complex128).real if tensor.is_complex() else tensor.double()
    finite = wide[torch.isfinite(wide)]
    mean = float(finite.mean()) if finite.numel() else 0.0
    return mean if tensor.is_floating_point() or tensor.is_complex() else round(mean)
