"""The Triton session of a candidate: its modes pause inside of a launch, and its failures become the protocol's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import _disable_current_modes

from adaexplore_evaluator.runner.errors import MAX_DETAIL_CHARS, RunnerError
from adaexplore_evaluator.runner.triton_cpu import KernelCompileError, LaunchRefused, NotInterpretable, TooSlow, TritonSession
from adaexplore_evaluator.runner.virtual_cuda import refuse_cpu_pointers


class Pausable(Protocol):
    """Records what candidates call."""

    def paused(self) -> Any:
        """A context manager in which nothing is recorded."""
        ...


class CandidateSession(TritonSession):
    """A session under the virtual device.

    What interprets a kernel uses torch itself and must meet neither the virtual device nor a recorder; what the tuner tries is not
    part of a call. A kernel that this device cannot interpret is remembered, since a candidate may catch the exception.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._recorder: Pausable | None = None
        self._not_interpretable: NotInterpretable | None = None

    def pause_while_launching(self, recorder: Pausable) -> None:
        """Let `recorder` record nothing while a tuner is at work."""
        self._recorder = recorder

    def _run(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_cpu_pointers([*args, *kwargs.values()])
        try:
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                return super()._run(function, *args, **kwargs)
        except NotInterpretable as error:
            self._not_interpretable = error
            raise

    def _autotune(self, tune: Callable[..., Any], tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._recorder.paused() if self._recorder is not None else nullcontext():
            return super()._autotune(tune, tuner, args, kwargs)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        # Whatever the candidate made of it, an error of its own included, says nothing of the candidate.
        if self._not_interpretable is not None and error is not self._not_interpretable:
            raise self._not_interpretable


@contextmanager
def translated() -> Iterator[None]:
    """Turn the session's typed failures into the protocol's kinds; everything else passes."""
    try:
        yield
    except KernelCompileError as error:
        raise _compile_error(error) from error
    except LaunchRefused as error:
        raise RunnerError("launch", str(error), error.line, error.kernel_name) from error
    except NotInterpretable as error:
        kind = "too_slow" if isinstance(error, TooSlow) else "not_interpretable"
        raise RunnerError(kind, str(error), error.line, error.kernel_name) from error


def _compile_error(error: KernelCompileError) -> RunnerError:
    first_line = (error.diagnostic.strip().splitlines() or [""])[0]
    message = f"kernel {error.kernel_name}, line {error.line}: {error.exception_type}: {first_line}"
    detail = error.diagnostic[-MAX_DETAIL_CHARS:]
    return RunnerError("compile", message, error.line, error.kernel_name, detail, exception_type=error.exception_type)
