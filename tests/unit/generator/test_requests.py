from dataclasses import replace

import pytest
from adaexplore_generator.digests import request_digest
from adaexplore_generator.domain import ContextKernel, Feedback, GenerateRequest, Move, Sampling, Task, Usage
from adaexplore_generator.graph import OperatorCall, OperatorGraph, TaskDescription, ValueRef

CALL = OperatorCall("aten.relu.default", (ValueRef("x"), 1, None, (2.5, True)), {}, ("y",))
REQUEST = GenerateRequest(
    "id",
    Task("t", "x = 1"),
    TaskDescription(graph=OperatorGraph(calls=(CALL,))),
    Move.LOCAL,
    context=(ContextKernel("k", feedback=Feedback("PASSED")),),
)


def test_a_request_has_the_same_digest_however_often_it_is_asked():
    assert request_digest(REQUEST) == request_digest(replace(REQUEST, request_id="another", max_cost_micro_usd=5))


@pytest.mark.parametrize(
    "change",
    [
        {"task": Task("t", "x = 2")},
        {"move": Move.STRUCTURAL},
        {"sampling": Sampling(seed=1)},
        {"known_digests": ("a",)},
        {"description": TaskDescription(graph=OperatorGraph(calls=(replace(CALL, args=("x", 1, None, (2.5, True))),)))},
        {"context": (ContextKernel("k", feedback=Feedback("FAILED")),)},
    ],
)
def test_whatever_a_reply_depends_on_changes_the_digest(change):
    assert request_digest(replace(REQUEST, **change)) != request_digest(REQUEST)


def test_usage_adds_up_and_an_unknown_cost_stays_unknown():
    free, priced, unknown = Usage(), Usage(1, 1, 1, 1, 1, 5), Usage(2, 0, 3, 0, 1, None, True)
    assert free + priced == priced
    assert priced + priced == Usage(2, 2, 2, 2, 2, 10)
    assert priced + unknown == Usage(3, 1, 4, 1, 2, None, True)
