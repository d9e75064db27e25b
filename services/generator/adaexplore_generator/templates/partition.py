"""Cuts a program into kernels: the longest runs of steps that can be one kernel, and shorter ones where a recipe breaks them."""

from __future__ import annotations

from adaexplore_generator.templates.frames import Analysis, Group, needed_outside
from adaexplore_generator.templates.ir import HostCall, Iota, Program, Relabel, Step, UnsupportedError, results_of

Part = Group | HostCall


def partition(program: Program, breaks: frozenset[int] = frozenset()) -> tuple[Part, ...]:
    """The program as kernels and host calls in order; a kernel never reaches beyond a step in `breaks`."""
    makers = {name: step for step in program.steps for name in results_of(step)}
    parts: list[Part] = []
    start = 0
    while start < len(program.steps):
        step = program.steps[start]
        if isinstance(step, HostCall):
            parts.append(step)
            start += 1
            continue
        if isinstance(step, Relabel | Iota):
            # Costs nothing; whoever needs it computes it, see `Analysis`.
            start += 1
            continue
        group, start = _longest(program, makers, start, breaks)
        parts.append(group)
    return tuple(parts)


def _longest(program: Program, makers: dict[str, Step], start: int, breaks: frozenset[int]) -> tuple[Group, int]:
    limit = next((at for at in range(start + 1, len(program.steps)) if at in breaks or isinstance(program.steps[at], HostCall)), None)
    refusal: UnsupportedError | None = None
    for stop in range(limit or len(program.steps), start, -1):
        run = program.steps[start:stop]
        try:
            needed = needed_outside(program, run, start, stop)
            return Analysis(program, run, makers, needed).run(), stop
        except UnsupportedError as error:
            refusal = error
    raise refusal or UnsupportedError("an empty run")


def break_points(program: Program) -> tuple[int, ...]:
    """Positions where a kernel may be ended on purpose: between two operators of the task, neither of which stays in torch."""
    found = []
    for position in range(1, len(program.steps)):
        step, before = program.steps[position], program.steps[position - 1]
        here, there = (program.origins[results_of(each)[0]] for each in (step, before))
        if here != there and not isinstance(step, HostCall | Relabel | Iota) and not isinstance(before, HostCall | Iota):
            found.append(position)
    return tuple(found)
