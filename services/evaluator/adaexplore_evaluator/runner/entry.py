"""What both devices demand of a candidate: its entry point, its constructor, its state and its outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from adaexplore_evaluator.runner.errors import ContractError, RunnerError
from adaexplore_evaluator.runner.state import LoadResult, state_of
from adaexplore_evaluator.runner.wire import DTYPE_NAMES, WireError, tensors_of

Fields = dict[str, Any]


def entry_point_of(module: ModuleType, path: Path, names: list[str]) -> str:
    """The first of the names that a file defines as something to call; ContractError if it defines none."""
    name = next((name for name in names if callable(getattr(module, name, None))), None)
    if name is None:
        raise ContractError(f"{path.name} defines no {' or '.join(names)}; define it at the top level of the file")
    return name


def demand_signature(entry_point: Callable[..., Any], arguments: list[object]) -> None:
    """ContractError unless a constructor takes the task's arguments."""
    try:
        inspect.signature(entry_point).bind(*arguments)
    except TypeError as error:
        name = getattr(entry_point, "__name__", "the entry point")
        message = f"{name} does not take the task's {len(arguments)} constructor arguments: {error}; give it the reference's signature"
        raise ContractError(message) from error
    except ValueError:  # a callable without a signature is called as it is
        return


def demand_callable(instance: Any, entry_point: Callable[..., Any]) -> None:
    """ContractError unless what was constructed can be called."""
    if not callable(instance):
        raise ContractError(f"{entry_point.__name__} is not callable; derive it from torch.nn.Module and define forward")


def demand_plain(outputs: object) -> None:
    """RunnerError(lazy_output) unless outputs hold their values: a subclass could compute them when they are read."""
    for tensor in tensors_of(outputs):
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            found = type(tensor).__name__
            raise RunnerError("lazy_output", f"an output is a {found} of layout {tensor.layout}; return a plain torch.Tensor")
        hidden = next((name for name in tensor.__dict__ if hasattr(torch.Tensor, name)), "")
        if hidden:
            raise RunnerError("lazy_output", f"an output has a {hidden} of its own; return a plain torch.Tensor")


def sendable(encode: Callable[[object], Fields], outputs: object) -> Fields:
    """The tree of outputs; ContractError for what cannot be compared."""
    try:
        return encode(outputs)
    except WireError as error:
        raise ContractError(f"the outputs cannot be compared: {error}; return tensors, or lists or tuples of them") from error


def listed(value: object) -> list[Any]:
    """Positional arguments; ContractError if they are no list."""
    if not isinstance(value, list | tuple):
        raise ContractError("arguments must be a list")
    return list(value)


def after_load(instance: object) -> None:
    """Call the hook that an instance may have for when its state is loaded."""
    hook = getattr(instance, "after_load", None)
    if callable(hook):
        hook()


def state_types(instance: object) -> list[Fields]:
    """Name, dtype and shape of everything in an instance's state, and whether it is a parameter."""
    return [
        {
            "name": name,
            "dtype": DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype)),
            "shape": list(tensor.shape),
            "parameter": isinstance(tensor, torch.nn.Parameter),
        }
        for name, tensor in state_of(instance).items()
    ]


def load_report(result: LoadResult) -> Fields:
    """What did not fit when a state was loaded."""
    return {
        "missing": list(result.missing),
        "mismatched": [{"name": name, "expected": expected, "found": found} for name, expected, found in result.mismatched],
    }
