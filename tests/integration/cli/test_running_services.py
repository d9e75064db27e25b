"""How commands reach services: running ones with TLS and a token, and local ones that are closed to other users."""

import json
import sys

import pytest
from authorities import OTHER_TOKEN, TOKEN, Authority, secret_file

from adaexplore.cli.fleet import addresses
from adaexplore.cli.main import main
from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.client.security import VARIABLES, ChannelSecurity
from adaexplore.memory.v1 import memory_pb2
from adaexplore.runtime.errors import UnauthenticatedError
from adaexplore.testing.servers import ServerProcess, stop_process


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def memory(tmp_path_factory, authority):
    """A memory that listens on every address of this machine."""
    state, pair = tmp_path_factory.mktemp("memory"), authority.issue("server")
    files = {"tls-cert": pair.cert, "tls-key": pair.key, "tokens": secret_file(state / "tokens", f"alice:{TOKEN}")}
    flags = [part for name, path in files.items() for part in (f"--{name}-file", str(path))]
    server = ServerProcess("memory", state, flags, ChannelSecurity(ca_file=authority.file), host="0.0.0.0")
    process = server.start()
    yield server
    stop_process(process)


@pytest.fixture
def list_rules(memory, monkeypatch, capsys):
    """Run the command line in this process; its exit code and its one JSON object."""

    def run(*words, **environ):
        for variable in VARIABLES.values():
            monkeypatch.setenv(variable, environ.get(variable, ""))
        monkeypatch.setenv("ADAEXPLORE_ADDRESS_MEMORY", memory.address)
        monkeypatch.setattr(sys, "argv", ["adaexplore", "rules", "list", "--json", *(str(word) for word in words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, json.loads(capsys.readouterr().out)

    return run


def test_a_command_reaches_a_service_by_tls_and_token(list_rules, authority, tmp_path):
    token = secret_file(tmp_path / "token", TOKEN)
    assert list_rules("--ca-file", authority.file, "--token-file", token) == (0, {"rules": []})


@pytest.mark.parametrize(
    ("tls", "environ", "code", "reason", "told"),
    [
        (True, {}, 2, "TOKEN_MISSING", "the call has no token"),
        (True, {"ADAEXPLORE_TOKEN": OTHER_TOKEN}, 2, "TOKEN_WRONG", "does not know this token"),
        (False, {"ADAEXPLORE_TOKEN": TOKEN}, 1, "TLS_EXPECTED", "probably speaks TLS (--ca-file)"),
    ],
)
def test_a_command_says_in_one_line_what_it_lacks(list_rules, authority, tls, environ, code, reason, told):
    exit_code, answer = list_rules(*(["--ca-file", authority.file] if tls else []), **environ)
    assert (exit_code, answer["error"]["reason"]) == (code, reason)
    assert told in answer["error"]["message"]
    assert TOKEN not in json.dumps(answer)


async def test_local_services_of_a_command_answer_nobody_else(tmp_path):
    request = memory_pb2.ListSkillsRequest()
    async with addresses(["memory"], tmp_path) as reached:
        async with reached.client(AsyncMemoryClient) as ours:
            assert not (await ours.list_skills(request, timeout_s=30)).skills
        async with AsyncMemoryClient(reached.fleet.address("memory")) as stranger:
            with pytest.raises(UnauthenticatedError):
                await stranger.list_skills(request, timeout_s=30)
