"""Loading a task or a candidate from its file."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import sys
from pathlib import Path
from types import CodeType, ModuleType

from adaexplore_evaluator.runner.errors import RunnerError


def read_source(path: Path) -> str:
    """The text of a source file; RunnerError(syntax) if it is not UTF-8, RunnerError(contract) if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RunnerError("syntax", f"{path.name} is not Python: not UTF-8 text at byte {error.start}; save it as UTF-8") from error
    except OSError as error:
        raise RunnerError("contract", f"{path.name} cannot be read: {error.strerror}") from error


def parse_source(source: str, path: Path) -> ast.Module:
    """The syntax tree of a file; RunnerError(syntax) names file, line and what is wrong."""
    try:
        return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        line = error.lineno or 0
        message = f"{path.name}, line {line}: not Python: {error.msg}; correct the syntax"
        remember_source(path, source)
        raise RunnerError("syntax", message, line, detail=f"{error.text or ''}".strip()) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise RunnerError("syntax", f"{path.name} is not Python: {error}") from error


def remember_source(path: Path, source: str) -> None:
    """Let tracebacks and `inspect` find the text under the file's name, whatever happens to the file."""
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))


def compile_tree(tree: ast.Module, path: Path) -> CodeType:
    """Byte code of a syntax tree under the file's name; RunnerError(syntax) for what only the compiler refuses."""
    try:
        return compile(tree, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0) or 0
        raise RunnerError("syntax", f"{path.name}, line {line}: not Python: {error}; correct the syntax", line) from error


def execute(code: CodeType, path: Path, name: str, alias: str = "") -> ModuleType:
    """Run a file's code as a fresh module that `sys.modules` knows, as classes and Triton functions in it need.

    Under `alias`, the name that the file has elsewhere, it can import itself, unless there is another module of that name.
    """
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    if alias and _unknown(alias):
        sys.modules[alias] = module
    exec(code, module.__dict__)  # noqa: S102 - running the given file is this process's purpose
    return module


def load_module(path: Path, name: str) -> ModuleType:
    """Read, parse, compile and run a file; RunnerError for bad text, else whatever the file itself raises."""
    source = read_source(path)
    code = compile_tree(parse_source(source, path), path)
    remember_source(path, source)
    return execute(code, path, name)


def _unknown(name: str) -> bool:
    return name not in sys.modules and importlib.util.find_spec(name) is None
