"""Turns the source of a @triton.jit function into Python that runs on interpreted tensors.

What differs between the two languages, and is rewritten: `x = 5` makes a tensor (except under a constexpr annotation), `and`, `or` and
`not` work on whole blocks, `assert` is a device assertion (off, as on a GPU outside of debug builds), and `range`, `min` and `max` are
Triton's.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.language import core
from triton.runtime.jit import JITFunction

_ASSIGN, _AND, _OR, _NOT = "__triton_assign", "__triton_and", "__triton_or", "__triton_not"


def _call(name: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=arguments, keywords=[])


def _deferred(expression: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(args=nothing, body=expression)


def _is_constexpr(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).rsplit(".", 1)[-1] == "constexpr"


class _Transformer(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = _call(_ASSIGN, [node.value])
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return node
        value = node.value if _is_constexpr(node.annotation) else _call(_ASSIGN, [node.value])
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = _AND if isinstance(node.op, ast.And) else _OR
        return ast.copy_location(_call(name, [_deferred(value) for value in node.values]), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(_call(_NOT, [node.operand]), node) if isinstance(node.op, ast.Not) else node


class Language:
    """The functions that rewritten source calls; `semantic` is Triton's, over the interpreting builder."""

    def __init__(self, semantic: Any, loop: Callable[..., Any]) -> None:
        self._semantic = semantic
        self._loop = loop

    def namespace(self) -> dict[str, Any]:
        """Names that replace the language's own."""
        return {
            _ASSIGN: self.assign,
            _AND: self.logical_and,
            _OR: self.logical_or,
            _NOT: self.logical_not,
            "range": self._loop,
            "min": lambda *args, **kwargs: self._extreme(core.builtin_min, min, args),
            "max": lambda *args, **kwargs: self._extreme(core.builtin_max, max, args),
            "print": lambda *args, **kwargs: None,
        }

    def assign(self, value: Any) -> Any:
        """What a variable holds after `x = value`: numbers become scalar tensors."""
        if isinstance(value, tl.tensor) or value is None:
            return value
        if isinstance(value, tl.constexpr):
            value = value.value
        if isinstance(value, (bool, int, float)):
            return self._semantic.to_tensor(value)
        if type(value) is tuple:
            return tuple(self.assign(item) for item in value)
        return value

    def logical_and(self, *operands: Callable[[], Any]) -> Any:
        """`and`: elementwise on tensors, short-circuiting on constants."""
        return self._logical(operands, stop=False, combine=self._semantic.logical_and)

    def logical_or(self, *operands: Callable[[], Any]) -> Any:
        """`or`: elementwise on tensors, short-circuiting on constants."""
        return self._logical(operands, stop=True, combine=self._semantic.logical_or)

    def logical_not(self, operand: Any) -> Any:
        """`not`: elementwise on tensors."""
        return self._semantic.not_(self._semantic.to_tensor(operand)) if isinstance(operand, tl.tensor) else not operand

    @staticmethod
    def _logical(operands: tuple[Callable[[], Any], ...], *, stop: bool, combine: Callable[[Any, Any], Any]) -> Any:
        kept: list[Any] = []
        value: Any = None
        for operand in operands:
            value = operand()
            if isinstance(value, tl.tensor):
                kept.append(value)
            elif bool(value) is stop:
                return value
        if not kept:
            return value
        result = kept[0]
        for other in kept[1:]:
            result = combine(result, other)
        return result

    def _extreme(self, of_tensors: Callable[..., Any], of_numbers: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        plain = [arg.value if isinstance(arg, tl.constexpr) else arg for arg in args]
        if any(isinstance(arg, tl.tensor) for arg in plain):
            return getattr(of_tensors, "__wrapped__", of_tensors)(*plain, _semantic=self._semantic)
        return of_numbers(*plain)


def definition_line(function: JITFunction) -> int:
    """Line of `def` in the file that holds the function."""
    lines = function.raw_src if isinstance(function.raw_src, list) else function.raw_src.splitlines()
    offset = next((number for number, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return int(function.starting_line_number) + offset


def source_file(function: JITFunction) -> str:
    """Path of the file that holds the function."""
    return inspect.getsourcefile(function.fn) or function.fn.__code__.co_filename


def rewrite(function: JITFunction, language: dict[str, Any], adapt: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function over interpreted tensors; line numbers stay those of its file.

    `adapt` replaces single globals, for example Triton builtins that were imported by name.
    """
    tree = ast.parse(function.src)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            statement.decorator_list = []
    tree = ast.fix_missing_locations(_Transformer().visit(tree))
    ast.increment_lineno(tree, definition_line(function) - 1)
    scope = {name: adapt(value) for name, value in function.get_capture_scope().items()}
    shadowed = {name: value for name, value in language.items() if name.startswith("__triton") or name not in scope}
    scope.update(shadowed)
    exec(compile(tree, source_file(function), "exec", dont_inherit=True), scope)  # noqa: S102 - the candidate's own code, in its sandbox
    return scope[function.fn.__name__]  # type: ignore[no-any-return]
