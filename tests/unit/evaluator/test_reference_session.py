from types import SimpleNamespace

import pytest
from adaexplore_evaluator.referee.reference import ReferenceSession
from adaexplore_evaluator.referee.values import MalformedReplyError


def test_a_task_whose_tensors_are_too_large_is_refused_before_they_are_read():
    tree = {"t": "tensor", "buffer": "r0", "dtype": "float32", "shape": [1], "strides": [1], "offset": 0, "storage_elements": 1 << 30}
    read = []
    runner = SimpleNamespace(command=lambda *_args, **_fields: {"state": tree}, decode=read.append, forget_buffers=lambda: None)
    with pytest.raises(MalformedReplyError, match="4294967296"):
        ReferenceSession(runner, None, 1 << 20).make_state(0, moved=False)
    assert read == []
    ReferenceSession(runner, None, 1 << 33).make_state(0, moved=False)
    assert read == [tree]
