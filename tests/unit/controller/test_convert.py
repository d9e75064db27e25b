"""Protos to domain objects and back."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from adaexplore_controller import convert
from adaexplore_controller.convert_spec import spec_from
from adaexplore_controller.domain import Candidate, Evaluation, Kernel, Node, Outcome, Progress, Search, Usage, Verdict, Wish
from adaexplore_controller.events import Event, NodeRecorded, StateChanged
from adaexplore_controller.models import Ensemble, EnsemblePolicy
from adaexplore_controller.tree import Move

from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.runtime.errors import InternalError, InvalidArgumentError
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def spec(**fields: object) -> pb.SearchSpec:
    message = pb.SearchSpec(seed=2**64 - 1, **fields)  # type: ignore[arg-type]
    message.task.source = "class Model: ..."
    return message


def search(progress: Progress) -> Search:
    return Search("s", 1, spec_from(spec()), progress, None, WHEN, 9, 4, Wish.NONE, 0.0)


def node(**changes: object) -> Node:
    evaluation = evaluation_pb2.Evaluation(verdict=evaluation_pb2.VERDICT_PASSED, kernel_digest="ab")
    fields = {
        "step": 2,
        "parent_step": 1,
        "depth": 2,
        "move": Move.LOCAL,
        "context_steps": (1,),
        "candidate": Candidate(Outcome.KERNEL, Kernel("# k", "ab"), "recipe"),
        "evaluation": convert.evaluation_from(evaluation),
        "reward": 0.5,
        "shown_skills": ("skills/1",),
        "create_time": WHEN,
        "visits": 3,
        "reward_sum": 1.2,
    }
    return Node(**(fields | changes))  # type: ignore[arg-type]


def test_a_spec_keeps_what_it_says_and_gains_its_default_of_steps() -> None:
    found = spec_from(spec(memory_off=True, policy=pb.PolicySpec(expansion=0.0)))
    assert (found.seed, found.max_steps, found.max_wall_time_s, found.memory_off) == (2**64 - 1, 50, None, True)
    assert (found.policy.exploration, found.policy.expansion) == (None, 0.0)
    assert pb.SearchSpec.FromString(found.payload).budget.max_steps == 50


def test_every_wrong_field_is_named_at_once() -> None:
    wrong = pb.SearchSpec(budget=pb.Budget(max_steps=-1), policy=pb.PolicySpec(expansion=-1.0))
    wrong.task.name = "x" * 201
    wrong.seed_kernels.append(kernel_pb2.Kernel(source="x" * (1024 * 1024 + 1)))
    with pytest.raises(InvalidArgumentError) as caught:
        spec_from(wrong)
    assert {violation.field for violation in caught.value.violations} == {
        "spec.task.source",
        "spec.task.name",
        "spec.seed_kernels[0].source",
        "spec.budget.max_steps",
        "spec.policy.expansion",
    }


def test_what_does_not_exist_is_absent() -> None:
    message = convert.search_to(search(Progress()))
    assert not message.HasField("best_speedup")
    assert not message.HasField("end_time")
    assert not message.HasField("description")
    assert not message.usage.HasField("cost_micro_usd")
    assert message.best_node == ""
    ended = convert.search_to(search(Progress(best_step=3, best_speedup=1.5, usage=Usage(calls=1, cost_micro_usd=0), end_time=WHEN)))
    assert (ended.best_node, ended.best_speedup, ended.usage.HasField("cost_micro_usd")) == ("searches/s/nodes/3", 1.5, True)


def test_a_recorded_node_is_told_as_it_was_then_and_listed_as_it_is_now() -> None:
    event = convert.event_to(search(Progress()), Event(5, WHEN, NodeRecorded(2, best=True)), node())
    assert (event.node_recorded.node.visits, event.node_recorded.node.reward_sum) == (1, 0.5)
    listed = convert.node_to("searches/s", node())
    assert (listed.visits, listed.reward_sum, listed.candidate.kernel.source) == (3, 1.2, "")
    assert convert.node_to("searches/s", node(), source=True).candidate.kernel.source == "# k"


def test_a_changed_state_is_told_as_it_was_then() -> None:
    then = Progress(steps=1)
    message = convert.event_to(search(Progress(steps=7)), Event(3, WHEN, StateChanged(then)), None).state_changed.search
    assert (message.steps, message.last_sequence) == (1, 3)


def test_a_page_stays_below_one_message_and_always_has_an_item() -> None:
    big = [pb.Search(error_message="x" * 2_000_000) for _ in range(3)]
    assert len(convert.fitting(big)) == 1
    assert len(convert.fitting([pb.Search(error_message="x" * 5_000_000)])) == 1
    assert len(convert.fitting([pb.Search(error_message="x" * 1_000_000) for _ in range(9)])) == 3
    assert convert.fitting([]) == []


def test_an_evaluation_tells_what_the_search_acts_on() -> None:
    message = evaluation_pb2.Evaluation(
        verdict=evaluation_pb2.VERDICT_FAILED, cause=evaluation_pb2.CAUSE_COMPILE, phase=evaluation_pb2.PHASE_COMPILE, kernel_digest="d"
    )
    message.failure.message = "tl has no attribute"
    found = convert.evaluation_from(message)
    assert found == Evaluation(message.SerializeToString(), Verdict.FAILED, "COMPILE", "COMPILE", "tl has no attribute", "d")


@pytest.mark.parametrize("verdict", [0, 99])
def test_an_unknown_verdict_is_an_error_of_ours_and_never_a_verdict(verdict: int) -> None:
    with pytest.raises(InternalError, match="unknown verdict"):
        convert.evaluation_from(evaluation_pb2.Evaluation(verdict=verdict))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "searches/", "searches/a/b", "search/a", "searches/a b", "searches/" + "a" * 65])
def test_what_is_no_resource_name_names_nothing(name: str) -> None:
    with pytest.raises(Exception, match="names no search") as caught:
        convert.search_id(name)
    assert caught.value.reason == "SEARCH_NOT_FOUND"


def test_an_ensemble_is_read_with_its_weights() -> None:
    members = [pb.EnsembleMember(), pb.EnsembleMember(weight=2.5)]
    found = spec_from(spec(ensemble=pb.Ensemble(members=members, policy=pb.ENSEMBLE_POLICY_WEIGHTS))).ensemble
    assert found == Ensemble((1.0, 2.5), EnsemblePolicy.WEIGHTS)
    assert spec_from(spec()).ensemble is None


@pytest.mark.parametrize(
    ("ensemble", "field"),
    [
        (pb.Ensemble(), "spec.ensemble.members"),
        (pb.Ensemble(members=[pb.EnsembleMember()] * 17), "spec.ensemble.members"),
        (pb.Ensemble(members=[pb.EnsembleMember(weight=-1)]), "spec.ensemble.members[0].weight"),
        (pb.Ensemble(members=[pb.EnsembleMember(weight=math.nan)]), "spec.ensemble.members[0].weight"),
        (pb.Ensemble(members=[pb.EnsembleMember()], policy=9), "spec.ensemble.policy"),
    ],
)
def test_an_ensemble_that_cannot_be_is_refused_by_field(ensemble: pb.Ensemble, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        spec_from(spec(ensemble=ensemble))
    assert [violation.field for violation in caught.value.violations] == [field]
