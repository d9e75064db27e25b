"""What a runner does in a timed round: calls of its subject over many slots of inputs, captured as graphs or launched plainly.

The clock is the referee's; nothing here measures time but the profiler's spans, which are detail.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from adaexplore_evaluator.runner.arguments import call_with
from adaexplore_evaluator.runner.cuda.capturing import captured
from adaexplore_evaluator.runner.cuda.driver import Capture
from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers
from adaexplore_evaluator.runner.errors import ContractError, clean
from adaexplore_evaluator.runner.wire import tensors_of

Fields = dict[str, Any]
Subject = Callable[..., Any]
Calling = Callable[[], Any]
# Bound before a candidate can replace it.
_SYNCHRONIZE = torch.cuda.synchronize
_WARM_UP_CALLS = 3
_MOST_NAMES = 64


class Rounds:
    """Rounds of one subject.

    Args:
        buffers: Where slots come from and outputs go to.
        calling: Gives a context in which the subject may be called.

    """

    def __init__(self, buffers: DeviceBuffers, calling: Calling) -> None:
        self._buffers = buffers
        self._calling = calling
        self._subject: Subject | None = None
        self._slots: list[Any] = []
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self._kept: list[torch.Tensor] = []
        self._outputs: list[Any] = []
        self._named: frozenset[str] = frozenset()

    def commands(self) -> dict[str, Callable[[Fields], Fields]]:
        """Handlers by command name."""
        timed = (self.open_rounds, self.capture, self.capture_flushes, self.replay, self.plain, self.plain_outputs)
        found = (*timed, self.start_tracer, self.spans)
        return {self.close_rounds.__name__: self.close_rounds} | {handler.__name__: handler for handler in found}

    def bind(self, subject: Subject) -> None:
        """Say what is called."""
        self._subject = subject

    def open_rounds(self, fields: Fields) -> Fields:
        """Take slots of arguments and call the subject a few times on the first, so that all is compiled and allocated."""
        self.close_rounds({})
        slots = self._buffers.decode(fields["slots"])
        self._slots = list(slots) if isinstance(slots, list) else []
        with self._calling():
            for number in range(_WARM_UP_CALLS):
                self._call(number % len(self._slots))
            _wait()
        return {}

    def capture(self, fields: Fields) -> Fields:
        """Capture the calls of slots `first` to `first + count` as one graph of so many nodes; says why not if that is impossible.

        Each slot is called `times` times in a row; before each call `flush_bytes` bytes are written, which empties the caches.
        """
        first, count, times = int(fields["first"]), int(fields["count"]), int(fields.get("times", 1))
        flush = [_bytes(int(fields["flush_bytes"]))] if fields.get("flush_bytes") else []
        graph = torch.cuda.CUDAGraph()
        try:
            with self._calling(), captured(graph):
                capture = Capture(torch.cuda.current_stream().cuda_stream)
                outputs = []
                for number in range(first, first + count):
                    outputs += [self._flushed_call(number, flush) for _ in range(times)]
                    capture.join()
                nodes = capture.nodes()
        except Exception as error:  # whatever a capture refuses, plain launches may still do
            with self._calling():
                torch.cuda.synchronize()
            return {"captured": False, "reason": clean(f"{type(error).__name__}: {error}", 300)}
        self._kept += flush
        self._graphs.append(graph)
        return {"captured": True, "nodes": nodes, "outputs": self._buffers.encode(outputs)}

    def capture_flushes(self, fields: Fields) -> Fields:
        """Capture `count` times the flush of `flush_bytes` bytes alone."""
        flush, graph = _bytes(int(fields["flush_bytes"])), torch.cuda.CUDAGraph()
        with self._calling(), captured(graph):
            for _ in range(int(fields["count"])):
                flush.zero_()
        self._kept.append(flush)
        self._graphs.append(graph)
        return {}

    def replay(self, fields: Fields) -> Fields:
        """Replay captured graphs by number, in order, and wait for them."""
        with self._calling():
            for number in fields["graphs"]:
                self._graphs[int(number)].replay()
            _wait()
        return {}

    def plain(self, fields: Fields) -> Fields:
        """Call the subject on slots `first` to `first + count`, wait, and say where each output's tensors lie."""
        first, count = int(fields["first"]), int(fields["count"])
        self._forget_outputs()
        with self._calling():
            for number in range(first, first + count):
                self._outputs.append(self._call(number))
            _wait()
        return {"pointers": [[tensor.data_ptr() for tensor in tensors_of(output)] for output in self._outputs]}

    def plain_outputs(self, _fields: Fields) -> Fields:
        """The outputs of the last plain round."""
        before = self._buffers.names()
        tree = self._buffers.encode(self._outputs)
        self._named = self._buffers.names() - before
        return {"outputs": tree}

    def start_tracer(self, _fields: Fields) -> Fields:
        """Trace nothing: the first trace of a process takes seconds, and what runs after it takes a little longer."""
        with self._calling(), profile(activities=[ProfilerActivity.CUDA]):
            _wait()
        return {}

    def spans(self, fields: Fields) -> Fields:
        """Kernels of one replay, or of plain calls where nothing is captured, as CUPTI sees them: time by name, first start to last end."""
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            if fields.get("graphs"):
                self.replay(fields)
            else:
                self.plain(fields)
                self._forget_outputs()
        by_name: dict[str, list[float]] = {}
        starts_ns, ends_ns = [0], [0]
        for name, start_ns, end_ns in _device_events(profiler):
            times = by_name.setdefault(name, [0.0, 0.0])
            times[0] += 1
            times[1] += 1e-3 * (end_ns - start_ns)
            starts_ns.append(start_ns)
            ends_ns.append(end_ns)
        largest = sorted(by_name.items(), key=lambda item: -item[1][1])[:_MOST_NAMES]
        span_us = 1e-3 * (max(ends_ns) - min(starts_ns[1:], default=0))
        return {"span_us": span_us, "kernels": [{"name": clean(name, 200), "count": int(n), "total_us": us} for name, (n, us) in largest]}

    def close_rounds(self, _fields: Fields) -> Fields:
        """Give back graphs, slots and outputs."""
        self._slots, self._graphs, self._kept = [], [], []
        self._forget_outputs()
        gc.collect()
        torch.cuda.empty_cache()
        return {}

    def _forget_outputs(self) -> None:
        self._outputs = []
        self._buffers.drop(self._named)
        self._named = frozenset()

    def _flushed_call(self, number: int, flush: list[torch.Tensor]) -> Any:
        for memory in flush:
            memory.zero_()
        return self._call(number)

    def _call(self, number: int) -> Any:
        if self._subject is None:
            raise ContractError("nothing to call is bound yet")
        return call_with(self._subject, self._slots[number])


def _device_events(profiler: profile) -> list[tuple[str, int, int]]:
    """Name, start and end in nanoseconds of what ran on the GPU.

    As the tracer gives them: torch's own list of events takes seconds to build for a few thousand.
    """
    inner = getattr(profiler, "profiler", None)
    results = getattr(inner, "kineto_results", None)
    if results is None:
        return []
    events = [event for event in results.events() if event.device_type() == DeviceType.CUDA]
    return [(event.name(), event.start_ns(), event.start_ns() + event.duration_ns()) for event in events]


def _bytes(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def _wait() -> None:
    """Wait for all streams; in the same context as the calls, so that a fault of theirs is told as one."""
    _SYNCHRONIZE()
