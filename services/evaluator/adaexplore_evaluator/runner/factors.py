"""Notes matrix decompositions, so that outputs whose signs and order are free are told from all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_KINDS: Final = {
    "aten::_linalg_svd": "svd",
    "aten::linalg_eig": "eig",
    "aten::_linalg_eigh": "eigh",
    "aten::linalg_qr": "qr",
}


class FactorRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the factors of every decomposition that runs within it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found: list[tuple[str, list[torch.Tensor]]] = []

    def __torch_dispatch__(
        self, func: Callable[..., object], types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        kind = _KINDS.get(str(getattr(func, "_schema", "")).partition("(")[0].partition(".")[0])
        if kind is not None and isinstance(result, tuple):
            self._found.append((kind, list(result)))
        return result

    def kind_of(self, outputs: Sequence[torch.Tensor]) -> str:
        """The decomposition whose factors the outputs are, all of them and in its order; empty if they are something else."""
        for kind, factors in self._found:
            if len(factors) == len(outputs) and all(_is(*pair) for pair in zip(factors, outputs, strict=True)):
                return kind
        return ""


def _is(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.data_ptr() == right.data_ptr() and left.shape == right.shape
