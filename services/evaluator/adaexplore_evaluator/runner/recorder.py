"""Records the calls that a task's `test_<op>()` makes of its reference, each under the name of the result that it is for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch

from adaexplore_evaluator.runner.arguments import named_arguments, snapshot
from adaexplore_evaluator.runner.errors import ContractError
from adaexplore_evaluator.runner.wire import tensors_of


@dataclass(frozen=True)
class NamedCase:
    """One call of the reference: the name that its test gives the result, and the arguments as they were before the call."""

    name: str
    inputs: dict[str, object]

    @property
    def elements(self) -> int:
        """Elements of all its tensors."""
        return sum(tensor.numel() for tensor in tensors_of(self.inputs))


@dataclass
class _Call:
    inputs: dict[str, object]
    result: object
    # Entries that each dictionary of the test held when the call was made, by identity.
    filled: dict[int, int] = field(default_factory=dict)


def record_cases(module: ModuleType, test: str, reference: str) -> list[NamedCase]:
    """Run `test` with `reference` recorded; raises what the test raises, and ContractError if it calls the reference never.

    A call that raises is no case: the test may try what the reference refuses.
    """
    recorder = _Recorder(getattr(module, reference), getattr(module, test))
    setattr(module, reference, recorder.call)
    try:
        results = getattr(module, test)()
    finally:
        setattr(module, reference, recorder.reference)
    if not recorder.calls:
        raise ContractError(f"{test} never calls {reference}; let it store the result of each call under a name of its own")
    return _named(recorder.calls, results if isinstance(results, dict) else {})


class _Recorder:
    def __init__(self, reference: Callable[..., Any], test: FunctionType) -> None:
        self.reference = reference
        self.calls: list[_Call] = []
        self._test = test.__code__
        self._depth = 0

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the reference and keep what it was given, unless it calls itself."""
        if self._depth:
            return self.reference(*args, **kwargs)
        _refuse_generators([*args, *kwargs.values()])
        given = snapshot(named_arguments(args, kwargs))
        filled = self._filled(sys._getframe(1))
        self._depth += 1
        try:
            result = self.reference(*args, **kwargs)
        finally:
            self._depth -= 1
        assert isinstance(given, dict)  # noqa: S101 - a snapshot keeps its form
        self.calls.append(_Call(given, result, filled))
        return result

    def _filled(self, frame: FrameType | None) -> dict[int, int]:
        while frame is not None and frame.f_code is not self._test:
            frame = frame.f_back
        return {id(value): len(value) for value in frame.f_locals.values() if isinstance(value, dict)} if frame is not None else {}


def _refuse_generators(arguments: list[Any]) -> None:
    if any(isinstance(argument, torch.Generator) for argument in arguments):
        raise ContractError("a case passes a torch.Generator, whose bits only PyTorch draws; use the default generator")


def _named(calls: list[_Call], results: dict[object, object]) -> list[NamedCase]:
    """The result that holds what a call returned names it; where none does, the one that was stored next after the call."""
    owners = [_owner(call, results) for call in calls]
    counts = {owner: owners.count(owner) for owner in owners}
    seen: dict[str, int] = {}
    cases = []
    for call, owner in zip(calls, owners, strict=True):
        number = seen.get(owner, 0)
        seen[owner] = number + 1
        cases.append(NamedCase(f"{owner}[{number}]" if counts[owner] > 1 else owner, call.inputs))
    return cases


def _owner(call: _Call, results: dict[object, object]) -> str:
    names = list(results)
    number = call.filled.get(id(results), len(results))
    # Calls in place return one tensor again and again: what was stored after the call comes first.
    for name in [*names[number:], *names[:number]]:
        if _holds(results[name], call.result):
            return str(name)
    return str(names[number]) if number < len(names) else "call"


def _holds(value: object, wanted: object) -> bool:
    if value is wanted:
        return wanted is not None and not isinstance(wanted, bool | int | float | str)
    if isinstance(value, list | tuple):
        return any(_holds(item, wanted) for item in value)
    if isinstance(value, dict):
        return any(_holds(item, wanted) for item in value.values())
    return False
