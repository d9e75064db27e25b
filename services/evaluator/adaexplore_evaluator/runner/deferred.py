"""Keeps torch's compiler out of a process that only needs one decorator of it; importing it whole costs two seconds of CPU."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_NAME = "torch._dynamo"


class _StandIn(ModuleType):
    """Answers `disable`, which torch's meta kernels call, and becomes the real module for whoever asks for more."""

    def disable(self, function: Callable[..., Any], recursive: bool = True, wrapping: bool = True) -> Callable[..., Any]:
        """The function itself: nothing is compiled here."""
        return function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        return getattr(importlib.import_module(_NAME), name)


def defer_dynamo() -> None:
    """Put a stand-in in the place of `torch._dynamo`, unless it has been imported already."""
    if _NAME not in sys.modules:
        sys.modules[_NAME] = _StandIn(_NAME)
