"""A task's program: its reference, its inputs, and how a task file of either format is recognised."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import torch

from adaexplore_evaluator.runner.errors import ContractError
from adaexplore_evaluator.runner.precision import cast_value
from adaexplore_evaluator.runner.recorder import NamedCase, record_cases
from adaexplore_evaluator.runner.seeding import seeded
from adaexplore_evaluator.runner.sources import compile_tree, execute, parse_source, read_source, remember_source
from adaexplore_evaluator.runner.task_cases import CaseParts, find_parts, without_test_runs
from adaexplore_evaluator.runner.task_helpers import offer_helpers
from adaexplore_evaluator.runner.wire import tensors_of

MODULE = "module"
FUNCTION = "function"
MODULE_ENTRY_POINT = "ModelNew"
_MAKERS = ("get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class TaskFile:
    """A task as its file states it, before any shape is reduced.

    Attributes:
        path: The file.
        tree: Its syntax tree; what runs its own tests is left out.
        format: `module` or `function`.
        reference: Name of the reference module or function.
        names_cuda: Whether it names a GPU.
        test: Name of the function that makes its named cases; empty without any.
        has_inputs: Whether it has `get_inputs`, which makes the inputs that are timed.

    """

    path: Path
    tree: ast.Module
    format: str
    reference: str
    names_cuda: bool = False
    test: str = ""
    has_inputs: bool = True

    @property
    def entry_point(self) -> str:
        """Name that a candidate defines: `ModelNew` for modules, the reference's own name for functions."""
        return MODULE_ENTRY_POINT if self.format == MODULE else self.reference


@dataclass(frozen=True)
class TaskProgram:
    """A task that was executed at one shape."""

    file: TaskFile
    module: ModuleType

    def init_inputs(self) -> list[object]:
        """Constructor arguments, or nothing for a function."""
        if self.file.format == FUNCTION or not hasattr(self.module, "get_init_inputs"):
            return []
        return self._listed("get_init_inputs")

    def inputs(self, seed: int) -> list[object] | dict[str, object]:
        """Arguments of the call that is timed, made from `seed`: those of `get_inputs`, else of the largest named case."""
        if not self.file.has_inputs:
            return max(self.cases(seed), key=lambda case: case.elements).inputs
        with seeded(seed):
            return self._listed("get_inputs")

    def cases(self, seed: int) -> list[NamedCase]:
        """Named cases in the order of their calls, what is random in them drawn from `seed`; none for a file without a test."""
        if not self.file.test:
            return []
        with seeded(seed):
            return record_cases(self.module, self.file.test, self.file.reference)

    def in_class(self, inputs: object, dtype: torch.dtype) -> object:
        """Inputs in a class of `dtype`; those of named cases keep their own types, unless a smaller class than float32 is asked for."""
        return inputs if self.file.test and dtype is torch.float32 else cast_value(inputs, dtype)

    def construct(self, init_inputs: list[object], seed: int) -> Callable[..., object]:
        """The reference ready to be called: a module built from `seed`, in the mode its constructor leaves it in, or the function."""
        reference: Callable[..., object] = getattr(self.module, self.file.reference)
        if self.file.format == FUNCTION:
            return reference
        with seeded(seed):
            return _as_callable(reference(*init_inputs))

    def signature(self) -> list[str]:
        """Names of the reference's positional arguments."""
        target = getattr(self.module, self.file.reference)
        function = target.forward if self.file.format == MODULE else target
        return _parameter_names(function, skip_self=self.file.format == MODULE)

    def init_signature(self) -> list[str]:
        """Names of the constructor's positional arguments; none for a function."""
        if self.file.format == FUNCTION:
            return []
        return _parameter_names(getattr(self.module, self.file.reference).__init__, skip_self=True)

    def _listed(self, maker: str) -> list[object]:
        made = getattr(self.module, maker)()
        if isinstance(made, torch.Tensor):
            return [made]
        if not isinstance(made, list | tuple):
            line = _line_of(self.file.tree, maker)
            name = self.file.path.name
            raise ContractError(f"{name}, line {line}: {maker} returns a {type(made).__name__}; return a list of the arguments", line)
        return list(made)


