"""Guard zones around a candidate's memory, on this process's own memory in place of a GPU's."""

import ctypes
import gc

import pytest
import torch
from adaexplore_evaluator.runner.cuda.guards import ZONE_BYTES, Guards
from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers
from adaexplore_evaluator.runner.recording import JudgeMode
from adaexplore_evaluator.runner.wire import decode_with, encode_types

pytestmark = pytest.mark.usefixtures("host_memory")


def around(tensor, first, count):
    """Bytes from `first`, counted from the tensor's start, which may lie outside of it."""
    return torch.frombuffer((ctypes.c_uint8 * count).from_address(tensor.data_ptr() + first), dtype=torch.uint8)


@pytest.fixture
def guards():
    return Guards()


@pytest.mark.parametrize(("shape", "dtype"), [((5, 3), torch.float32), ((), torch.int64), ((7,), torch.bfloat16)])
def test_guarded_memory_looks_like_any_other(guards, shape, dtype):
    plain = torch.empty(shape, dtype=dtype)
    found = guards.guarded(plain)
    assert found.data_ptr() != plain.data_ptr()
    assert (found.shape, found.stride(), found.dtype, found.storage_offset()) == (plain.shape, plain.stride(), dtype, 0)
    assert found.untyped_storage().nbytes() == plain.untyped_storage().nbytes()
    found.fill_(1)
    assert guards.broken() == []


def test_a_write_beyond_the_end_is_told_once_with_its_distance(guards):
    found = guards.guarded(torch.empty(8))
    around(found, 32 + 12, 4).zero_()
    (text,) = guards.broken()
    assert "4 bytes were written beyond the end of a tensor of 32 bytes, the nearest 12 bytes from it" in text
    assert guards.broken() == []


def test_a_write_before_the_start_is_told(guards):
    found = guards.guarded(torch.empty(8))
    around(found, -5, 2).zero_()
    assert "2 bytes were written before the start of a tensor of 32 bytes, the nearest 4 bytes from it" in guards.broken()[0]


def test_what_a_tensor_that_is_gone_was_written_beyond_counts_too(guards):
    found = guards.guarded(torch.empty(8))
    around(found, 32, 1).zero_()
    del found
    gc.collect()
    assert len(guards.broken()) == 1


def test_forgotten_guards_tell_nothing(guards):
    found = guards.guarded(torch.empty(8))
    around(found, 32, 1).zero_()
    guards.forget()
    assert guards.broken() == []


def test_empty_and_overly_many_tensors_are_not_guarded(guards):
    assert guards.storage(0) is None
    kept = [guards.guarded(torch.empty(1)) for _ in range(300)]
    plain = torch.empty(1)
    assert guards.guarded(plain) is plain
    assert guards.guarded("no tensor") == "no tensor"
    del kept


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda _: torch.empty(8), 4.0),
        (torch.empty_like, 4.0),
        (lambda _: torch.zeros(8), 0.0),
        (lambda _: torch.full((8,), 3.0), 3.0),
        (lambda x: x.new_ones(8), 1.0),
    ],
)
def test_what_a_call_makes_is_guarded_and_holds_what_it_should(guards, make, value):
    with JudgeMode("", lambda: 0, 1, guards.guarded):
        made = make(torch.ones(8))
    around(made, 32, 1).zero_()
    assert len(guards.broken()) == 1
    assert made.tolist() == [value] * 8


def test_inputs_are_guarded_where_that_is_asked(monkeypatch):
    buffers = DeviceBuffers("c")
    tree = encode_types([torch.ones(6)])
    for guarded in (True, False):
        (tensor,) = buffers.decode(buffers.allocate(tree, guarded))
        assert tensor.tolist() == [0.0] * 6
        assert len(buffers.guards._zones) == 1
    (tensor,) = buffers.decode(buffers.allocate(tree, True))
    around(tensor, 24, ZONE_BYTES).fill_(1)
    assert f"{ZONE_BYTES} bytes were written beyond the end" in buffers.guards.broken()[0]
    assert decode_with(tree, lambda spec: spec.shape) == [(6,)]


@pytest.mark.parametrize(
    "grow",
    [
        lambda out: torch.add(torch.ones(16), 1.0, out=out),
        lambda out: out.resize_(16).fill_(2.0),
        lambda out: torch.cat([torch.full((8,), 2.0)] * 2, out=out),
    ],
    ids=["out", "resize_", "cat"],
)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_guarded_tensor_grows_as_any_other_where_torch_resizes_it(guards, grow):
    with JudgeMode("", lambda: 0, 7, guards.guarded):
        found = torch.empty(8)
        assert not found.untyped_storage().resizable()
        grow(found)
    assert found.tolist() == [2.0] * 16
    assert guards.broken() == []
