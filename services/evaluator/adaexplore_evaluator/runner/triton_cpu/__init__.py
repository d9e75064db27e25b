"""Triton without a GPU: launches of ordinary host code are compiled for a real target and interpreted with a corrected interpreter.

    with TritonSession(mode="judge", target="sm_90", order_seed=7) as session:
        model(x)                      # every kernel[grid](…) inside is compiled for sm_90, then interpreted on CPU memory
    session.launches, session.violations

One import of triton, no environment variable. Only launches inside of the `with` block are affected; sessions do not nest.
"""

from __future__ import annotations

from .compiling import CompileCache, compile_snippet
from .model import (
    CompiledSnippet,
    KernelCompileError,
    Launch,
    LaunchRefused,
    Mode,
    NotInterpretable,
    Resources,
    TooSlow,
    Traffic,
    Violation,
)
from .session import TritonSession
from .targets import TARGETS, Target, find_target
from .tuning import Tuning, TuningMemory

__all__ = [
    "TARGETS",
    "CompileCache",
    "CompiledSnippet",
    "KernelCompileError",
    "Launch",
    "LaunchRefused",
    "Mode",
    "NotInterpretable",
    "Resources",
    "Target",
    "TooSlow",
    "Traffic",
    "TritonSession",
    "Tuning",
    "TuningMemory",
    "Violation",
    "compile_snippet",
    "find_target",
]
