import asyncio

import pytest

from adaexplore.cli import local
from adaexplore.cli.failures import CliError
from adaexplore.cli.local import LocalService, local_fleet, service_environment


def test_only_the_generator_gets_what_may_be_a_secret():
    environ = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "sk",
        "AWS_ACCESS_KEY_ID": "a",
        "GITHUB_PAT": "p",
        "ADAEXPLORE_GENERATOR_OPENAI_API_KEY": "sk",
        "ADAEXPLORE_EVALUATOR_WORKERS": "1",
    }
    quiet = {"GRPC_VERBOSITY": "NONE"}
    assert service_environment("generator", environ) == quiet | environ
    assert service_environment("evaluator", environ) == quiet | {"PATH": "/bin", "ADAEXPLORE_EVALUATOR_WORKERS": "1"}
    assert service_environment("memory", environ) == quiet | {"PATH": "/bin"}


@pytest.fixture
def starts(monkeypatch, tmp_path):
    """Services that are started by name: `fails` at once, `slow` never, any other at once; returns what became of them."""
    seen = {}

    async def start(name, _flags, _state_dir, _environ):
        seen[name] = "starting"
        if name == "fails":
            raise CliError("it does not start")
        try:
            await (asyncio.Event().wait() if name == "slow" else asyncio.sleep(0))
        except asyncio.CancelledError:
            seen[name] = "ended while starting"
            raise
        seen[name] = "running"
        return LocalService(name, f"127.0.0.1:{len(seen)}", name, tmp_path)

    async def stop(process):
        seen[process] = "stopped"

    monkeypatch.setattr(local, "start_service", start)
    monkeypatch.setattr(local, "_stop", stop)
    return seen


async def test_a_service_that_fails_ends_the_others_without_waiting_for_them(starts, tmp_path):
    with pytest.raises(CliError, match="it does not start"):
        async with local_fleet(["quick", "slow", "fails"], tmp_path, environ={}):
            pass
    assert starts == {"quick": "stopped", "slow": "ended while starting", "fails": "starting"}


async def test_a_service_is_asked_as_soon_as_it_runs_and_its_answer_ends_the_others(starts, tmp_path):
    async def refuse(address):
        raise CliError(f"{address} has no key")

    with pytest.raises(CliError, match=r"127\.0\.0\.1:\d has no key"):
        async with local_fleet(["quick", "slow"], tmp_path, environ={}, checks={"quick": refuse}):
            pass
    assert starts == {"quick": "stopped", "slow": "ended while starting"}
