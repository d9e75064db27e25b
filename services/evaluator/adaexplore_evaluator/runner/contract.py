"""Reads the accuracy that a quantisation task demands from the docstring of its reference."""

from __future__ import annotations

import ast
import re
from typing import Final

from adaexplore_evaluator.runner.tasks import TaskFile

_NUMBER: Final = r"\s*([0-9]*\.?[0-9]+)"
_BOUNDS: Final = {
    "cosine": re.compile(r"cos\w*\s*>=" + _NUMBER, re.IGNORECASE),
    "relative_l1": re.compile(r"(?:l1_relative|relative_l1|l1)\s*<=" + _NUMBER, re.IGNORECASE),
    "rmse": re.compile(r"rmse\s*<=" + _NUMBER, re.IGNORECASE),
}
_BITS: Final = re.compile(r"w(\d+)a(\d+)\Z", re.IGNORECASE)
_GROUP: Final = re.compile(r"group[ _-]?size[ =]*(\d+)", re.IGNORECASE)
_OPERANDS: Final = {
    "activation_scales": re.compile(r"activation|\binput\b|first operand|q/k/v", re.IGNORECASE),
    "weight_scales": re.compile(r"weight|second operand", re.IGNORECASE),
}
_SCALES: Final = {
    "output_channel": re.compile(r"output[- ]channel|\bc_out\b", re.IGNORECASE),
    "input_channel": re.compile(r"per-channel|\bc_in\)", re.IGNORECASE),
    "row": re.compile(r"per-row|row-wise|token-wise|per-token", re.IGNORECASE),
    "column": re.compile(r"per-column|column-wise", re.IGNORECASE),
    "tensor": re.compile(r"per-tensor", re.IGNORECASE),
    "group": re.compile(r"group-wise", re.IGNORECASE),
}
_OUTPUT: Final = re.compile(r"output quanti[sz]ation", re.IGNORECASE)
_DEFAULT_BITS: Final = 8


def quantisation_contract(file: TaskFile) -> dict[str, object] | None:
    """Least cosine, largest relative L1 and RMSE that the docstring states, and the scheme: bits of weights and of activations, what may
    share a scale in either, the size of a group that may (0 for none), and whether the output is what is quantised.

    None unless all three bounds are stated.
    """
    function = next((node for node in file.tree.body if isinstance(node, ast.FunctionDef) and node.name == file.reference), None)
    text = ast.get_docstring(function) or "" if function is not None else ""
    bounds = {name: float(found.group(1)) for name, pattern in _BOUNDS.items() if (found := pattern.search(text))}
    if len(bounds) < len(_BOUNDS):
        return None
    bits, group = _BITS.search(file.reference), _GROUP.search(text)
    return {
        **bounds,
        "weight_bits": int(bits.group(1)) if bits else _DEFAULT_BITS,
        "activation_bits": int(bits.group(2)) if bits else _DEFAULT_BITS,
        "group": int(group.group(1)) if group else 0,
        "quantises_output": _OUTPUT.search(text) is not None,
        **_scales(text),
    }


def _scales(text: str) -> dict[str, list[str]]:
    """What shares a scale, as the lines say that name an operand, or that follow one which does."""
    found: dict[str, list[str]] = {name: [] for name in _OPERANDS}
    current: list[str] = []
    for line in text.splitlines():
        current = [name for name, pattern in _OPERANDS.items() if pattern.search(line)] or current
        named = [scale for scale, pattern in _SCALES.items() if pattern.search(line)]
        for name in current:
            found[name] += [scale for scale in named if scale not in found[name]]
    return found
