"""How outputs are nested: a tensor, a sequence or a dictionary, to any depth, without what the tensors hold."""

from __future__ import annotations

from typing import Any, Final

from adaexplore_evaluator.referee.clock import CHECK
from adaexplore_evaluator.referee.values import types_of
from adaexplore_evaluator.referee.verdicts import FAILED, stop
from adaexplore_evaluator.runner.wire import Tree, Value, encode_types

Outline = str | tuple["Outline", ...] | dict[str, "Outline"]
TENSOR: Final = "tensor"
_LEAVES: Final = frozenset({"tensor", "bool", "int", "float"})
_SHOWN_CHARS: Final = 160


def outline_of(value: Value) -> Outline:
    """The outline of a value: numbers count as tensors, lists and tuples as one another."""
    return _of_tree(encode_types(value))


def arranged(tree: object, expected: Outline, where: str) -> Tree:
    """A candidate's tree with its dictionaries in the order of `expected`.

    Raises:
        StopError: It is nested in another way.
        MalformedReplyError: It is no tree.

    """
    types_of(tree)
    assert isinstance(tree, dict)  # noqa: S101 - every tree is one
    found = _of_tree(tree)
    if found != expected:
        message = (
            f"the candidate returns {_described(found)}, must return {_described(expected)} ({where}); nest the outputs as the task does"
        )
        raise stop(FAILED, "SHAPE", CHECK, message)
    return _ordered(tree, expected)


def _of_tree(tree: dict[str, Any]) -> Outline:
    kind = str(tree["t"])
    if kind in ("list", "tuple"):
        return tuple(_of_tree(item) for item in tree["items"])
    if kind == "dict":
        return {key: _of_tree(item) for key, item in tree["items"]}
    return TENSOR if kind in _LEAVES else kind


def _ordered(tree: dict[str, Any], expected: Outline) -> Tree:
    if isinstance(expected, tuple):
        return {**tree, "items": [_ordered(item, inner) for item, inner in zip(tree["items"], expected, strict=True)]}
    if isinstance(expected, dict):
        items = dict(tree["items"])
        return {**tree, "items": [[key, _ordered(items[key], inner)] for key, inner in expected.items()]}
    return tree


def _described(outline: Outline) -> str:
    text = {str: "a ", tuple: "the sequence ", dict: "the dict "}[type(outline)] + _plain(outline)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def _plain(outline: Outline) -> str:
    if isinstance(outline, tuple):
        return f"[{', '.join(_plain(item) for item in outline)}]"
    if isinstance(outline, dict):
        return f"{{{', '.join(f'{key!r}: {_plain(item)}' for key, item in outline.items())}}}"
    return outline
