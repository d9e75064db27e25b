import pytest
import torch
from adaexplore_evaluator.referee.values import MalformedReplyError, TooManyError, check_storages, leaves, objects, plain_type, types_of
from adaexplore_evaluator.runner.wire import encode_types


def test_types_are_read_without_their_buffers():
    value = (torch.empty(2, 3, device="meta"), [torch.empty(0, dtype=torch.int64, device="meta"), 1.5])
    assert types_of(encode_types(value)) == [("float32", (2, 3)), ("int64", (0,)), ("float64", ())]


@pytest.mark.parametrize("tree", [None, [], {"t": "tensor"}, {"t": "other"}, {"t": "list", "items": 3}])
def test_trees_of_another_form_are_refused(tree):
    with pytest.raises(MalformedReplyError):
        types_of(tree)


def test_storages_above_the_limit_are_refused_before_they_are_read():
    tree = {"t": "tensor", "buffer": "c0", "dtype": "float32", "shape": [1], "strides": [1], "offset": 0, "storage_elements": 1 << 30}
    with pytest.raises(MalformedReplyError, match="4294967296"):
        check_storages(tree, 1 << 20)
    check_storages({**tree, "storage_elements": 4}, 1 << 20)


def test_a_storage_that_several_outputs_share_counts_once():
    view = {"t": "tensor", "buffer": "c0", "dtype": "float32", "shape": [1], "strides": [1], "offset": 0, "storage_elements": 256}
    check_storages({"t": "list", "items": [view] * 50}, 1024)
    with pytest.raises(MalformedReplyError, match="2048"):
        check_storages({"t": "list", "items": [view, {**view, "buffer": "c1"}]}, 1024)


def test_leaves_are_tensors_and_numbers():
    assert [tuple(leaf.shape) for leaf in leaves({"a": torch.ones(2), "b": [True, None, "text"]})] == [(2,), ()]


def test_types_of_descriptions_are_checked():
    assert plain_type({"dtype": "D_TYPE_FLOAT8_E4M3FN", "shape": [2]}) == ("float8_e4m3fn", (2,))
    with pytest.raises(MalformedReplyError):
        plain_type({"dtype": "D_TYPE_FLOAT32", "shape": [-2]})


def test_a_list_that_is_too_long_is_inconclusive_and_no_forgery():
    launches = {"launches": [{"name": "k"}] * 20_001}
    with pytest.raises(TooManyError, match="NOT_INTERPRETABLE") as refused:
        objects(launches, "launches")
    assert (refused.value.finding.verdict, "20000 launches" in refused.value.finding.failure.message) == ("INCONCLUSIVE", True)
    assert len(objects({"launches": launches["launches"][:-1]}, "launches")) == 20_000


@pytest.mark.parametrize("value", [None, {}, [3], [{}, "text"]])
def test_a_list_of_something_else_is_malformed(value):
    with pytest.raises(MalformedReplyError):
        objects({"launches": value}, "launches")
