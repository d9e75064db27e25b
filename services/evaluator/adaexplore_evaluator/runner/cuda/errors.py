"""Failures of a real GPU and of Triton on it, in the protocol's kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from adaexplore_evaluator.runner.errors import MAX_DETAIL_CHARS, RunnerError

_ACCELERATOR_ERROR = getattr(torch, "AcceleratorError", None)
# Codes of the driver after which a context is lost.
_LOST = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})
_CUDA_TEXT = re.compile(r"CUDA error: (?:an illegal|misaligned|device-side assert|unspecified launch)|Triton Error \[CUDA\]: an illegal")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn what Triton and CUDA raise into the protocol's kinds; everything else passes."""
    try:
        yield
    except OutOfResources as error:
        message = f"a launch needs {error.required} of {error.name}, the limit is {error.limit}; use smaller blocks or fewer stages"
        raise RunnerError("launch", message) from error
    except PTXASError as error:
        raise RunnerError(
            "compile", f"the assembler refuses the kernel: {_first_line(error)}", detail=str(error)[-MAX_DETAIL_CHARS:]
        ) from error
    except CompilationError as error:
        raise _compile_error(error, path) from error
    except RuntimeError as error:
        if _is_fault(error):
            message = f"the GPU stopped at an illegal access: {_first_line(error)}; mask every load and store by its tensor's extent"
            raise RunnerError("fault", message) from error
        raise


def _is_fault(error: RuntimeError) -> bool:
    if _ACCELERATOR_ERROR is not None and isinstance(error, _ACCELERATOR_ERROR):
        return getattr(error, "error_code", None) in _LOST or bool(_CUDA_TEXT.search(str(error)))
    return type(error) is RuntimeError and bool(_CUDA_TEXT.search(str(error)))


def _compile_error(error: CompilationError, path: str) -> RunnerError:
    chain: list[BaseException] = [error]
    while isinstance(chain[-1], CompilationError):
        following = chain[-1].__cause__ or chain[-1].__context__
        if following is None or following in chain:
            break
        chain.append(following)
    line = _line(chain, path)
    text = getattr(chain[-1], "error_message", None) or str(chain[-1]) or str(error)
    name = type(chain[-1]).__name__
    place = f"line {line}: " if line else ""
    message = f"{place}{name}: {text.strip().splitlines()[0] if text.strip() else ''}"
    return RunnerError("compile", message, line, detail=str(error)[-MAX_DETAIL_CHARS:], exception_type=name)


def _line(chain: list[BaseException], path: str) -> int:
    """Line of the file: that of the innermost failing node, counted from where its function's text begins."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return 0
    for cause in reversed(chain):
        node, source = getattr(cause, "node", None), getattr(cause, "src", None)
        number = getattr(node, "lineno", None)
        if isinstance(cause, CompilationError) and number is not None and source and source in text:
            return text[: text.index(source)].count("\n") + int(number)
    return 0


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
