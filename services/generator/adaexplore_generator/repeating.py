"""Repeats what may be repeated, as the library stamina does, which takes part only once something has failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina

ResultT = TypeVar("ResultT")


async def repeating(
    call: Callable[[], Awaitable[ResultT]],
    *,
    on: type[Exception] | Callable[[Exception], bool | float],
    attempts: int | None,
    timeout_s: float | None = None,
) -> ResultT:
    """Return what a call returns, or raise what its last attempt raises.

    To set stamina up takes longer than to store a reply, so an attempt that goes well, as nearly all first ones do, does without it.

    Args:
        call: Makes one attempt.
        on: What is repeated: a kind of error, or what stamina asks about each, which answers with seconds to wait, too.
        attempts: Most attempts; None for no limit.
        timeout_s: Longest time of all of them after the first, in seconds; None for no limit.

    """
    failure: Exception | None = None
    try:
        return await call()
    except Exception as error:
        failure = error
    async for attempt in stamina.retry_context(on=on, attempts=attempts, timeout=timeout_s):
        with attempt:
            if failure is not None:
                first, failure = failure, None
                raise first
            return await call()
    raise AssertionError("the last attempt returns or raises")
