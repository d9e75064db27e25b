"""Searches over real gRPC: started, watched, paused, cancelled, listed, refused."""

from __future__ import annotations

import asyncio
import signal

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from integration.controller.conftest import ControllerProcess, current, events_of, search_spec, started, tree_of, until
from integration.controller.peers import RULE

from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.generator.v1 import generator_pb2
from adaexplore.runtime.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, UnavailableError
from adaexplore.types.v1 import kernel_pb2

SUCCEEDED, FAILED, RUNNING = pb.SEARCH_STATE_SUCCEEDED, pb.SEARCH_STATE_FAILED, pb.SEARCH_STATE_RUNNING


async def test_a_search_runs_to_its_end_and_every_call_tells_the_same_story(controller: ControllerProcess) -> None:
    client = await controller.start()
    search = await started(client, "one")
    assert (search.state, search.spec.budget.max_steps, search.spec.task.name) == (RUNNING, 8, "softmax")
    events = await events_of(client, search.name)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    ended = await current(client, search.name)
    assert (ended.state, ended.stop_reason, ended.steps, ended.last_sequence) == (SUCCEEDED, pb.STOP_REASON_STEPS, 8, len(events))
    assert events[-1].state_changed.search == ended
    assert (ended.platform.target, ended.baselines[0].median_us, len(ended.description.digest)) == ("sm_90", 100.0, 64)
    nodes = (await client.list_nodes(pb.ListNodesRequest(parent=search.name), 20)).nodes
    assert [node.step for node in nodes] == list(range(1, 9))
    assert all(node.candidate.kernel.digest and not node.candidate.kernel.source and not node.candidate.recipe for node in nodes)
    recorded = [event.node_recorded.node for event in events if event.HasField("node_recorded")]
    assert [node.name for node in recorded] == [node.name for node in nodes]
    best = (await client.get_node(pb.GetNodeRequest(name=ended.best_node), 20)).node
    assert best.candidate.kernel.source.startswith("# ")
    assert best.candidate.recipe
    assert best.evaluation.timing.speedup == ended.best_speedup == max(node.evaluation.timing.speedup for node in nodes)
    assert ended.usage.calls == len(controller.peers.generator.replies)


async def test_a_rule_is_learnt_proven_shown_and_respected_in_the_same_search(controller: ControllerProcess) -> None:
    client = await controller.start()
    search = await started(client, budget=pb.Budget(max_steps=20))
    events = await events_of(client, search.name)
    (learnt,) = [event.skill_learnt for event in events if event.HasField("skill_learnt")]
    assert (learnt.skill.rule, learnt.skill.evidence.proof.repair_index, learnt.skill.evidence.proof.target) == (RULE, 1, "sm_90")
    (update,) = controller.peers.memory.updates
    assert (list(update.update_mask.paths), update.skill.etag) == (["evidence.proof"], "1")
    respected = [event.skill_respected for event in events if event.HasField("skill_respected")]
    assert respected
    assert {(r.rule, r.by_check) for r in respected} == {(RULE, False)}
    assert len(controller.peers.memory.outcomes) > 0


async def test_a_stream_continues_after_the_last_sequence_seen(controller: ControllerProcess) -> None:
    client = await controller.start()
    search = await started(client)
    whole = await events_of(client, search.name)
    assert await events_of(client, search.name, after=5) == whole[5:]
    assert await events_of(client, search.name, after=whole[-1].sequence) == []


async def test_the_same_request_id_starts_one_search(controller: ControllerProcess) -> None:
    client = await controller.start()
    first, again = await started(client, "r"), await started(client, "r")
    other = await started(client, "q")
    assert first.name == again.name != other.name
    await events_of(client, other.name)
    page = await client.list_searches(pb.ListSearchesRequest(page_size=1), 20)
    assert [search.name for search in page.searches] == [other.name]
    assert not page.searches[0].HasField("description")
    rest = await client.list_searches(pb.ListSearchesRequest(page_size=5, page_token=page.next_page_token), 20)
    assert ([search.name for search in rest.searches], rest.next_page_token) == ([first.name], "")


async def test_pages_of_nodes_add_up_to_all_of_them(controller: ControllerProcess) -> None:
    client = await controller.start()
    search = await started(client)
    await events_of(client, search.name)
    steps: list[int] = []
    token = ""
    while True:
        page = await client.list_nodes(pb.ListNodesRequest(parent=search.name, page_size=3, page_token=token), 20)
        steps += [node.step for node in page.nodes]
        token = page.next_page_token
        if not token:
            break
    assert steps == list(range(1, 9))


async def test_several_searches_run_at_once_and_each_is_what_it_would_be_alone(controller: ControllerProcess) -> None:
    client = await controller.start("--max-running", "3")
    controller.peers.evaluator.delay_s = 0.05
    searches = [await started(client, memory_off=True) for _ in range(3)]
    await asyncio.gather(*(events_of(client, search.name) for search in searches))
    trees = [await tree_of(client, search.name) for search in searches]
    assert trees[0] == trees[1] == trees[2]
    assert len(trees[0]) == 8


