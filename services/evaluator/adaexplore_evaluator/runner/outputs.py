"""Whether the outputs of one call survive the next: the caller owns them, so no later call may write to their memory."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from adaexplore_evaluator.runner.errors import RunnerError

# Earlier outputs are kept alive up to this size, the latest always: buffers that are used in turn show after a few calls.
KEPT_BYTES = 128 << 20
_WORDS_AT_ONCE = 1 << 26
_MESSAGE = "outputs of an earlier call were overwritten by a later one; allocate the output in forward"


@dataclass(frozen=True)
class _Kept:
    tensor: torch.Tensor
    digest: bytes


class EarlierOutputs:
    """Keeps the outputs of earlier calls alive and looks at them after each new one."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._calls: deque[list[_Kept]] = deque()

    def demand_untouched(self, outputs: Sequence[torch.Tensor], lasting: Sequence[torch.Tensor]) -> None:
        """Check that a new call left earlier outputs alone, and keep its own but those in the memory of its inputs and state, `lasting`.

        An earlier output that is returned again as it was has lost nothing; whether it is right, its numbers tell.

        Raises:
            RunnerError: Earlier outputs have changed.

        """
        shared = {_address(tensor) for tensor in lasting}
        if any(digest(item.tensor) != item.digest for call in self._calls for item in call):
            raise RunnerError("memory", _MESSAGE)
        new = [tensor.detach() for tensor in outputs if tensor.numel() and _address(tensor) not in shared]
        self._calls.append([_Kept(tensor, digest(tensor)) for tensor in new])
        while len(self._calls) > 1 and self._size_bytes() > self._kept_bytes:
            self._calls.popleft()

    def forget(self) -> None:
        """Let go of everything."""
        self._calls.clear()

    def _size_bytes(self) -> int:
        return sum(item.tensor.untyped_storage().nbytes() for call in self._calls for item in call)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def digest(tensor: torch.Tensor) -> bytes:
    """A short summary of a tensor's bytes."""
    if tensor.is_cuda:
        return _digest_on_gpu(tensor)
    return hashlib.blake2b(_raw(tensor).numpy().data, digest_size=16).digest()


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's values; a view that is conjugate or negative only by a mark has none of its own."""
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _digest_on_gpu(tensor: torch.Tensor) -> bytes:
    """A sum of its words, each weighted by its place; the host never sees them."""
    raw = _raw(tensor)
    if raw.storage_offset() % 4:  # words cannot be seen from there
        raw = raw.clone()
    whole = raw.numel() // 4 * 4
    words = raw[:whole].view(torch.int32)
    total = 0
    for start in range(0, words.numel(), _WORDS_AT_ONCE):
        part = words[start : start + _WORDS_AT_ONCE].to(torch.int64)
        weights = torch.arange(start + 1, start + 1 + part.numel(), device=part.device).bitwise_and_(0xFFFFF)
        total += int((part * weights).sum())
    return hashlib.blake2b(f"{total}".encode() + bytes(raw[whole:].tolist()), digest_size=16).digest()
