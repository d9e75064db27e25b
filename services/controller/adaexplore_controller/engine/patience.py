"""Waiting for a service that is out of reach, and giving up on one that refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from adaexplore.runtime.errors import (
    CancelledByCallerError,
    DeadlineError,
    ResourceExhaustedError,
    ServiceError,
    UnauthenticatedError,
    UnavailableError,
)

ResultT = TypeVar("ResultT")
Sleep = Callable[[float], Awaitable[None]]
Waiting = Callable[[str], Awaitable[None]]

# A peer that is stopped breaks its streams off as cancelled; the caller's own cancellation never arrives as an error. While tokens are
# exchanged a peer may know the new one sooner or later than we do.
_PASSING = (UnavailableError, DeadlineError, ResourceExhaustedError, CancelledByCallerError, UnauthenticatedError)
# The message would be as large the next time, and a token that was never set does not appear.
_LASTING = frozenset({"MESSAGE_TOO_LARGE", "TOKEN_MISSING"})
# The generator has tried again by itself before it says so.
_BEHIND_THE_PEER = frozenset({"PROVIDER_UNREACHABLE", "PROVIDER_PROTOCOL"})


class PeerFailedError(Exception):
    """A service refused a call or stayed out of reach; the message is one line with the reason.

    Args:
        service: Short name of the service.
        error: What it said last.

    """

    def __init__(self, service: str, error: ServiceError) -> None:
        reason = error.reason or error.code.name
        details = "".join(f"; {violation.field}: {violation.description}" for violation in error.violations)
        super().__init__(" ".join(f"{service}: {reason}: {error.message}{details}".split()))
        self.service = service
        self.error = error


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds, all waits of one call added up.

    `outage_s` holds for a service, `provider_s` for a model provider behind the generator; a call may run into its deadline
    `most_deadlines` times.
    """

    outage_s: float = 120.0
    provider_s: float = 20.0
    most_deadlines: int = 3
    first_wait_s: float = 0.2
    longest_wait_s: float = 5.0


class Patient:
    """Repeats calls that failed for a passing reason.

    Args:
        patience: How long.
        sleep: Sleeps for seconds.

    """

    def __init__(self, patience: Patience, sleep: Sleep) -> None:
        self._patience, self._sleep = patience, sleep

    async def call(self, service: str, operation: Callable[[], Awaitable[ResultT]], waiting: Waiting | None = None) -> ResultT:
        """Return what the operation returns; `waiting` hears the first time that it has to be waited for.

        Raises:
            PeerFailedError: The service refused, or the patience is at its end.

        """
        waited_s, wait_s, deadlines = 0.0, self._patience.first_wait_s, 0
        while True:
            try:
                return await operation()
            except ServiceError as error:
                deadlines += isinstance(error, DeadlineError)
                limit_s = self._patience.provider_s if error.reason in _BEHIND_THE_PEER else self._patience.outage_s
                over = waited_s >= limit_s or deadlines >= self._patience.most_deadlines
                if over or not isinstance(error, _PASSING) or error.reason in _LASTING:
                    raise PeerFailedError(service, error) from error
                if waiting and waited_s == 0:
                    await waiting(f"waiting for the {service}: {error.reason or error.code.name}")
                pause_s = min(max(wait_s, error.retry_after_s or 0.0), max(limit_s - waited_s, self._patience.first_wait_s))
            await self._sleep(pause_s)
            waited_s += pause_s
            wait_s = min(2 * wait_s, self._patience.longest_wait_s)
