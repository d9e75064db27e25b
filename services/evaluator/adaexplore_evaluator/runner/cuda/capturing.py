"""Capturing calls in a CUDA graph so that a capture that fails leaves no trace in torch."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

# What private names and states of torch raise where a version has them not, or has put them in order itself.
_ABSENT = (RuntimeError, AttributeError, TypeError)


@contextmanager
def captured(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Capture the body; what it raises passes, as does what the end of the capture raises.

    A capture that was broken off leaves torch on the capture's stream, its allocator as if it still recorded, and its default generator
    unable to draw; plain calls in the same process would meet all three.
    """
    stream, pool = torch.cuda.current_stream(), torch.cuda.graph_pool_handle()
    try:
        with _collector_paused(), torch.cuda.graph(graph, pool=pool):
            yield
    except BaseException:
        torch.cuda.set_stream(stream)
        _end_recording(pool)
        _renew_generator()
        raise


def _end_recording(pool: tuple[int, int]) -> None:
    device = torch.cuda.current_device()
    with suppress(*_ABSENT):  # refused where the capture has ended it, and then the graph releases the pool
        torch._C._cuda_endAllocateToPool(device, pool)
        torch._C._cuda_releasePool(device, pool)


def _renew_generator() -> None:
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    with suppress(*_ABSENT):
        generator.graphsafe_set_state(generator.clone_state())


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A tensor that the collector frees during a capture would break it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
