"""Memory of this process in place of a GPU's: handles name addresses, and the cpu computes."""

import ctypes
import types

import pytest
import torch
from adaexplore_evaluator.referee.cuda import segments
from adaexplore_evaluator.runner.cuda import guards, memory

ALLOCATION_BYTES = 1 << 12


@pytest.fixture
def host_memory(monkeypatch):
    """Lets both sides of the protocol share this process's own memory."""

    def on_host(make):
        def made(*args, **kwargs):
            return make(*args, **{**kwargs, "device": "cpu"})

        return made

    monkeypatch.setattr(memory, "_CUDA", torch.device("cpu"))
    monkeypatch.setattr(guards, "_CUDA", torch.device("cpu"))
    monkeypatch.setattr(guards, "viewed", _viewed)
    monkeypatch.setattr(memory, "_on_gpu", lambda tensor: tensor)
    monkeypatch.setattr(memory, "allocation_of", lambda pointer: (pointer, ALLOCATION_BYTES))
    monkeypatch.setattr(memory, "exported", lambda base: base.to_bytes(64, "little").hex())
    monkeypatch.setattr(segments, "opened", lambda handle: int.from_bytes(bytes.fromhex(handle), "little"))
    monkeypatch.setattr(segments, "allocation_of", lambda base: (base, ALLOCATION_BYTES))
    monkeypatch.setattr(segments, "closed", lambda base: None)
    monkeypatch.setattr(
        segments, "_bytes_at", lambda at, size: torch.frombuffer((ctypes.c_uint8 * size).from_address(at), dtype=torch.uint8)
    )
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: types.SimpleNamespace(synchronize=lambda: None))
    for name in ("empty", "empty_strided"):
        monkeypatch.setattr(segments.torch, name, on_host(getattr(torch, name)))


def _viewed(zone):
    size, address = zone.__cuda_array_interface__["shape"][0], zone.__cuda_array_interface__["data"][0]
    memory = (ctypes.c_uint8 * size).from_address(address)
    memory.zone = zone
    return torch.frombuffer(memory, dtype=torch.uint8)
