"""The candidate's standard output, which belongs to nobody: what writes to it is told its line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from adaexplore_evaluator.runner.frames import JsonObject

_STDOUT_FD = 1


class NotingOutput(io.TextIOWrapper):
    """Standard output that notes the line of the candidate that wrote to it first; what Triton's compiler writes goes to standard error.

    A configuration that the assembler refuses makes it print a page, also where a tuner goes on with the next one.

    Args:
        path: Gives the candidate's file; asked at each write until a line is known.

    Attributes:
        line: The first line that wrote, 1-based; 0 if none did.

    """

    def __init__(self, path: Callable[[], str]) -> None:
        super().__init__(open(_STDOUT_FD, "wb", closefd=False), encoding="utf-8", errors="replace")  # noqa: SIM115 - lives as long as the process
        self.line = 0
        self._path = path

    def write(self, text: str) -> int:
        """Write text."""
        if _is_compilers(sys._getframe(1).f_code.co_filename):
            return sys.stderr.write(text)
        self.line = self.line or line_in(self._path())
        return super().write(text)

    def told(self) -> JsonObject:
        """Send on what is buffered; the answer's field that names the line, if one wrote."""
        with suppress(OSError, ValueError):  # a candidate may have closed it
            self.flush()
        return {"printed_line": self.line} if self.line else {}


def _is_compilers(path: str) -> bool:
    triton = getattr(sys.modules.get("triton"), "__file__", None)
    return isinstance(triton, str) and path.startswith(f"{triton.removesuffix('__init__.py')}backends{os.sep}")


def line_in(path: str) -> int:
    """The line of a file that is at work in this thread, 1-based; 0 if none is."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != path:
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_lineno if frame is not None else 0