async def test_a_paused_search_rests_until_it_is_resumed(controller: ControllerProcess) -> None:
    client = await controller.start()
    controller.peers.evaluator.delay_s = 0.2
    search = await started(client)
    await until(client, search.name, lambda event: event.HasField("step_started"))
    await client.pause_search(pb.PauseSearchRequest(name=search.name), 20)
    events = await events_of(client, search.name)
    paused = await current(client, search.name)
    assert paused.state == pb.SEARCH_STATE_PAUSED
    assert events[-1].state_changed.search.state == pb.SEARCH_STATE_PAUSED
    assert 1 <= paused.steps < 8
    controller.peers.evaluator.delay_s = 0.0
    assert (await client.resume_search(pb.ResumeSearchRequest(name=search.name), 20)).search.state == RUNNING
    await events_of(client, search.name, after=events[-1].sequence)
    assert (await current(client, search.name)).steps == 8


async def test_cancelling_stops_the_call_in_flight(controller: ControllerProcess) -> None:
    client = await controller.start()
    controller.peers.evaluator.delay_s = 3600.0
    search = await started(client)
    await controller.peers.evaluator.entered.wait()
    cancelled = (await client.cancel_search(pb.CancelSearchRequest(name=search.name), 20)).search
    assert (cancelled.state, cancelled.stop_reason) == (pb.SEARCH_STATE_CANCELLED, pb.STOP_REASON_CANCELLED)
    assert (await events_of(client, search.name))[-1].state_changed.search.state == pb.SEARCH_STATE_CANCELLED
    async with asyncio.timeout(20):
        await controller.peers.evaluator.cancelled.wait()
    again = (await client.cancel_search(pb.CancelSearchRequest(name=search.name), 20)).search
    assert again == cancelled
    with pytest.raises(FailedPreconditionError) as caught:
        await client.resume_search(pb.ResumeSearchRequest(name=search.name), 20)
    assert caught.value.reason == "SEARCH_ENDED"


async def test_the_wall_time_ends_a_search_in_the_middle_of_a_call(controller: ControllerProcess) -> None:
    client = await controller.start()
    controller.peers.evaluator.delay_s = 3600.0
    search = await started(client, budget=pb.Budget(max_steps=8, max_wall_time=Duration(seconds=1)))
    await events_of(client, search.name)
    assert (await current(client, search.name)).stop_reason == pb.STOP_REASON_WALL_TIME


async def test_an_invalid_task_and_a_missing_key_end_a_search_with_one_line(controller: ControllerProcess) -> None:
    client = await controller.start()
    controller.peers.evaluator.valid = False
    search = await started(client)
    await events_of(client, search.name)
    ended = await current(client, search.name)
    assert (ended.state, ended.stop_reason) == (FAILED, pb.STOP_REASON_TASK_INVALID)
    assert ended.error_message == "task.py:1: the reference raises; fix it"
    controller.peers.evaluator.valid = True
    controller.peers.generator.error = FailedPreconditionError("set OPENAI_API_KEY", reason="KEY_MISSING")
    search = await started(client)
    await events_of(client, search.name)
    ended = await current(client, search.name)
    assert (ended.state, ended.stop_reason) == (FAILED, pb.STOP_REASON_ERROR)
    assert ended.error_message == "generator: KEY_MISSING: set OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({"budget": pb.Budget(max_steps=-1)}, "REQUEST_INVALID", "spec.budget.max_steps"),
        ({"budget": pb.Budget(max_steps=100_001)}, "REQUEST_INVALID", "spec.budget.max_steps"),
        ({"budget": pb.Budget(max_wall_time=Duration(seconds=-1))}, "REQUEST_INVALID", "spec.budget.max_wall_time"),
        ({"policy": pb.PolicySpec(exploration=float("nan"))}, "REQUEST_INVALID", "spec.policy.exploration"),
        ({"policy": pb.PolicySpec(structural_probability=1.5)}, "REQUEST_INVALID", "spec.policy.structural_probability"),
        ({"policy": pb.PolicySpec(name="genetic")}, "POLICY_UNKNOWN", "spec.policy.name"),
        ({"seed_kernels": [kernel_pb2.Kernel(source=" ")]}, "REQUEST_INVALID", "spec.seed_kernels[0].source"),
    ],
)
async def test_a_wrong_request_names_its_field_and_starts_nothing(
    controller: ControllerProcess, fields: dict[str, object], reason: str, field: str
) -> None:
    client = await controller.start()
    with pytest.raises(InvalidArgumentError) as caught:
        await started(client, **fields)
    assert (caught.value.reason, [v.field for v in caught.value.violations]) == (reason, [field])
    assert not (await client.list_searches(pb.ListSearchesRequest(), 20)).searches