def read_task(path: Path, task_format: str) -> TaskFile:
    """Parse a task file and recognise its format if `task_format` is empty; RunnerError(syntax) or ContractError."""
    source = read_source(path)
    tree = parse_source(source, path)
    remember_source(path, source)
    names = _defined_names(tree)
    chosen = task_format or (MODULE if "Model" in names else FUNCTION)
    if chosen not in (MODULE, FUNCTION):
        raise ContractError(f"{chosen!r} is no task format; use {MODULE} or {FUNCTION}")
    parts = find_parts(tree, source, path.name) if chosen == FUNCTION else None
    if parts is not None:
        return _case_file(path, tree, source, parts, "get_inputs" in names)
    reference = _require(path, names, "Model", "the reference module") if chosen == MODULE else _reference_function(path, tree)
    _require(path, names, "get_inputs", "a function that returns the list of arguments")
    return TaskFile(path=path, tree=tree, format=chosen, reference=reference, names_cuda="cuda" in source)


def run_task(file: TaskFile, tree: ast.Module, name: str) -> TaskProgram:
    """Execute the task's code from `tree`, which is the file's own or one with other shapes; raises what the task raises."""
    if file.test:
        offer_helpers()
    module = execute(compile_tree(tree, file.path), file.path, name, alias=file.reference if file.test else "")
    for needed in (file.reference, *(("get_inputs",) if file.has_inputs else ()), *((file.test,) if file.test else ())):
        if not callable(getattr(module, needed, None)):
            raise ContractError(f"{file.path.name}: {needed} is not callable; define it as a class or a function")
    return TaskProgram(file=file, module=module)


def check_outputs(file: TaskFile, outputs: object) -> None:
    """ContractError unless a call of the reference returned at least one tensor."""
    if not tensors_of(outputs):
        owner = "forward" if file.format == MODULE else file.reference
        line = _line_of(file.tree, owner)
        found = type(outputs).__name__
        raise ContractError(f"{file.path.name}, line {line}: {owner} returns no tensor but a {found}; return the tensor it computes", line)


def _case_file(path: Path, tree: ast.Module, source: str, parts: CaseParts, has_inputs: bool) -> TaskFile:
    # The helpers of these files make their tensors on a GPU unless they are told otherwise.
    names_cuda = "cuda" in source or "data_utils" in source
    return TaskFile(path, without_test_runs(tree), FUNCTION, parts.reference, names_cuda, parts.test, has_inputs)


def _as_callable(instance: object) -> Callable[..., object]:
    if not callable(instance):
        raise ContractError("Model is not callable; derive it from torch.nn.Module and define forward")
    return instance


def _require(path: Path, names: frozenset[str], name: str, what: str) -> str:
    if name not in names:
        raise ContractError(f"{path.name} lacks {name}; define {what} under that name")
    return name


def _reference_function(path: Path, tree: ast.Module) -> str:
    public = [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name not in _MAKERS
    ]
    if "reference" in public:
        return "reference"
    if len(public) == 1:
        return public[0]
    if not public:
        raise ContractError(f"{path.name} lacks Model; define the reference as a module Model, or as a function called reference")
    raise ContractError(f"{path.name} has several public functions ({', '.join(public)}); call the reference `reference`")


def _defined_names(tree: ast.Module) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return frozenset(names)


def _parameter_names(function: object, skip_self: bool) -> list[str]:
    if not isinstance(function, FunctionType):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in inspect.signature(function).parameters.values() if parameter.kind in kinds]
    return names[1:] if skip_self else names


def _line_of(tree: ast.Module, name: str) -> int:
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    return lines[-1] if lines else 0
