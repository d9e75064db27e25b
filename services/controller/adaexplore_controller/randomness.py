"""Random choices without a state: each depends on nothing but (seed, step, purpose), so a resumed search repeats them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def seed_for(seed: int, step: int, purpose: str) -> int:
    """Return an unsigned 64-bit seed for one purpose in one step."""
    digest = hashlib.sha256(f"{seed}/{step}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def uniform(seed: int, step: int, purpose: str) -> float:
    """Return a number in [0, 1)."""
    return (seed_for(seed, step, purpose) >> 11) / 2**53


def sample(items: Sequence[T], count: int, *, seed: int, step: int, purpose: str) -> tuple[T, ...]:
    """Return `count` distinct positions of `items` (all if there are fewer), in their original order."""
    ranked = sorted(range(len(items)), key=lambda index: seed_for(seed, step, f"{purpose}/{index}"))
    return tuple(items[index] for index in sorted(ranked[:count]))
