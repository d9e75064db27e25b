"""A second, equal request where the first is slow to speak; whoever speaks first is heard out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from adaexplore_generator.domain import Prompt, Reply, Sampling
from adaexplore_generator.pricing import most_tokens
from adaexplore_generator.providers.faults import SafeToRetryError


@dataclass
class Attempt:
    """One request that is under way.

    Attributes:
        report: Told of the characters of each piece.
        sent: Set as soon as the request may have reached the endpoint.
        spoke: Set with the first piece of text.

    """

    report: Callable[[int], None]
    sent: bool = False
    spoke: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, chars: int) -> None:
        """Note a piece of the answer."""
        if chars:
            self.spoke.set()
            self.report(chars)


async def first_to_speak(
    ask: Callable[[Attempt], Awaitable[Reply]],
    hedge_after_s: float,
    prompt: Prompt,
    sampling: Sampling,
    received: Callable[[int], None],
) -> Reply:
    """Return the reply of the first request that brings text; a second is sent if the first brings none for so many seconds.

    The one that is left is closed at once. It may have been paid for all the same, so its worst case is part of the usage, unconfirmed.

    Args:
        ask: Makes one request.
        hedge_after_s: Seconds until the second; 0 for never.
        prompt: What is asked.
        sampling: How.
        received: Told of the characters of each piece of the reply.

    """
    if not hedge_after_s:
        return await ask(Attempt(received))
    race = _Race(ask, received)
    try:
        race.start()
        await race.until_spoken(hedge_after_s)
        if not race.spoken:
            race.start()
            await race.until_spoken(None)
        reply, left = await race.result()
    finally:
        await race.close()
    if not left:
        return reply
    worst = most_tokens(prompt) + sampling.max_output_tokens
    return replace(reply, usage=replace(reply.usage, calls=reply.usage.calls + 1, unconfirmed_calls=1, unconfirmed_tokens=worst))


class _Race:
    def __init__(self, ask: Callable[[Attempt], Awaitable[Reply]], received: Callable[[int], None]) -> None:
        self._ask, self._received = ask, received
        self._runners: dict[asyncio.Task[Reply], Attempt] = {}
        self._winner: Attempt | None = None

    @property
    def spoken(self) -> bool:
        """True once one brought text or the only one has ended."""
        return self._winner is not None or all(task.done() for task in self._runners)

    def start(self) -> None:
        """Send one more request."""
        attempt = Attempt(lambda chars: self._heard(attempt, chars))
        self._runners[asyncio.ensure_future(self._ask(attempt))] = attempt

    async def until_spoken(self, limit_s: float | None) -> None:
        """Wait until one brings text, one answers without any, or all have failed."""
        ears = {asyncio.ensure_future(attempt.spoke.wait()) for attempt in self._runners.values()}
        running: set[asyncio.Future[Any]] = {*self._runners, *ears}
        loop = asyncio.get_running_loop()
        end = None if limit_s is None else loop.time() + limit_s
        try:
            while not self._decided:
                left = None if end is None else end - loop.time()
                if left is not None and left <= 0:
                    return
                _, running = await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for ear in ears:
                ear.cancel()

    @property
    def _decided(self) -> bool:
        answered = any(task.done() and not task.cancelled() and task.exception() is None for task in self._runners)
        return answered or self.spoken

    async def result(self) -> tuple[Reply, bool]:
        """Return the reply of the winner, and whether another one was sent and left; raise what the last failure means."""
        heard = [task for task, attempt in self._runners.items() if attempt is self._winner]
        answered = [task for task in self._runners if task.done() and task.exception() is None]
        if not heard and not answered:
            raise self._worst_failure()
        chosen = (heard or answered)[0]
        left = [task for task in self._runners if task is not chosen]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        paid = any(self._runners[task].sent and not _free_of_charge(task) for task in left)
        return await chosen, paid

    async def close(self) -> None:
        """End what still runs."""
        for task in self._runners:
            task.cancel()
        await asyncio.gather(*self._runners, return_exceptions=True)

    def _heard(self, attempt: Attempt, chars: int) -> None:
        self._winner = self._winner or attempt
        if attempt is self._winner:
            self._received(chars)

    def _worst_failure(self) -> BaseException:
        # If something may have been generated by either, the call must not be repeated.
        failures = [task.exception() for task in self._runners]
        graver = [failure for failure in failures if failure is not None and not isinstance(failure, SafeToRetryError)]
        return (graver or [failure for failure in failures if failure is not None])[0]


def _free_of_charge(task: asyncio.Task[Reply]) -> bool:
    return task.done() and not task.cancelled() and isinstance(task.exception(), SafeToRetryError)