async def test_what_does_not_exist_or_cannot_be_kept_is_refused_with_its_reason(controller: ControllerProcess) -> None:
    client = await controller.start()
    search = await started(client)
    await events_of(client, search.name)
    expected = [
        (client.get_search(pb.GetSearchRequest(name="searches/none"), 20), NotFoundError, "SEARCH_NOT_FOUND"),
        (client.get_search(pb.GetSearchRequest(name="nonsense"), 20), NotFoundError, "SEARCH_NOT_FOUND"),
        (client.list_nodes(pb.ListNodesRequest(parent="searches/none"), 20), NotFoundError, "SEARCH_NOT_FOUND"),
        (client.get_node(pb.GetNodeRequest(name="searches/none/nodes/1"), 20), NotFoundError, "SEARCH_NOT_FOUND"),
        (client.get_node(pb.GetNodeRequest(name=f"{search.name}/nodes/99"), 20), NotFoundError, "NODE_NOT_FOUND"),
        (client.get_node(pb.GetNodeRequest(name=search.name), 20), NotFoundError, "NODE_NOT_FOUND"),
        (client.list_nodes(pb.ListNodesRequest(parent=search.name, page_token="x"), 20), InvalidArgumentError, "REQUEST_INVALID"),
        (client.list_searches(pb.ListSearchesRequest(page_size=-1), 20), InvalidArgumentError, "REQUEST_INVALID"),
        (started(client, "x" * 129), InvalidArgumentError, "REQUEST_INVALID"),
        (started(client, budget=pb.Budget(max_cost_micro_usd=-5)), InvalidArgumentError, "REQUEST_INVALID"),
        (
            started(client, budget=pb.Budget(max_cost_micro_usd=5), model=generator_pb2.ModelSpec(model="unpriced")),
            FailedPreconditionError,
            "PRICE_UNKNOWN",
        ),
        (client.pause_search(pb.PauseSearchRequest(name=search.name), 20), FailedPreconditionError, "SEARCH_ENDED"),
        (events_of(client, "searches/none"), NotFoundError, "SEARCH_NOT_FOUND"),
        (client.start_search(pb.StartSearchRequest(spec=pb.SearchSpec()), 20), InvalidArgumentError, "REQUEST_INVALID"),
    ]
    for call, kind, reason in expected:
        with pytest.raises(kind) as caught:
            await call
        assert caught.value.reason == reason


async def test_money_ends_a_search_and_what_is_reserved_shows_while_it_runs(controller: ControllerProcess) -> None:
    client = await controller.start()
    # A generation costs 3 and may cost 20: after 5 of them, 15 of 34 are spent.
    search = await started(client, budget=pb.Budget(max_steps=20, max_cost_micro_usd=34))
    await events_of(client, search.name)
    ended = await current(client, search.name)
    assert (ended.stop_reason, ended.usage.cost_micro_usd) == (pb.STOP_REASON_COST, 3 * ended.usage.calls)
    assert 14 < ended.usage.cost_micro_usd <= 34
    assert not ended.HasField("reserved_micro_usd")
    assert "the search's money is spent" in ended.error_message


async def test_an_estimate_says_what_a_search_would_cost_and_starts_nothing(controller: ControllerProcess) -> None:
    client = await controller.start()
    spec = search_spec(budget=pb.Budget(max_steps=100, max_cost_micro_usd=200))
    found = await client.estimate_search(pb.EstimateSearchRequest(spec=spec), 20)
    assert {item.move: item.worst_case.cost_micro_usd for item in found.generations} == {
        kernel_pb2.MOVE_LOCAL: 20,
        kernel_pb2.MOVE_STRUCTURAL: 10,
    }
    assert (found.expected.cost_micro_usd, found.worst_case.cost_micro_usd, found.affordable_steps) == (300, 2000, 61)
    assert (found.provider, found.model, found.price.source) == ("fake", "m", "test")
    assert not (await client.list_searches(pb.ListSearchesRequest(), 20)).searches


async def test_reflection_lists_the_service(controller: ControllerProcess) -> None:
    client = await controller.start()
    async with grpc.aio.insecure_channel(client.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        names = [service.name async for reply in call for service in reply.list_services_response.service]
    assert "adaexplore.controller.v1.ControllerService" in names


async def test_stopping_breaks_streams_off_at_once_and_the_next_controller_goes_on(controller: ControllerProcess) -> None:
    client = await controller.start("--drain-s", "60")
    controller.peers.evaluator.delay_s = 3600.0
    search = await started(client)
    stream = asyncio.create_task(events_of(client, search.name))
    await controller.peers.evaluator.entered.wait()
    async with asyncio.timeout(40):
        assert await controller.end(signal.SIGTERM) == 0
    with pytest.raises(UnavailableError):
        await stream
    controller.peers.evaluator.delay_s = 0.0
    client = await controller.start()
    await events_of(client, search.name)
    assert (await current(client, search.name)).stop_reason == pb.STOP_REASON_STEPS


async def test_a_spec_without_limits_means_fifty_steps(controller: ControllerProcess) -> None:
    client = await controller.start()
    spec = search_spec()
    spec.budget.max_steps = 0
    search = (await client.start_search(pb.StartSearchRequest(spec=spec), 20)).search
    assert search.spec.budget.max_steps == 50
    await client.cancel_search(pb.CancelSearchRequest(name=search.name), 20)
