"""Streams of a device that does everything at once: what they compute is right at once, so it is counted who waited for whom.

A stream that was entered has work that nobody else has seen. Waiting for it, or for an event recorded on it, passes on what it has done
and seen. What neither the default stream nor the host has seen when a call returns, the caller would read too early on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from adaexplore_evaluator.runner.errors import RunnerError

Seen = dict[int, int]


class _Fixed(type):
    """Classes of which a file may replace nothing."""

    def __setattr__(cls, name: str, value: object) -> None:
        raise RunnerError(
            "tamper", f"the candidate replaces torch.cuda.{cls.__name__}.{name}; leave torch, Triton and the clocks as they are"
        )


class Timeline:
    """All streams of one device; `default` is the one that callers wait for, `current` the one that work goes to."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.host: Seen = {}
        self.default = self.current = Stream(timeline=self)

    def unseen(self) -> bool:
        """True if some stream has work that neither the default stream, nor the current one, nor the host has waited for."""
        known = merged(merged(self.host, self.default.seen), self.current.done())
        return any(stream.entered > known.get(stream.number, 0) for stream in self.streams if stream is not self.default)

    def synchronize(self, *_: object) -> None:
        """Let the host wait for everything."""
        self.host = {stream.number: stream.entered for stream in self.streams}

    def set_current(self, stream: Stream | None) -> None:
        """Send work to a stream from now on."""
        if stream is not None:
            self.current = stream
            stream.entered += 1

    @contextmanager
    def entered(self, stream: Stream | None) -> Iterator[Stream | None]:
        """Send work to a stream in the body."""
        before = self.current
        self.set_current(stream)
        try:
            yield stream
        finally:
            self.current = before

    def names(self) -> dict[str, Any]:
        """What `torch.cuda` says about streams, by name."""
        timeline = self
        own = {"timeline": timeline}
        return {
            "Stream": type("Stream", (Stream,), own),
            "Event": type("Event", (Event,), own),
            "stream": timeline.entered,
            "set_stream": timeline.set_current,
            "synchronize": timeline.synchronize,
            "current_stream": lambda *_, **__: timeline.current,
            "default_stream": lambda *_, **__: timeline.default,
        }


class Stream(metaclass=_Fixed):
    """One stream.

    Attributes:
        entered: How often it was entered; each time it got work.
        seen: How much of the work of other streams is done before what comes next, by their number.

    """

    cuda_stream = 0
    device = torch.device("cuda", 0)
    timeline: Timeline

    def __init__(self, *_: object, timeline: Timeline | None = None, **__: object) -> None:
        """Take what torch's streams take."""
        if timeline is not None:
            self.timeline = timeline
        self.number = len(self.timeline.streams)
        self.entered = 0
        self.seen: Seen = {}
        self._before: list[Stream] = []
        self.timeline.streams.append(self)

    def __enter__(self) -> Stream:
        self._before.append(self.timeline.current)
        self.timeline.set_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.timeline.current = self._before.pop()

    def done(self) -> Seen:
        """What is done once all work that it has by now is done."""
        return merged(self.seen, {self.number: self.entered})

    def synchronize(self) -> None:
        """Let the host wait for it."""
        self.timeline.host = merged(self.timeline.host, self.done())

    def wait_stream(self, stream: Stream) -> None:
        """Wait for what another stream has by now."""
        self.seen = merged(self.seen, stream.done())

    def wait_event(self, event: Event) -> None:
        """Wait for what an event stands for."""
        self.seen = merged(self.seen, event.stands_for)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that stands for what it has by now."""
        found = event or Event(timeline=self.timeline)
        found.record(self)
        return found

    def query(self) -> bool:
        """Everything is done, and the host knows."""
        self.synchronize()
        return True


class Event(metaclass=_Fixed):
    """An event; `stands_for` is what is done when it has happened."""

    timeline: Timeline

    def __init__(self, *_: object, timeline: Timeline | None = None, **__: object) -> None:
        """Take what torch's events take."""
        if timeline is not None:
            self.timeline = timeline
        self.stands_for: Seen = {}

    def record(self, stream: Stream | None = None) -> None:
        """Stand for what a stream has by now."""
        self.stands_for = (stream or self.timeline.current).done()

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for it."""
        (stream or self.timeline.current).wait_event(self)

    def synchronize(self) -> None:
        """Let the host wait for it."""
        self.timeline.host = merged(self.timeline.host, self.stands_for)

    def query(self) -> bool:
        """It has happened, and the host knows."""
        self.synchronize()
        return True

    def elapsed_time(self, end_event: object) -> float:
        """No time passes on this device."""
        return 0.0


def merged(left: Mapping[int, int], right: Mapping[int, int]) -> Seen:
    """The later of both, by stream."""
    return {number: max(left.get(number, 0), right.get(number, 0)) for number in {**left, **right}}
