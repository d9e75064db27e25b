"""Tells waiting coroutines of this process that something was written."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes everyone who listened before it rang."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake all listeners."""
        self._rung.set()
        self._rung = asyncio.Event()

    def listen(self) -> asyncio.Event:
        """Return an event that the next ring sets; take it before reading what the ring would announce."""
        return self._rung
