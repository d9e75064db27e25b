"""Values that travel through a runner's device memory, and what the referee believes about it."""

import pytest
import torch
from adaexplore_evaluator.referee.cuda.segments import Segments
from adaexplore_evaluator.runner.cuda.memory import DeviceBuffers
from adaexplore_evaluator.runner.precision import computing
from adaexplore_evaluator.runner.wire import WireError, decode_with, encode_types

VALUES = [
    torch.arange(12, dtype=torch.float32).reshape(3, 4),
    torch.arange(12, dtype=torch.float32).reshape(3, 4).t(),
    torch.tensor([True, False]),
    torch.tensor(7, dtype=torch.int64),
    torch.empty(0, 3),
    torch.tensor([1.5 + 2j]),
]


@pytest.fixture
def sides(host_memory):
    return DeviceBuffers("c"), Segments()


def sent(buffers, segments, value):
    tree = buffers.encode(value)
    segments.learn({"segments": buffers.segments()})
    return tree


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{tuple(value.shape)}{tuple(value.stride())}")
def test_what_a_runner_answers_arrives_as_it_is(sides, value):
    buffers, segments = sides
    found = decode_with(sent(buffers, segments, [value]), segments.copy)[0]
    assert torch.equal(found, value)
    assert found.stride() == value.stride()


def test_a_copy_does_not_follow_the_runner_and_a_view_does(sides):
    buffers, segments = sides
    value = torch.zeros(4)
    tree = sent(buffers, segments, value)
    copied, seen = decode_with(tree, segments.copy), decode_with(tree, segments.view)
    value.fill_(3.0)
    assert copied.tolist() == [0.0] * 4
    assert seen.tolist() == [3.0] * 4


def test_the_referee_writes_into_what_the_runner_allocates(sides):
    buffers, segments = sides
    tree = buffers.allocate(encode_types([torch.empty(2, 3), {"mask": torch.empty(4, dtype=torch.bool)}]))
    segments.learn({"segments": buffers.segments()})
    seen = decode_with(tree, segments.view)
    seen[0].fill_(2.0)
    seen[1]["mask"].fill_(True)
    inside = buffers.decode(tree)
    assert inside[0].tolist() == [[2.0] * 3] * 2
    assert inside[1]["mask"].all()


def test_what_widens_dtypes_does_not_decide_how_memory_is_read(sides):
    buffers, segments = sides
    tree = sent(buffers, segments, torch.arange(6, dtype=torch.float32))
    with computing("fp32", "float64"):
        found = buffers.decode(tree)
    assert found.dtype == torch.float32
    assert found.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_only_new_names_are_told_and_dropped_ones_are_unknown(sides):
    buffers, _segments = sides
    first = buffers.encode(torch.zeros(2))
    known = buffers.names()
    second = buffers.encode(torch.ones(2))
    assert set(buffers.segments(since=known)) == {second["buffer"]}
    buffers.drop(known)
    with pytest.raises(WireError, match="not known"):
        buffers.decode(first)
    buffers.forget()
    assert buffers.names() == frozenset()


HANDLE = (0).to_bytes(64, "little").hex()


@pytest.mark.parametrize(
    "place",
    [None, [], [HANDLE, 0], ["ff", 0, 8], [HANDLE, -1, 8], [HANDLE, 0, -8], [HANDLE, True, 8], [HANDLE, 0.5, 8], [7, 0, 8], [HANDLE, 8, 8]],
)
def test_a_malformed_place_is_refused(place):
    with pytest.raises(WireError):
        Segments().learn({"segments": {"c0": place}})


def test_a_buffer_that_moves_is_refused():
    segments = Segments()
    segments.learn({"segments": {"c0": [HANDLE, 0, 8]}})
    segments.learn({"segments": {"c0": [HANDLE, 0, 8]}})
    with pytest.raises(WireError, match="has moved"):
        segments.learn({"segments": {"c0": [HANDLE, 512, 8]}})


def test_a_place_that_leads_out_of_its_allocation_is_refused(sides):
    buffers, segments = sides
    tree = sent(buffers, segments, torch.zeros(4))
    (name, (handle, offset, size)) = next(iter(buffers.segments().items()))
    segments.forget()
    segments.learn({"segments": {name: [handle, offset + (1 << 12), size]}})
    with pytest.raises(WireError, match="leads out"):
        decode_with(tree, segments.copy)


def test_a_buffer_smaller_than_its_tensor_is_refused(sides):
    buffers, segments = sides
    tree = sent(buffers, segments, torch.zeros(4))
    (name, (handle, offset, _size)) = next(iter(buffers.segments().items()))
    segments.forget()
    segments.learn({"segments": {name: [handle, offset, 8]}})
    with pytest.raises(WireError, match="are needed"):
        decode_with(tree, segments.copy)


def test_a_handle_that_the_driver_refuses_is_the_runners_fault(sides, monkeypatch):
    from adaexplore_evaluator.referee.cuda import segments as module
    from adaexplore_evaluator.runner.cuda.driver import CudaDriverError

    buffers, segments = sides
    tree = sent(buffers, segments, torch.zeros(4))

    def refuse(_handle):
        raise CudaDriverError("cuIpcOpenMemHandle_v2 failed with code 201")

    monkeypatch.setattr(module, "opened", refuse)
    with pytest.raises(WireError, match="201"):
        decode_with(tree, segments.copy)
