"""Services as processes over PostgreSQL."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from adaexplore_controller.store import SCHEMA as CONTROLLER
from integration.controller.conftest import ControllerProcess, current, events_of, started, tree_of, until
from integration.controller.peers import PeerServer
from integration.memory.calls import failure, serving
from typer.testing import CliRunner

from adaexplore.cli.db import app
from adaexplore.cli.failures import CliError
from adaexplore.controller.v1 import controller_pb2
from adaexplore.runtime.errors import UnavailableError

SERVICES = ["generator", "memory", "controller"]
PEERS = [part for name in ("generator", "evaluator", "memory") for part in (f"--{name}-address", "127.0.0.1:9")]


def db(*arguments, **variables):
    """Run `adaexplore db …` with further environment variables."""
    return CliRunner().invoke(app, list(arguments), env=variables, standalone_mode=False)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_refuses_a_database_that_was_not_migrated_in_one_line_with_the_command(service, own_postgres, tmp_path):
    flags = ["--state-dir", str(tmp_path), *(PEERS if service == "controller" else [])]
    variables = {f"ADAEXPLORE_{service.upper()}_DATABASE_URL": own_postgres.loopback_url()}
    command = [sys.executable, "-m", f"adaexplore_{service}", *flags]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(complaints) == 1
    assert f"run: adaexplore db upgrade {service}" in complaints[0]
    assert own_postgres.password not in done.stderr


def test_the_command_makes_tables_once_and_tells_what_it_did(postgres, tmp_path):
    (tmp_path / "url").touch(mode=0o600)
    (tmp_path / "url").write_text(postgres.fresh())
    variables = {f"ADAEXPLORE_{name.upper()}_DATABASE_URL_FILE": str(tmp_path / "url") for name in SERVICES}
    # Settings of the service itself do not matter to its tables.
    variables["ADAEXPLORE_CONTROLLER_GENERATOR_ADDRESS"] = "generator:7001"
    before = db("current", *SERVICES, "--json", **variables)
    assert before.return_value == 1
    assert [store["revision"] for store in json.loads(before.stdout)["stores"]] == [None, None, None]
    heads = [store["head"] for store in json.loads(before.stdout)["stores"]]
    for was in (["not migrated"] * 3, heads):
        done = db("upgrade", *SERVICES, **variables)
        assert done.exception is None
        assert re.findall(r"\(was: (.*?)\)", done.stdout) == was
    after = db("current", *SERVICES, **variables)
    assert (after.return_value, len(after.stdout.splitlines())) == (0, 3)
    assert not list(tmp_path.glob("*.sqlite3"))


def test_the_command_refuses_a_wrong_url_without_repeating_it():
    done = db("upgrade", "memory", ADAEXPLORE_MEMORY_DATABASE_URL="mysql://ada:s3cr3t@host/kernels")
    assert isinstance(done.exception, CliError)
    assert str(done.exception).startswith("ADAEXPLORE_MEMORY_DATABASE_URL: ")
    assert "s3cr3t" not in str(done.exception) + done.output


async def test_what_the_memory_learns_survives_it_in_the_database_and_nothing_lies_in_its_state_folder(postgres, tmp_path):
    from adaexplore_memory.store import SCHEMA

    with postgres.lent(SCHEMA) as url:
        async with serving(tmp_path, database_url=url) as first, serving(tmp_path, database_url=url) as second:
            learnt = await first.record_failure(failure())
            assert await second.record_failure(failure()) == learnt
        async with serving(tmp_path, database_url=url) as client:
            again = await client.record_failure(failure("failure-2", "task-2"))
            assert again.skill.name == learnt.skill.name
            assert again.skill.evidence.failure_count == 2
    assert not list(tmp_path.iterdir())


CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@contextlib.asynccontextmanager
async def controllers(folder, url):
    peers = PeerServer()
    await peers.start()
    variables = {"ADAEXPLORE_CONTROLLER_DATABASE_URL": url} if url else {}
    pair = [ControllerProcess(folder / name, peers, variables=variables) for name in ("one", "two")]
    try:
        yield pair
    finally:
        for controller in pair:
            await controller.close()
        await peers.stop()


async def tree_without_a_kill(folder, spec):
    folder.mkdir()
    async with controllers(folder, "") as (controller, _):
        client = await controller.start()
        search = await started(client, **spec)
        await events_of(client, search.name)
        return await tree_of(client, search.name)


async def test_of_two_controllers_the_second_takes_over_when_the_first_is_killed_and_finds_the_same_tree(postgres, tmp_path):
    spec = {"budget": controller_pb2.Budget(max_steps=8)}
    expected = await tree_without_a_kill(tmp_path / "whole", spec)
    with postgres.lent(CONTROLLER) as url:
        async with controllers(tmp_path, url) as (first, second):
            first.peers.evaluator.delay_s = 0.1
            clients = await asyncio.gather(first.start("--lease-s", "2"), second.start("--lease-s", "2"))
            name = (await started(clients[0], **spec)).name
            await until(clients[1], name, lambda event: event.step_progress.step == 4 and event.step_progress.stage == "evaluating")
            await first.end(signal.SIGKILL)
            await events_of(clients[1], name)
            assert (await current(clients[1], name)).state == controller_pb2.SEARCH_STATE_SUCCEEDED
            assert await tree_of(clients[1], name) == expected
            assert sum(first.peers.evaluator.calls.values()) <= 8 + 1


async def test_a_search_goes_on_when_all_connections_are_cut_again_and_again(postgres, tmp_path):
    spec = {"budget": controller_pb2.Budget(max_steps=8)}
    with postgres.lent(CONTROLLER) as url:
        async with controllers(tmp_path, url) as (controller, _):
            controller.peers.evaluator.delay_s = 0.1
            client = await controller.start()
            name = (await started(client, **spec)).name
            for _ in range(5):
                await asyncio.sleep(0.2)
                postgres.execute(CUT, url)
            events = []
            while not events:
                with contextlib.suppress(UnavailableError):  # the stream may have been cut too
                    events = await events_of(client, name)
            search = await current(client, name)
            assert (search.state, search.steps) == (controller_pb2.SEARCH_STATE_SUCCEEDED, 8)
            assert [event.sequence for event in events] == list(range(1, search.last_sequence + 1))
