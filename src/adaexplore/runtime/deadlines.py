"""Deadlines: every call has one, and passes on what is left of it."""

from __future__ import annotations

import grpc


def remaining_s(context: grpc.aio.ServicerContext[object, object], longest_s: float) -> float:
    """Return the seconds a call may still take: its own deadline, cut to `longest_s`, which also serves where it has none."""
    own: float | None = context.time_remaining()
    return longest_s if own is None else max(0.0, min(own, longest_s))
