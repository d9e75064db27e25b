"""Finds compute-sanitizer on this host; neither torch nor a task is imported here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOLS: Final = ("memcheck", "racecheck", "initcheck", "synccheck")
MISSING: Final = (
    "compute-sanitizer is not found on the evaluator's host; install the CUDA toolkit (on PATH or in /usr/local/cuda/bin) "
    "or `pip install nvidia-cuda-sanitizer-api` into the evaluator's environment"
)
_NAME: Final = "compute-sanitizer"
_COLLECTION: Final = "libsanitizer-collection.so"
_PROBE_S: Final = 20.0


@dataclass(frozen=True)
class Sanitizer:
    """An installed compute-sanitizer.

    Attributes:
        program: Its absolute path.
        root: Folder that holds it and its libraries.

    """

    program: Path
    root: Path

    def argv(self, tool: str, log: Path) -> list[str]:
        """Command line up to the program to be looked at, whose log goes to a file."""
        beside = self.root / "lib"
        injection = ["--injection-path", str(beside)] if (beside / _COLLECTION).is_file() else []
        options = ["--tool", tool, "--log-file", str(log), "--target-processes", "application-only", "--print-limit", "100"]
        return [str(self.program), *injection, *options, *(["--report-api-errors", "no"] if tool == "memcheck" else [])]

    def version(self) -> str:
        """What it says of its version; empty if it does not run."""
        try:
            done = subprocess.run([str(self.program), "--version"], capture_output=True, text=True, timeout=_PROBE_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = re.search(r"Version (\d[\w.]*)", done.stdout)
        return found[1] if found else ""


def find_sanitizer() -> Sanitizer | None:
    """The first compute-sanitizer of PATH, the toolkit's usual place and the packages of this interpreter; None if there is none."""
    for place in _places():
        if place.is_file() and os.access(place, os.X_OK):
            program = place.resolve()
            return Sanitizer(program, program.parent.parent)
    return None


def _places() -> Iterator[Path]:
    on_path = shutil.which(_NAME)
    if on_path:
        yield Path(on_path)
    yield Path("/usr/local/cuda/bin", _NAME)
    packages = Path(sysconfig.get_paths()["purelib"], "nvidia")
    yield from sorted(packages.glob(f"*/bin/{_NAME}"), reverse=True)
