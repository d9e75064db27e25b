"""Reads candidate sources: which functions Triton compiles, and what their names resolve to. Nothing is executed."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# A hundred times what kernels have; reading more would take the seconds that other calls wait for.
MAX_SOURCE_BYTES = 256 << 10
# Deeper trees are no kernels, and walking them would exhaust the interpreter's stack.
MAX_DEPTH = 200
_JIT_NAMES = frozenset({"triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit", "triton.runtime.JITFunction"})
_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef
# None marks a name that is bound to something that is no module path, or to several things.
Bindings = Mapping[str, str | None]


@dataclass(frozen=True)
class JitFunction:
    """A function that Triton compiles.

    Attributes:
        node: Its definition.
        scopes: Bindings from the module inwards, its own last.

    """

    node: ast.FunctionDef
    scopes: tuple[Bindings, ...]

    def resolve(self, expression: ast.expr) -> str | None:
        """Return the dotted name that an expression stands for inside the function, or None."""
        return resolve(expression, self.scopes)


@dataclass(frozen=True)
class ParsedSource:
    """A source and its jit functions.

    Attributes:
        text: The source.
        tree: Its syntax tree.
        functions: Functions that Triton compiles, in order of appearance.
        scope: Bindings of the module.

    """

    text: str
    tree: ast.Module
    functions: tuple[JitFunction, ...]
    scope: Bindings

    def line_text(self, line: int) -> str:
        """Return one line of the source, stripped and cut to 200 characters; empty if there is none."""
        lines = self.text.splitlines()
        return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""


def parse(text: str) -> ParsedSource | None:
    """Return the parsed source, or None if it is not Python, too large or too deeply nested to read."""
    if len(text.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        if _depth_exceeds(tree, MAX_DEPTH):
            return None
        module = _bindings(tree.body, ())
        return ParsedSource(text, tree, tuple(_jit_functions(tree.body, (module,))), module)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def resolve(expression: ast.expr, scopes: tuple[Bindings, ...]) -> str | None:
    """Return the dotted name that `a.b.c` stands for through imports and aliases, or None if that is not certain."""
    parts: list[str] = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return None
    base = _lookup(expression.id, scopes)
    return None if base is None else ".".join([base, *reversed(parts)])


def _depth_exceeds(tree: ast.AST, limit: int) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _lookup(name: str, scopes: tuple[Bindings, ...]) -> str | None:
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    return f"builtins.{name}" if name in _BUILTINS else None


def _bindings(body: list[ast.stmt], outer: tuple[Bindings, ...], arguments: ast.arguments | None = None) -> dict[str, str | None]:
    found: dict[str, str | None] = dict.fromkeys(_argument_names(arguments))
    aliases: set[ast.AST] = set()
    for statement in body:
        for node in _own_nodes(statement):
            if node in aliases:
                continue
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
                aliases.update(target for target in node.targets if isinstance(target, ast.Name))
            for name, value in _bound_by(node, (*outer, found)):
                found[name] = value if found.get(name, value) == value else None
    return found


def _own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """Walk a statement in order without entering the bodies of functions and classes."""
    yield root
    if isinstance(root, _Function | ast.ClassDef | ast.Lambda):
        return
    for child in ast.iter_child_nodes(root):
        yield from _own_nodes(child)


def _argument_names(arguments: ast.arguments | None) -> list[str]:
    if arguments is None:
        return []
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return named + [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]


def _bound_by(node: ast.AST, scopes: tuple[Bindings, ...]) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0], alias.name.partition(".")[0])
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            dotted = f"{node.module}.{alias.name}" if node.module and not node.level else None
            yield alias.asname or alias.name, dotted
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
        value = resolve(node.value, scopes)
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, value
    elif isinstance(node, _Function | ast.ClassDef) or (isinstance(node, ast.ExceptHandler) and node.name):
        yield str(node.name), None
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id, None


def _jit_functions(body: list[ast.stmt], scopes: tuple[Bindings, ...]) -> Iterator[JitFunction]:
    wrapped = _wrapped_names(body, scopes)
    for statement in body:
        for node in _own_nodes(statement):
            if isinstance(node, ast.FunctionDef):
                inner = (*scopes, _bindings(node.body, scopes, node.args))
                if node.name in wrapped or any(_is_jit(d, scopes) for d in node.decorator_list):
                    yield JitFunction(node, inner)
                else:
                    yield from _jit_functions(node.body, inner)
            elif isinstance(node, ast.ClassDef):
                yield from _jit_functions(node.body, scopes)


def _is_jit(decorator: ast.expr, scopes: tuple[Bindings, ...]) -> bool:
    return resolve(decorator.func if isinstance(decorator, ast.Call) else decorator, scopes) in _JIT_NAMES


def _wrapped_names(body: list[ast.stmt], scopes: tuple[Bindings, ...]) -> frozenset[str]:
    """Names of functions that are compiled by a plain call, `kernel = triton.jit(function)`."""
    return frozenset(
        argument.id
        for statement in body
        for node in _own_nodes(statement)
        if isinstance(node, ast.Call) and _is_jit(node.func, scopes)
        for argument in node.args[:1]
        if isinstance(argument, ast.Name)
    )
