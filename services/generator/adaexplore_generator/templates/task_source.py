"""Takes from a task's source what a candidate keeps: imports, helpers, constants and the constructor, under the name `ModelNew`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from adaexplore_generator.templates.ir import UnsupportedError

_DROPPED = frozenset({"get_inputs", "get_init_inputs"})


@dataclass(frozen=True)
class TaskShell:
    """What surrounds the kernels: `imports` and `kept` statements, the class without `forward` (empty for functions), and the signature."""

    imports: tuple[str, ...]
    kept: tuple[str, ...]
    class_head: str
    methods: tuple[str, ...]
    signature: str
    arguments: tuple[str, ...]


def module_shell(source: str) -> TaskShell:
    """Shell of a `Model` task; UnsupportedError if there is no such class or it has no plain `forward`."""
    tree = _parse(source)
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
    if model is None:
        raise UnsupportedError("the task has no class Model")
    forward = next((node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward"), None)
    if forward is None:
        raise UnsupportedError("Model has no forward of its own")
    kept_methods = _kept_members(model)
    renamed = [_Renamer().visit(member) for member in kept_methods]
    bases = [ast.unparse(base) for base in (*model.bases, *model.keywords)]
    roots: list[ast.AST] = [*renamed, *model.bases, *model.keywords, *model.decorator_list, forward.args]
    imports, kept = _closure(tree, roots, skip={"Model"})
    decorators = [f"@{ast.unparse(decorator)}\n" for decorator in model.decorator_list]
    head = "".join(decorators) + f"class ModelNew({', '.join(bases)}):"
    methods = tuple(ast.unparse(ast.fix_missing_locations(member)) for member in renamed)
    returns = f" -> {ast.unparse(forward.returns)}" if forward.returns else ""
    imports = imports if not forward.returns else _with_names(tree, imports, forward.returns)
    return TaskShell(imports, kept, head, methods, f"def forward({ast.unparse(forward.args)}){returns}:", _names(forward.args)[1:])


def function_shell(source: str, name: str) -> TaskShell:
    """Shell of a function task; UnsupportedError if the function is not there."""
    tree = _parse(source)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)
    if function is None:
        raise UnsupportedError(f"the task has no function {name}")
    imports, kept = _closure(tree, [function.args], skip={name})
    return TaskShell(imports, kept, "", (), f"def {name}({ast.unparse(function.args)}):", _names(function.args))


def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise UnsupportedError(f"the task is not Python: {error}") from error


def _names(arguments: ast.arguments) -> tuple[str, ...]:
    if arguments.vararg or arguments.kwarg:
        raise UnsupportedError("a signature with * or **")
    return tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def _kept_members(model: ast.ClassDef) -> list[ast.stmt]:
    """Members that construction needs: everything that is no method, dunder methods, and the methods that these call."""
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)}
    wanted = {name for name in methods if name.startswith("__") and name != "__call__"}
    queue = list(wanted)
    while queue:
        for node in ast.walk(methods[queue.pop()]):
            if isinstance(node, ast.Attribute) and node.attr in methods and node.attr not in wanted | {"forward"}:
                wanted.add(node.attr)
                queue.append(node.attr)
    docstring = model.body[0] if ast.get_docstring(model) else None
    return [node for node in model.body if node is not docstring and (not isinstance(node, ast.FunctionDef) or node.name in wanted)]


class _Renamer(ast.NodeTransformer):
    """Calls the class by its new name, in `super(Model, self)` for one."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Renames the class."""
        return ast.copy_location(ast.Name("ModelNew", node.ctx), node) if node.id == "Model" else node


def _loaded(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Load)}


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    names = {found.id for found in ast.walk(statement) if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store)}
    imports = [found for found in ast.walk(statement) if isinstance(found, ast.Import | ast.ImportFrom)]
    return names | {(alias.asname or alias.name).split(".")[0] for found in imports for alias in found.names}


def _closure(tree: ast.Module, roots: list[ast.AST], skip: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Imports and other statements, in order, that the roots need directly or through each other."""
    statements = [node for node in tree.body if not (_defined(node) & (skip | _DROPPED)) and not isinstance(node, ast.Expr)]
    needed = set().union(*(_loaded(root) for root in roots)) if roots else set()
    chosen: set[int] = set()
    grown = True
    while grown:
        grown = False
        for number, statement in enumerate(statements):
            if number not in chosen and _defined(statement) & needed:
                chosen.add(number)
                needed |= _loaded(statement)
                grown = True
    imports, kept = [], []
    for number, statement in enumerate(statements):
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if isinstance(statement, ast.Import | ast.ImportFrom):
            if future or number in chosen:
                imports.append(ast.unparse(statement))
        elif number in chosen:
            kept.append(ast.unparse(statement))
    return tuple(imports), tuple(kept)


def _with_names(tree: ast.Module, imports: tuple[str, ...], annotation: ast.expr) -> tuple[str, ...]:
    more, _ = _closure(tree, [annotation], skip=set())
    return (*imports, *(line for line in more if line not in imports))
