"""Controllers that are killed, peers that are restarted, and starts that cannot succeed."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import pytest
from integration.controller.conftest import ControllerProcess, current, events_of, started, tree_of, until
from integration.controller.peers import PeerServer

from adaexplore.controller.v1 import controller_pb2 as pb

STEPS = pb.Budget(max_steps=10)


async def uninterrupted(folder: Path) -> list[tuple[object, ...]]:
    peers = PeerServer()
    await peers.start()
    controller = ControllerProcess(folder, peers)
    client = await controller.start()
    search = await started(client, budget=STEPS)
    await events_of(client, search.name)
    tree = await tree_of(client, search.name)
    await controller.close()
    await peers.stop()
    return tree


@pytest.mark.parametrize("step", [1, 7])
async def test_a_search_killed_by_kill_9_is_resumed_to_the_same_tree(controller: ControllerProcess, tmp_path: Path, step: int) -> None:
    controller.peers.evaluator.delay_s = 0.1
    client = await controller.start()
    search = await started(client, budget=STEPS)
    await until(client, search.name, lambda event: event.step_progress.step == step and event.step_progress.stage == "evaluating")
    await controller.end(signal.SIGKILL)
    client = await controller.start()
    events = await events_of(client, search.name)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert await tree_of(client, search.name) == await uninterrupted(tmp_path / "whole")
    calls = controller.peers.evaluator.calls
    assert sum(calls.values()) <= 10 + 1
    assert {name for name, count in calls.items() if count > 1} <= {f"steps/{step}/evaluation"}
    assert len({event.step_started.step for event in events if event.HasField("step_started")}) == 10


async def test_on_request_an_abandoned_search_is_interrupted_until_it_is_resumed(controller: ControllerProcess) -> None:
    controller.peers.evaluator.delay_s = 0.1
    client = await controller.start()
    search = await started(client, budget=STEPS)
    await until(client, search.name, lambda event: event.HasField("node_recorded"))
    await controller.end(signal.SIGKILL)
    client = await controller.start("--resume", "on-request")
    assert (await current(client, search.name)).state == pb.SEARCH_STATE_INTERRUPTED
    events = await events_of(client, search.name)
    assert events[-1].state_changed.search.state == pb.SEARCH_STATE_INTERRUPTED
    resumed = (await client.resume_search(pb.ResumeSearchRequest(name=search.name), 20)).search
    assert resumed.state == pb.SEARCH_STATE_RUNNING
    await events_of(client, search.name)
    assert (await current(client, search.name)).stop_reason == pb.STOP_REASON_STEPS


async def test_a_search_that_was_to_be_paused_is_paused_when_its_controller_stops_first(controller: ControllerProcess) -> None:
    controller.peers.evaluator.delay_s = 3600.0
    client = await controller.start()
    search = await started(client, budget=STEPS)
    await controller.peers.evaluator.entered.wait()
    await client.pause_search(pb.PauseSearchRequest(name=search.name), 20)
    assert await controller.end(signal.SIGTERM) == 0
    controller.peers.evaluator.delay_s = 0.0
    client = await controller.start()
    assert (await current(client, search.name)).state == pb.SEARCH_STATE_PAUSED
    await client.resume_search(pb.ResumeSearchRequest(name=search.name), 20)
    await events_of(client, search.name)
    assert (await current(client, search.name)).steps == 10


async def test_two_controllers_share_a_store_and_the_second_takes_over_what_the_first_leaves(
    controller: ControllerProcess, peers: PeerServer
) -> None:
    peers.evaluator.delay_s = 0.1
    client = await controller.start("--lease-s", "2")
    second = ControllerProcess(controller.state_dir, peers)
    other = await second.start("--lease-s", "2")
    search = await started(client, budget=STEPS)
    await until(other, search.name, lambda event: event.HasField("node_recorded"))
    await controller.end(signal.SIGKILL)
    await events_of(other, search.name)
    ended = await current(other, search.name)
    assert (ended.steps, ended.stop_reason) == (10, pb.STOP_REASON_STEPS)
    assert sum(peers.evaluator.calls.values()) <= 11
    await second.close()


async def test_a_wish_given_to_another_controller_reaches_the_one_that_drives(controller: ControllerProcess, peers: PeerServer) -> None:
    peers.evaluator.delay_s = 3600.0
    client = await controller.start("--lease-s", "2")
    second = ControllerProcess(controller.state_dir, peers)
    other = await second.start("--lease-s", "2")
    search = await started(client)
    await peers.evaluator.entered.wait()
    answer = await other.cancel_search(pb.CancelSearchRequest(name=search.name), 20)
    assert answer.search.state == pb.SEARCH_STATE_CANCELLED
    assert await current(client, search.name) == answer.search
    assert (await events_of(client, search.name))[-1].sequence == answer.search.last_sequence
    await second.close()


async def test_peers_that_are_restarted_during_a_search_do_not_fail_it(controller: ControllerProcess, tmp_path: Path) -> None:
    controller.peers.evaluator.delay_s = 0.1
    client = await controller.start()
    search = await started(client, budget=STEPS)
    await until(client, search.name, lambda event: event.step_progress.step == 4 and event.step_progress.stage == "evaluating")
    await controller.peers.stop()
    await asyncio.sleep(1.0)
    await controller.peers.start()
    await events_of(client, search.name)
    assert (await current(client, search.name)).stop_reason == pb.STOP_REASON_STEPS
    assert await tree_of(client, search.name) == await uninterrupted(tmp_path / "whole")


async def _refused(controller: ControllerProcess, *flags: str) -> tuple[int, str]:
    log = controller.state_dir.parent / "controller.log"
    process = await controller.launch(*flags)
    code = await asyncio.wait_for(process.wait(), 60)
    return code, log.read_text()


async def test_a_start_that_cannot_succeed_says_why_in_one_line(controller: ControllerProcess) -> None:
    code, text = await _refused(controller, "--memory-address", "nowhere", "--lease-s", "0", "--resume", "never")
    assert code == 2
    assert {line.split(" ")[1] for line in text.splitlines()} == {"--memory-address", "--lease-s", "--resume"}


async def test_a_state_folder_that_is_a_file_is_refused(controller: ControllerProcess) -> None:
    controller.state_dir.write_text("in the way")
    code, text = await _refused(controller)
    assert code == 1
    assert "cannot use the store" in text
    assert "Traceback" not in text


async def test_a_busy_port_is_refused(controller: ControllerProcess) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, text = await _refused(controller, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert code == 1
    assert "choose another --listen" in text
    assert "Traceback" not in text
