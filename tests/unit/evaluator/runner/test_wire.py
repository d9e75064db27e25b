"""Frames and value trees."""

from __future__ import annotations

import errno
import math
import os

import pytest
import torch
from adaexplore_evaluator.runner import frames, wire
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(),
    st.sampled_from(list(wire.DTYPES.values())),
    st.sampled_from([torch.device("cpu"), torch.device("cuda", 0)]),
)


def make_tensor(dtype, shape, axis, step):
    base = torch.arange(math.prod(shape)).remainder(2).to(torch.float32).reshape(shape).to(dtype)
    if base.dim():
        base = base.transpose(0, min(axis, base.dim() - 1))[::step]
    return base


TENSORS = st.builds(
    make_tensor,
    st.sampled_from(list(wire.DTYPES.values())),
    st.lists(st.integers(0, 4), max_size=4),
    st.integers(0, 3),
    st.integers(1, 3),
)
VALUES = st.recursive(
    SCALARS | TENSORS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def same(left, right):
    if isinstance(left, torch.Tensor):
        equal = torch.equal(left.to(torch.complex128), right.to(torch.complex128))
        return left.dtype is right.dtype and left.shape == right.shape and left.stride() == right.stride() and equal
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return type(left) is type(right) and left == right


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES, shared=st.booleans())
def test_every_value_comes_back_as_it_was_sent(tmp_path_factory, value, shared):
    folder = wire.BufferFolder(tmp_path_factory.mktemp("buffers"), "t")
    tree = frames.decode_payload(frames.encode_frame({"tree": folder.encode(value)})[frames.HEADER_BYTES :])["tree"]
    assert same(value, folder.decode(tree, shared=shared))


@pytest.fixture
def folder(tmp_path):
    return wire.BufferFolder(tmp_path, "t")


def test_a_write_through_a_shared_mapping_is_seen_by_the_other_side(folder):
    tree = folder.encode(torch.zeros(4, 4).t())
    folder.decode(tree, shared=True)[1, 2] = 7
    assert folder.decode(tree, shared=False)[1, 2] == 7


def test_tensors_that_share_a_storage_still_do(folder):
    base = torch.arange(12.0)
    first, second = folder.decode(folder.encode([base[:6], base[4:].view(2, 4)]))
    first[5] = 99
    assert second[0, 1] == 99


def test_a_parameter_stays_one(folder):
    value = folder.decode(folder.encode({"w": torch.nn.Parameter(torch.ones(2)), "n": torch.tensor(3)}))
    assert isinstance(value["w"], torch.nn.Parameter)
    assert not isinstance(value["n"], torch.nn.Parameter)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [5, 4]},
        {"offset": 1},
        {"strides": [8, 1]},
        {"strides": [-4, 1]},
        {"strides": [4]},
        {"shape": [2**62, 2**62], "strides": [4, 1]},
        {"shape": [True, 4]},
        {"storage_elements": 15},
        {"storage_elements": 17},
        {"dtype": "float64"},
        {"dtype": "quint8"},
        {"buffer": "../secret"},
        {"buffer": "missing"},
        {"buffer": "link"},
        {"buffer": "pipe"},
        {"buffer": 3},
    ],
)
def test_a_tensor_that_does_not_fit_its_file_is_refused(folder, tmp_path, change):
    (tmp_path / "secret").write_bytes(bytes(64))
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    tree = folder.encode(torch.zeros(4, 4)) | change
    for shared in (True, False):
        with pytest.raises(wire.WireError):
            folder.decode(tree, shared=shared)


@pytest.mark.parametrize("tree", [3, {}, {"t": "int", "v": True}, {"t": "int", "v": 1.5}, {"t": "list"}, {"t": "dict", "items": [[1, 2]]}])
def test_a_malformed_tree_is_refused(folder, tree):
    with pytest.raises(wire.WireError):
        folder.decode(tree)


def test_a_tree_that_is_nested_without_end_is_refused(folder):
    tree: dict[str, object] = {"t": "none"}
    for _ in range(100):
        tree = {"t": "list", "items": [tree]}
    with pytest.raises(wire.WireError):
        folder.decode(tree)


def test_what_the_protocol_cannot_carry_is_refused(folder):
    for value in (object(), {1: 2}, torch.eye(3).to_sparse()):
        with pytest.raises(wire.WireError):
            folder.encode(value)


def test_types_travel_without_their_memory():
    tree = wire.encode_types([torch.empty(10**6, 10**6, device="meta")])
    made = wire.decode_with(tree, lambda spec: torch.empty(spec.shape, dtype=spec.dtype, device="meta"))
    assert made[0].shape == (10**6, 10**6)


@pytest.mark.parametrize(
    "data", [b"ADX2" + bytes(4), b"ADX1\xff\xff\xff\xff", b"ADX1\x02\0\0\0[]", b"ADX1\x03\0\0\0NaN", b"ADX1\x05\0\0\0{}", b"AD"]
)
def test_bytes_that_are_no_frame_are_refused(data):
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    with pytest.raises(frames.FrameError):
        frames.read_frame(read)
    os.close(read)


def test_a_message_over_16_mib_is_refused():
    with pytest.raises(frames.FrameError):
        frames.encode_frame({"text": "x" * frames.MAX_PAYLOAD_BYTES})


def test_a_full_disk_is_an_error_and_never_a_signal(tmp_path, monkeypatch):
    def full(_fd, _data):
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_mapping(*_args):
        raise AssertionError("a mapping of a file that the disk has no room for kills its writer")

    monkeypatch.setattr(wire.mmap, "mmap", no_mapping)
    folder = wire.BufferFolder(tmp_path, "r")
    assert torch.equal(folder.decode(folder.encode(torch.arange(5)), shared=False), torch.arange(5))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        folder.encode(torch.ones(2))


def test_a_tensor_without_memory_is_refused(folder):
    with pytest.raises(wire.WireError, match="memory"):
        folder.encode(torch.empty(4, device="meta"))


def test_a_file_larger_than_announced_is_refused_before_it_is_copied(folder, tmp_path, monkeypatch):
    def copied(*_args):
        raise AssertionError("it was read")

    tree = folder.encode(torch.zeros(4))
    os.truncate(tmp_path / tree["buffer"], 1 << 40)
    monkeypatch.setattr(os, "preadv", copied)
    with pytest.raises(wire.WireError, match="16 were announced"):
        folder.decode(tree, shared=False)
