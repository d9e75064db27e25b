"""The parts of a case-based task file: the reference, a separator of `#`, and a test that makes its named cases."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass

from adaexplore_evaluator.runner.errors import ContractError

_SEPARATOR = re.compile(r"#{100,}\s*\Z")
_TEST = "test_"


@dataclass(frozen=True)
class CaseParts:
    """Names of the reference and of the test of a case-based file."""

    reference: str
    test: str


def find_parts(tree: ast.Module, source: str, file_name: str) -> CaseParts | None:
    """The parts of a case-based file, None if it has no test; ContractError if they are ambiguous.

    Above the separator stands the reference; without a separator it is the function that the test is named after.
    """
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    tests = [node.name for node in functions if node.name.startswith(_TEST)]
    if not tests:
        return None
    line = next((number for number, text in enumerate(source.splitlines(), 1) if _SEPARATOR.match(text)), None)
    above = [node.name for node in functions if line is not None and node.lineno < line and not node.name.startswith("_")]
    known = above or [node.name for node in functions if node.name not in tests]
    pairs = [CaseParts(test.removeprefix(_TEST), test) for test in tests if test.removeprefix(_TEST) in known]
    if len(pairs) == 1:
        return pairs[0]
    if len(tests) == 1 and above:
        return CaseParts(above[-1], tests[0])
    raise ContractError(f"{file_name}: {', '.join(tests)} tell no reference; name one test test_<function> after the reference")


def without_test_runs(tree: ast.Module) -> ast.Module:
    """A copy that defines its tests but does not run them where the module is executed."""
    changed = copy.deepcopy(tree)
    changed.body = [node for node in changed.body if not (isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr) and _runs_test(node))]
    return changed


def _runs_test(node: ast.stmt) -> bool:
    called = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return any(isinstance(name, ast.Name) and name.id.startswith(_TEST) for name in called)
