"""The few calls of the CUDA driver that share memory between processes; both sides of the protocol use them.

The runtime's own way of sharing needs a folder of shared memory that both processes see; handles of the driver pass through a pipe.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache

HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1
_REPLACE = 1


class CudaDriverError(Exception):
    """The driver refused a call; the message names call and code."""


# A driver without a call, or no driver.
_UNKNOWN = (CudaDriverError, AttributeError, OSError)


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_byte * HANDLE_BYTES)]


def allocation_of(pointer: int) -> tuple[int, int]:
    """Base address and size in bytes of the allocation that holds a device address."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    _call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(pointer))
    return base.value, size.value


def exported(base: int) -> str:
    """Handle, as hex, of the allocation at a base address."""
    handle = _Handle()
    _call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(base))
    return bytes(handle).hex()


def opened(handle: str) -> int:
    """Base address in this process of another process's allocation; `closed` ends it."""
    base = ctypes.c_uint64()
    raw = bytes.fromhex(handle)
    if len(raw) != HANDLE_BYTES:
        raise CudaDriverError("a handle of device memory has another length")
    _call("cuIpcOpenMemHandle_v2", ctypes.byref(base), _Handle.from_buffer_copy(raw), ctypes.c_uint(_LAZY_PEER_ACCESS))
    return base.value


def closed(base: int) -> None:
    """End the mapping that `opened` made."""
    _call("cuIpcCloseMemHandle", ctypes.c_uint64(base))


def reset_persisting_lines() -> None:
    """Let every cache line that was made to persist be evicted as any other; nothing where the GPU knows no such lines."""
    with suppress(CudaDriverError):
        _call("cuCtxResetPersistingL2Cache")


class Capture:
    """What a stream is capturing, as the driver tells it; everything is left alone, and unknown, where the driver does not.

    Args:
        stream: The stream's handle.

    """

    def __init__(self, stream: int) -> None:
        self._stream = ctypes.c_void_p(stream)

    def nodes(self) -> int:
        """Nodes of the graph so far; 0 if nothing is captured."""
        found = ctypes.c_size_t()
        with suppress(*_UNKNOWN):
            graph, _dependencies, _number = self._state()
            if graph.value:
                _call("cuGraphGetNodes", graph, None, ctypes.byref(found))
        return found.value

    def join(self) -> None:
        """Let what follows depend on one empty node in place of all that the stream has waited for.

        A stream that waits for others in every call keeps all of them as its dependencies: without a node between, thousands of such
        calls make a graph of millions of edges.
        """
        with suppress(*_UNKNOWN):
            graph, dependencies, number = self._state()
            if graph.value and number.value > 1:
                node = ctypes.c_void_p()
                _call("cuGraphAddEmptyNode", ctypes.byref(node), graph, dependencies, number)
                _call("cuStreamUpdateCaptureDependencies", self._stream, ctypes.byref(node), ctypes.c_size_t(1), ctypes.c_uint(_REPLACE))

    def _state(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]:
        status, identity = ctypes.c_int(), ctypes.c_uint64()
        graph, dependencies, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        found = (status, identity, graph, dependencies, number)
        _call("cuStreamGetCaptureInfo_v2", self._stream, *map(ctypes.byref, found))
        return graph, dependencies, number


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: object) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code:
        raise CudaDriverError(f"{name} failed with code {code}")
