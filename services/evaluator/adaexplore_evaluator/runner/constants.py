"""The integer constants of a task file that may be sizes, and the file rewritten with others in their place."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SMALLEST_SIZE = 5
_MAX_VALUE = 2**40
_INPUT_MAKERS = ("get_inputs", "get_init_inputs")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}

Place = tuple[int, int]


@dataclass(frozen=True)
class Constant:
    """An integer expression of literals only, such as `4096` or `1024 * 2`; `named` if a module-level name holds it."""

    label: str
    value: int
    place: Place
    named: bool


def size_constants(tree: ast.Module) -> list[Constant]:
    """Integer constants of at least 5 in module-level assignments and in the input makers, in order of the file."""
    found: list[Constant] = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            found += _assigned(statement)
        elif isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
            found += _constants(statement.value, statement.target.id, named=True)
        elif isinstance(statement, ast.FunctionDef) and statement.name in _INPUT_MAKERS:
            for inner in statement.body:
                found += _constants(inner, statement.name, named=False)
    return found


def with_constants(tree: ast.Module, values: Mapping[Place, int]) -> ast.Module:
    """A copy of the tree with the constants at the given places replaced; line numbers stay."""
    rewritten = copy.deepcopy(tree)
    _Rewriter(values).visit(rewritten)
    return rewritten


class _Rewriter(ast.NodeTransformer):
    def __init__(self, values: Mapping[Place, int]) -> None:
        self._values = values

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the outermost integer expression that begins at a known place."""
        if isinstance(node, ast.expr) and (node.lineno, node.col_offset) in self._values and _literal(node) is not None:
            return ast.copy_location(ast.Constant(self._values[node.lineno, node.col_offset]), node)
        visited: ast.AST = self.generic_visit(node)
        return visited


def _assigned(statement: ast.Assign) -> list[Constant]:
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    else:
        pairs = [(target, value)]
    return [item for name, part in pairs for item in _constants(part, ast.unparse(name), named=True)]


def _constants(node: ast.AST, label: str, named: bool) -> list[Constant]:
    if isinstance(node, ast.expr):
        value = _literal(node)
        if value is not None:
            place = (node.lineno, node.col_offset)
            name = label if named else f"{label}:{node.lineno}:{node.col_offset}"
            return [Constant(name, value, place, named)] if SMALLEST_SIZE <= value < _MAX_VALUE else []
    if isinstance(node, ast.Tuple | ast.List) and named:
        return [item for index, element in enumerate(node.elts) for item in _constants(element, f"{label}[{index}]", named)]
    return [item for child in ast.iter_child_nodes(node) for item in _constants(child, label, named)]


def _literal(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _literal(node.left), _literal(node.right)
        if left is None or right is None or (isinstance(node.op, ast.FloorDiv) and right == 0):
            return None
        return _OPERATORS[type(node.op)](left, right)
    return None
