"""Orders the steps of a program: what nobody needs goes, and calls that stay in torch come as early as they can."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from adaexplore_generator.graph import ValueKind
from adaexplore_generator.templates.ir import HostCall, Step, Value, operands_of, results_of

# Calls whose result may share its memory with their operand.
VIEWS = frozenset(
    [
        "view",
        "reshape",
        "_unsafe_view",
        "permute",
        "transpose",
        "t",
        "expand",
        "expand_as",
        "slice",
        "select",
        "narrow",
        "flatten",
        "unflatten",
        "contiguous",
        "to",
        "detach",
        "alias",
        "dropout",
        "squeeze",
        "unsqueeze",
    ]
)


def schedule(steps: Sequence[Step], values: Mapping[str, Value], outputs: Sequence[str]) -> tuple[Step, ...]:
    """The steps that outputs and effects need, in an order that leaves long runs between host calls."""
    return tuple(_host_calls_first(_views_first(_needed(steps, outputs), values)))


def _needed(steps: Sequence[Step], outputs: Sequence[str]) -> list[Step]:
    wanted, kept = set(outputs), []
    for step in reversed(steps):
        if any(name in wanted for name in results_of(step)) or (isinstance(step, HostCall) and step.effect):
            kept.append(step)
            wanted.update(operands_of(step))
    return kept[::-1]


def _views_first(steps: Iterable[Step], values: Mapping[str, Value]) -> list[Step]:
    """Views of inputs and parameters first, so that they do not come between steps of one kernel."""
    known = {name for name, value in values.items() if value.kind is not ValueKind.RESULT}
    first: list[Step] = []
    rest: list[Step] = []
    for step in steps:
        early = isinstance(step, HostCall) and not step.effect and step.operator.split(".")[1] in VIEWS
        if early and all(name in known for name in operands_of(step)):
            first.append(step)
            known.update(results_of(step))
        else:
            rest.append(step)
    return [*first, *rest]


def _host_calls_first(steps: Sequence[Step]) -> Iterator[Step]:
    """Host calls in their order, each right behind what it needs, then kernels, then host calls that none of these needs.

    Nothing passes a call with an effect.
    """
    for barrier, group in itertools.groupby(steps, key=_has_effect):
        run = list(group)
        yield from run if barrier else _early(run)


def _has_effect(step: Step) -> bool:
    return isinstance(step, HostCall) and step.effect


def _early(steps: list[Step]) -> Iterator[Step]:
    makers = {name: at for at, step in enumerate(steps) for name in results_of(step)}
    calls = {at for at, step in enumerate(steps) if isinstance(step, HostCall)}
    read = set().union(*(_ancestors(steps, makers, at) for at in range(len(steps)) if at not in calls))
    order: dict[int, None] = {}
    for place in sorted(calls & read):
        order |= dict.fromkeys(sorted(_ancestors(steps, makers, place)))
    order |= dict.fromkeys([*(at for at in range(len(steps)) if at not in calls), *sorted(calls)])
    yield from (steps[at] for at in order)


def _ancestors(steps: list[Step], makers: Mapping[str, int], place: int) -> set[int]:
    """Places of a step and of all steps that it needs."""
    found: set[int] = set()
    pending = [place]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending.extend(makers[name] for name in operands_of(steps[at]) if name in makers)
    return found
