"""Functions and classes that a reply writes out in full: each replaces the one of the same name."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Sequence

from adaexplore_generator.edits.lines import elides_inside, is_left_out, split_lines
from adaexplore_generator.edits.values import MisfitError
from adaexplore_generator.extract import parsed_python

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def is_whole_file(source: str, written: str, entry_points: Sequence[str]) -> bool:
    """Return whether code stands for itself: it defines an entry point, and whatever it uses of the kernel.

    Raises:
        MisfitError: It leaves something out that the kernel has.

    """
    before, after = parsed_python(source), parsed_python(written)
    if after is None or not set(entry_points) & {node.name for node in _definitions(after.body)}:
        return False
    refuse_elisions(source, written)
    if before is None:
        return True
    try:
        used = _used(symtable.symtable(written, "kernel", "exec"))
    except SyntaxError as error:
        raise MisfitError(f"the code is not Python: line {error.lineno or 0}: {error.msg}") from error
    if (_bound(before.body) - _bound(after.body)) & used:
        return False
    old = {node.name: node for node in _definitions(before.body)}
    for node in _definitions(after.body):
        if node.name in old:
            _refuse_lost_constructor(old[node.name], node)
    return True


def refuse_elisions(source: str, written: str) -> None:
    """Refuse code in which a line stands for lines of the kernel, or a part of a line is left out.

    Raises:
        MisfitError: It does.

    """
    own = {line.strip() for line in split_lines(source)}
    for line in split_lines(written):
        if line.strip() not in own and (is_left_out(line) or elides_inside(line)):
            raise MisfitError(f"the code leaves something out (`{line.strip()[:60]}`); write it out or answer with edits")


def with_definitions(source: str, parts: Sequence[str]) -> str:
    """Return a kernel with the functions and classes of a reply in place of those of the same names.

    Args:
        source: The kernel.
        parts: Pieces of code of the reply. Imports that the kernel lacks are added; functions that it lacks come before the first
            that is replaced.

    Raises:
        MisfitError: It cannot be told surely what a definition replaces.

    """
    tree = parsed_python(source)
    if tree is None:
        raise MisfitError("the kernel is no Python, so no function of it can be replaced; answer with edits or the whole file")
    wanted = _wanted(source, tree, parts)
    replaced = [(target, text) for node, text in wanted if (target := _target(tree, node)) is not None]
    added = [line for node, text in wanted if _target(tree, node) is None for line in (*text, "", "")]
    if not wanted and any(_definitions(_body(part)) for part in parts):
        return source
    if not replaced:
        raise MisfitError("the code is neither edits nor the whole file, and the kernel has no function or class of its names")
    if added and any(target.col_offset for target, _ in replaced):
        raise MisfitError("it cannot be told where the new functions go; answer with edits")
    changes = [(_first_line(target) - 1, target.end_lineno or target.lineno, _at_indent(text, target)) for target, text in replaced]
    first, imports = min(start for start, _, _ in changes), _after_imports(tree)
    lines = split_lines(source)
    for start, end, text in sorted([*changes, (first, first, added), (imports, imports, _new_imports(tree, parts))], reverse=True):
        lines[start:end] = text
    return "\n".join(lines)


def code_beside(parts: Sequence[str], kernels: Sequence[str]) -> str:
    """Return the name of a function or class in pieces of code that none of some kernels has so; empty if there is none."""
    written = [node for part in parts for node in _definitions(_body(part))]
    if not written:
        return ""
    known = {ast.dump(node) for kernel in kernels for node in all_definitions(_body(kernel))}
    return next((node.name for node in written if ast.dump(node) not in known), "")


def _wanted(source: str, tree: ast.Module, parts: Sequence[str]) -> list[tuple[_Definition, list[str]]]:
    """Return what a reply defines anew, each once, with its lines."""
    found: dict[str, tuple[_Definition, list[str]]] = {}
    known = {ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    for part in parts:
        refuse_elisions(source, part)
        body = _body(part)
        if not _definitions(body):
            continue
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom) or ast.dump(node) in known or _is_docstring(node):
                continue
            if not isinstance(node, _DEFINITIONS):
                raise MisfitError(f"the code is not the whole file, and line {node.lineno} of it is no function or class")
            if node.name in found and ast.dump(found[node.name][0]) != ast.dump(node):
                raise MisfitError(f"the reply defines `{node.name}` twice; write it once")
            found[node.name] = (node, split_lines(part)[_first_line(node) - 1 : node.end_lineno])
    return list(found.values())


def _body(part: str) -> list[ast.stmt]:
    tree = parsed_python(part)
    return tree.body if tree is not None else []


def _target(tree: ast.Module, node: _Definition) -> _Definition | None:
    """Return what a definition replaces; None if the kernel has none of its name."""
    method = isinstance(node, ast.FunctionDef) and bool(node.args.args) and node.args.args[0].arg == "self"
    scopes = [item.body for item in tree.body if isinstance(item, ast.ClassDef)] if method else [tree.body]
    same = [item for body in scopes for item in _definitions(body) if item.name == node.name]
    if not same and not method:
        return None
    if len(same) != 1 or type(same[0]) is not type(node):
        raise MisfitError(f"the kernel has {len(same) or 'no'} definitions that `{node.name}` may replace; answer with edits")
    if same[0].decorator_list and not node.decorator_list:
        raise MisfitError(f"`{node.name}` has lost its decorators; write them out")
    if isinstance(node, ast.ClassDef):
        _refuse_lost_methods(same[0], node)
    return same[0]


def _refuse_lost_methods(old: _Definition, new: _Definition) -> None:
    if lost := sorted({node.name for node in _definitions(old.body)} - {node.name for node in _definitions(new.body)}):
        raise MisfitError(f"class `{new.name}` has lost its method `{lost[0]}`; write the whole class")


def _refuse_lost_constructor(old: _Definition, new: _Definition) -> None:
    methods = [{node.name for node in _definitions(item.body)} for item in (old, new)]
    if "__init__" in methods[0] - methods[1] and (_attributes(new, ast.Load) - _attributes(new, ast.Store)) & _attributes(old, ast.Store):
        raise MisfitError(f"class `{new.name}` has lost its constructor; write the whole class")


def _attributes(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    found = (item for item in ast.walk(node) if isinstance(item, ast.Attribute) and isinstance(item.ctx, context))
    return {item.attr for item in found if isinstance(item.value, ast.Name) and item.value.id == "self"}


def _definitions(body: Iterable[ast.stmt]) -> list[_Definition]:
    return [node for node in body if isinstance(node, _DEFINITIONS)]


def all_definitions(body: Iterable[ast.stmt]) -> list[_Definition]:
    """Return the functions and classes of a file and the methods of its classes."""
    found = _definitions(body)
    return found + [method for node in found if isinstance(node, ast.ClassDef) for method in _definitions(node.body)]


def _first_line(node: _Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _at_indent(text: Sequence[str], target: _Definition) -> list[str]:
    return [" " * target.col_offset + line if line.strip() else "" for line in text]


def _bound(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that a file binds at its top level."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, _DEFINITIONS):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        else:
            found.update(item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))
    return found


def _used(scope: symtable.SymbolTable) -> set[str]:
    """Return the names that a file reads and that none of its functions binds."""
    top = scope.get_type() == "module"
    found = {item.get_name() for item in scope.get_symbols() if item.is_referenced() and (top or item.is_global())}
    return found.union(*(_used(child) for child in scope.get_children()))


def _after_imports(tree: ast.Module) -> int:
    return max((node.end_lineno or 0 for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)), default=0)


def _new_imports(tree: ast.Module, parts: Sequence[str]) -> list[str]:
    known = {ast.unparse(node) for node in tree.body}
    written = (ast.unparse(node) for part in parts for node in _body(part) if isinstance(node, ast.Import | ast.ImportFrom))
    return [line for line in dict.fromkeys(written) if line not in known]
