import pytest
import torch
from adaexplore_evaluator.referee.outline import arranged, outline_of
from adaexplore_evaluator.referee.values import MalformedReplyError, types_of
from adaexplore_evaluator.referee.verdicts import StopError
from adaexplore_evaluator.runner.wire import encode_types

X, Y = torch.empty(2), torch.empty(3)


def test_lists_and_tuples_and_numbers_and_tensors_are_of_one_form():
    assert outline_of([X, (Y, 1.5)]) == outline_of((X, [Y, torch.tensor(1.5)]))


def test_dictionaries_are_read_in_the_order_of_the_task():
    tree = arranged(encode_types([{"b": Y, "a": X}]), outline_of([{"a": X, "b": Y}]), "own")
    assert [shape for _, shape in types_of(tree)] == [(2,), (3,)]


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        ([X], X, ("returns the sequence [tensor]", "must return a tensor")),
        (X, (X,), ("returns a tensor", "must return the sequence [tensor]")),
        ({"b": X}, {"a": X}, ("the dict {'b': tensor}", "the dict {'a': tensor}")),
        ([X, [Y]], [X, Y], ("[tensor, [tensor]]", "[tensor, tensor]")),
        (None, X, ("returns a none",)),
        ([X] * 200, X, ("…",)),
    ],
)
def test_another_form_is_named_in_one_line(found, expected, words):
    with pytest.raises(StopError) as stopped:
        arranged(encode_types(found), outline_of(expected), "own")
    finding = stopped.value.finding
    assert (finding.verdict, finding.cause) == ("FAILED", "SHAPE")
    assert all(word in finding.failure.message for word in words), finding.failure.message
    assert "\n" not in finding.failure.message


@pytest.mark.parametrize("tree", [None, [], {"t": "other"}])
def test_what_is_no_tree_is_malformed(tree):
    with pytest.raises(MalformedReplyError):
        arranged(tree, "tensor", "own")
