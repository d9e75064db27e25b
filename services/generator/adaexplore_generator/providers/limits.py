"""How much one provider is asked: calls at once, requests and tokens in a minute, and what it says of its own limits."""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# A minute and a second: a request may be under way for longer than one that follows a minute later, and the provider counts arrivals.
_WINDOW_S = 61.0
_RECENT = 64
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Limits:
    """Most calls at once, and most requests and tokens in any minute; 0 for no limit in a minute."""

    concurrency: int = 64
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


class WaitTooLongError(Exception):
    """The provider asked to be left alone for longer than a caller waits.

    Args:
        wait_s: How much longer, in seconds.

    """

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"{wait_s:g} s")
        self.wait_s = wait_s


@dataclass
class Slot:
    """One call that is under way.

    Attributes:
        entry: What it takes of the last minute.
        round: Number of slow-downs that the provider had asked for when the call began.

    """

    entry: list[float]
    round: int

    def used(self, tokens: int) -> None:
        """Correct the estimate: the call took so many tokens."""
        self.entry[1] = tokens


@dataclass
class _Minute:
    """What was asked in the last minute: instant and tokens of each request.

    Every request of the last minute is known, rather than a level that drains, so that no minute, wherever it begins, has more than the
    limit, and bursts are still possible.
    """

    limits: Limits
    entries: deque[list[float]] = field(default_factory=deque)

    def wait_s(self, now: float, tokens: int) -> float:
        """Return the seconds until a request of so many tokens fits; one above the whole limit fits once the minute is empty."""
        while self.entries and self.entries[0][0] <= now - _WINDOW_S:
            self.entries.popleft()
        until, limits = now, self.limits
        if limits.requests_per_minute and len(self.entries) >= limits.requests_per_minute:
            until = self.entries[len(self.entries) - limits.requests_per_minute][0] + _WINDOW_S
        if limits.tokens_per_minute:
            held = sum(entry[1] for entry in self.entries)
            for instant, taken in self.entries:
                if held + tokens <= limits.tokens_per_minute:
                    break
                held -= taken
                until = max(until, instant + _WINDOW_S)
        return until - now

    def take(self, now: float, tokens: int) -> list[float]:
        entry = [now, float(tokens)]
        if self.limits.requests_per_minute or self.limits.tokens_per_minute:
            self.entries.append(entry)
        return entry


class PromptCount:
    """Expects of a prompt what the provider counted for prompts of late, where that is more than our own estimate.

    What is under way counts as expected until its usage comes. A provider that counts more, say for roles and tools around the text, would
    have as much above its limit as all calls at once take more than was expected.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)

    def learn(self, estimated: int, counted: int) -> None:
        """Note what the provider counted for a prompt that was estimated so."""
        self._recent.append((max(1, estimated), counted))

    def expected(self, estimated: int) -> int:
        """Return what a prompt that is estimated so may take; more is added in tokens or by a factor, whichever is less."""
        most = max((min(counted - own + estimated, counted * estimated / own) for own, counted in self._recent), default=0.0)
        return max(estimated, math.ceil(most))


class Limiter:
    """Admits the calls of one provider, first come, first served.

    The number of calls at once halves, but not below one, when the provider asks to slow down, and grows by one for each round of calls
    that went well.

    Args:
        limits: The limits.
        clock: Returns seconds that never go back.
        sleep: Waits for so many seconds.

    """

    def __init__(self, limits: Limits, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> None:
        self._limits, self._clock, self._sleep = limits, clock, sleep
        self._minute = _Minute(limits)
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._allowed, self._active = float(limits.concurrency), 0
        self._paused_until, self._round = clock(), 0

    @property
    def concurrency(self) -> int:
        """Calls at once that are allowed now."""
        return int(self._allowed)

    @asynccontextmanager
    async def slot(self, tokens: int, longest_wait_s: float) -> AsyncIterator[Slot]:
        """Wait for a place and hold it.

        Args:
            tokens: What the call may take.
            longest_wait_s: Longest wait, in seconds, that the provider may ask for; our own limits are waited for.

        Raises:
            WaitTooLongError: The provider asked for a longer one.

        """
        async with self._turn:
            while (wait_s := self._wait_s(tokens, longest_wait_s)) is None or wait_s > 0:
                await self._pause(wait_s)
            slot = Slot(self._minute.take(self._clock(), tokens), self._round)
            self._active += 1
        try:
            yield slot
        finally:
            self._active -= 1
            self._changed.set()

    def went_well(self) -> None:
        """Note that a call was answered: more may be made at once."""
        self._allowed = min(float(self._limits.concurrency), self._allowed + 1.0 / self._allowed)

    def slow_down(self, slot: Slot, wait_s: float | None) -> None:
        """Note that the provider asked a call to slow down, and for how many seconds to leave it alone, if it said so.

        Calls that were under way at the same time are told the same thing; it counts once.
        """
        if slot.round == self._round:
            self._round += 1
            self._allowed = max(1.0, min(self._allowed, float(self._active)) / 2)
        self.leave_alone(wait_s or 0.0)

    def leave_alone(self, wait_s: float) -> None:
        """Let no call begin for so many seconds."""
        self._paused_until = max(self._paused_until, self._clock() + wait_s)

    def _wait_s(self, tokens: int, longest_wait_s: float) -> float | None:
        now = self._clock()
        asked = self._paused_until - now
        if asked > longest_wait_s:
            raise WaitTooLongError(asked)
        if self._active >= int(self._allowed):
            return None
        return max(asked, self._minute.wait_s(now, tokens))

    async def _pause(self, wait_s: float | None) -> None:
        """Wait so long, or until a call has ended, which may have taken less than it might."""
        self._changed.clear()
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if wait_s is not None:
            waits.append(asyncio.ensure_future(self._sleep(wait_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def said_wait_s(headers: Mapping[str, str], tokens: int, now: datetime) -> float:
    """Return the seconds until another call of so many tokens fits, as far as the headers of an answer say; 0 if it fits or they do not.

    They are `x-ratelimit-…` of OpenAI and those that copy it, with durations, and `anthropic-ratelimit-…`, with instants.
    """
    requests = _kind_wait_s(headers, "requests", 1, now)
    return max(requests, _kind_wait_s(headers, "tokens", tokens, now))


def _kind_wait_s(headers: Mapping[str, str], kind: str, need: int, now: datetime) -> float:
    for limit, remaining, reset in (
        (f"x-ratelimit-limit-{kind}", f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
        (f"anthropic-ratelimit-{kind}-limit", f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset"),
    ):
        left = headers.get(remaining, "")
        if left.isdecimal() and int(left) < need and (reset_s := _seconds(headers.get(reset, ""), now)) is not None:
            full = headers.get(limit, "")
            # The reset is when the whole limit is back, and it comes back evenly.
            share = (need - int(left)) / (int(full) - int(left)) if full.isdecimal() and int(full) > int(left) else 1.0
            return min(1.0, share) * reset_s
    return 0.0


def _seconds(text: str, now: datetime) -> float | None:
    """Return the seconds that `6m0s`, `12ms`, `1.5` or an instant of RFC 3339 stand for; None for anything else."""
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError):
        instant = datetime.fromisoformat(text)
        return max(0.0, (instant - now).total_seconds()) if instant.tzinfo else None
    return None
