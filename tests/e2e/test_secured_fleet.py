"""Services as they run beyond one machine: apart, with PostgreSQL, TLS and tokens, restarted one after the other."""

import json
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from authorities import OTHER_TOKEN, TOKEN

from adaexplore.client.controller import ControllerClient
from adaexplore.client.faults import explained
from adaexplore.client.security import ChannelSecurity
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.controller.v1 import controller_pb2_grpc
from adaexplore.memory.v1 import memory_pb2, memory_pb2_grpc
from adaexplore.runtime.errors import ResourceExhaustedError, UnauthenticatedError, UnavailableError
from adaexplore.types.v1 import task_pb2

from .conftest import RUN_LIMIT_S
from .secured import secured_fleet

TASK = Path(__file__).parent / "inputs" / "task.py"
SMALL_TASK = TASK.with_name("small_task.py")
STEPS = 20
CALL_LIMIT_S = 120


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, postgres):
    with secured_fleet(tmp_path_factory.mktemp("secured"), postgres) as running:
        yield running


def _recorded(client, running):
    """Steps of the search so far; the search must still be running, or a restart would prove nothing."""
    assert running.poll() is None, running.communicate()[1].decode()
    searches = client.list_searches(pb.ListSearchesRequest(), CALL_LIMIT_S).searches
    return searches[0].steps if searches else 0


@pytest.mark.timeout(2 * RUN_LIMIT_S)
def test_a_rolling_restart_of_every_service_loses_nothing_of_a_search(fleet, tmp_path):
    command = ["optimize", SMALL_TASK, "--steps", STEPS, "--seed", 5, "--json", "--out", tmp_path / "out"]
    words = [sys.executable, "-m", "adaexplore", *map(str, command)]
    running = subprocess.Popen(words, env=fleet.inherited | fleet.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    codes = {}
    try:
        with ControllerClient(fleet.address("controller"), fleet.security) as client:
            for step, name in zip((3, 6, 9, 12), fleet.servers, strict=True):
                while _recorded(client, running) < step:
                    time.sleep(0.1)
                codes[name] = fleet.restart(name)
        out, err = running.communicate(timeout=RUN_LIMIT_S)
    finally:
        running.kill()
    assert running.returncode == 0, err.decode()
    assert codes == dict.fromkeys(fleet.servers, 0)
    result = json.loads(out)
    assert sorted(node["step"] for node in result["nodes"] if node["step"]) == list(range(1, STEPS + 1))
    assert all(node["verdict"] for node in result["nodes"] if node["kernel_digest"])
    assert "class ModelNew" in next((tmp_path / "out").glob("*.py")).read_text()
    with ControllerClient(fleet.address("controller"), fleet.security) as client:
        (search,) = client.list_searches(pb.ListSearchesRequest(), CALL_LIMIT_S).searches
        events = list(client.watch_search(pb.WatchSearchRequest(name=search.name), CALL_LIMIT_S))
    assert [told.event.sequence for told in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize(("token", "reason"), [("", "TOKEN_MISSING"), (OTHER_TOKEN, "TOKEN_WRONG")])
def test_no_token_and_a_wrong_token_are_refused(fleet, token, reason):
    security = ChannelSecurity(ca_file=fleet.authority.file, token=token)
    with ControllerClient(fleet.address("controller"), security) as client, pytest.raises(UnauthenticatedError) as error:
        client.list_searches(pb.ListSearchesRequest(), CALL_LIMIT_S)
    assert error.value.reason == reason
    assert token not in error.value.message or not token


def _list_skills(fleet, pair):
    """A raw call: our own clients refuse an expired certificate before they use it."""
    roots, key, chain = (path.read_bytes() for path in (fleet.authority.file, pair.key, pair.cert))
    with grpc.secure_channel(fleet.address("memory"), grpc.ssl_channel_credentials(roots, key, chain)) as channel:
        call = memory_pb2_grpc.MemoryServiceStub(channel).ListSkills
        return call(memory_pb2.ListSkillsRequest(), timeout=CALL_LIMIT_S, metadata=(("authorization", f"Bearer {TOKEN}"),))


def test_an_expired_certificate_of_a_caller_is_refused_and_a_valid_one_is_not(fleet):
    _list_skills(fleet, fleet.authority.issue("valid", "controller"))
    expired = fleet.authority.issue("expired", "controller", days=-1)
    with pytest.raises(grpc.RpcError) as error:
        _list_skills(fleet, expired)
    told = explained(error.value, "memory", ChannelSecurity(ca_file=fleet.authority.file, cert_file=expired.cert, key_file=expired.key))
    assert (type(told), told.reason) == (UnavailableError, "CLIENT_CERTIFICATE_REFUSED")


def test_our_own_client_names_the_file_that_has_expired(fleet, adaexplore):
    expired = fleet.authority.issue("old", "controller", days=-1)
    environ = fleet.environ | {"ADAEXPLORE_CERT_FILE": str(expired.cert), "ADAEXPLORE_KEY_FILE": str(expired.key)}
    done = adaexplore("evaluate", TASK, TASK.with_name("kernel.py"), environ=environ)
    assert done.code != 0
    assert "Traceback" not in done.err
    assert str(expired.cert) in done.err
    assert "expired" in done.err


def test_a_caller_without_a_certificate_is_refused_where_one_is_demanded(fleet, adaexplore):
    environ = {name: value for name, value in fleet.environ.items() if name not in ("ADAEXPLORE_CERT_FILE", "ADAEXPLORE_KEY_FILE")}
    done = adaexplore("evaluate", TASK, TASK.with_name("kernel.py"), environ=environ)
    assert done.code != 0
    assert "Traceback" not in done.err
    assert "certificate" in done.err


def test_a_message_of_100_mb_is_refused_by_client_and_server(fleet):
    request = pb.StartSearchRequest(spec=pb.SearchSpec(task=task_pb2.Task(name="task.py", source="#" * 100_000_000)))
    with ControllerClient(fleet.address("controller"), fleet.security) as client, pytest.raises(ResourceExhaustedError) as error:
        client.start_search(request, CALL_LIMIT_S)
    assert error.value.reason == "MESSAGE_TOO_LARGE"
    unlimited = [("grpc.max_send_message_length", -1)]
    with grpc.secure_channel(fleet.address("controller"), fleet.security.credentials(), unlimited) as channel:
        call = controller_pb2_grpc.ControllerServiceStub(channel).StartSearch
        with pytest.raises(grpc.RpcError) as refused:
            call(request, timeout=CALL_LIMIT_S, metadata=(("authorization", f"Bearer {TOKEN}"),))
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
