"""Arguments of one call as the protocol carries them: a list, or `{"args": […], "kwargs": {…}}` where a call passes some by keyword."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from adaexplore_evaluator.runner.errors import ContractError

_ARGS = "args"
_KWARGS = "kwargs"


def named_arguments(args: Sequence[object], kwargs: dict[str, object]) -> dict[str, object]:
    """The protocol's value of a call that passes `args` by position and `kwargs` by keyword."""
    return {_ARGS: list(args), _KWARGS: dict(kwargs)}


def split_arguments(value: object) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of a call; ContractError for anything but the protocol's two forms."""
    if isinstance(value, list | tuple):
        return list(value), {}
    if isinstance(value, dict) and value.keys() == {_ARGS, _KWARGS}:
        args, kwargs = value[_ARGS], value[_KWARGS]
        if isinstance(args, list | tuple) and isinstance(kwargs, dict):
            return list(args), dict(kwargs)
    raise ContractError("arguments must be a list, or a dictionary of args and kwargs")


def call_with(function: Callable[..., Any], value: object) -> Any:
    """Call a function with the arguments of the protocol."""
    args, kwargs = split_arguments(value)
    return function(*args, **kwargs)


def positional(function: Callable[..., Any], value: object, names: Sequence[str]) -> tuple[Callable[..., Any], list[object], list[str]]:
    """The same call by position alone: a function, its arguments, and a name for each.

    `names` are those of the positional parameters; arguments beyond them are called after their place.
    """
    args, kwargs = split_arguments(value)
    known = [*names[: len(args)], *(f"arg{place}" for place in range(len(names), len(args)))]
    if not kwargs:
        return function, args, known

    def call(*values: object) -> Any:
        return function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    return call, [*args, *kwargs.values()], [*known, *kwargs]


def snapshot(value: object) -> object:
    """A copy that later writes to its tensors do not change; tensors that share memory still do."""
    return _copied(value, {})


def _copied(value: Any, storages: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return copy.deepcopy(value.detach(), storages)
    if isinstance(value, list | tuple):
        items = [_copied(item, storages) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _copied(item, storages) for key, item in value.items()}
    return value
