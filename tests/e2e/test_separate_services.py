import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pytest
from authorities import TOKEN, Authority, secret_file

from adaexplore.cli.local import SERVICES
from adaexplore.client.controller import ControllerClient
from adaexplore.client.security import ChannelSecurity
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.testing.servers import ServerProcess, stop_process

from .conftest import RUN_LIMIT_S
from .secured import PATIENCE

STEPS = 6
TASK = Path(__file__).parent / "inputs" / "small_task.py"


def _essence(result):
    return [
        (node["step"], node["parent"], node["move"], node["kernel_digest"], node["verdict"], node["reward"]) for node in result["nodes"]
    ]


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def security(tmp_path, authority):
    """TLS with client certificates, and a token: what a fleet needs beyond loopback."""
    client = authority.issue("client", "fleet@example.org")
    token = secret_file(tmp_path / "token", TOKEN)
    return ChannelSecurity(ca_file=authority.file, cert_file=client.cert, key_file=client.key, token_file=token)


@pytest.fixture
def services(tmp_path, authority, security):
    pair, tokens = authority.issue("server"), secret_file(tmp_path / "tokens", f"fleet:{TOKEN}")
    own = ["--tls-cert-file", pair.cert, "--tls-key-file", pair.key, "--tls-client-ca-file", security.ca_file, "--tokens-file", tokens]
    peer = {"ca": security.ca_file, "cert": security.cert_file, "key": security.key_file, "token": security.token_file}
    servers = {name: ServerProcess(name, tmp_path / name, [str(flag) for flag in own], security) for name in SERVICES}
    servers["controller"].flags += [part for name, path in peer.items() for part in (f"--peer-{name}-file", str(path))]
    servers["controller"].flags += PATIENCE
    return servers


def _wait_for_step(client, step, running):
    """Wait until the search has so many steps; it must still be running, or a restart would prove nothing."""
    while True:
        assert running.poll() is None, running.communicate()[1].decode()
        found = client.list_searches(pb.ListSearchesRequest(), RUN_LIMIT_S).searches
        if found and found[0].steps >= step:
            return
        time.sleep(0.1)


def test_each_service_restarted_once_during_a_search_changes_nothing(adaexplore, services, security, tmp_path):
    base = ["optimize", TASK, "--steps", STEPS, "--seed", 5, "--json"]
    alone = adaexplore(*base, "--out", tmp_path / "o1", "--state-dir", tmp_path / "s1").json
    command = [sys.executable, "-m", "adaexplore", *(str(word) for word in base), "--out", str(tmp_path / "o2")]
    with ExitStack() as stack:
        processes = {}
        for name, server in services.items():
            if name == "controller":  # it is told where the others are
                server.flags += [part for peer in processes for part in (f"--{peer}-address", services[peer].address)]
            processes[name] = server.start()
            stack.callback(lambda name=name: stop_process(processes[name]))
        environ = {f"ADAEXPLORE_ADDRESS_{name.upper()}": server.address for name, server in services.items()}
        environ |= {f"ADAEXPLORE_{name.upper()}": str(value) for name, value in asdict(security).items() if value}
        running = subprocess.Popen(command, env=os.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stack.callback(running.kill)
        for step, (name, server) in enumerate(services.items()):
            with ControllerClient(services["controller"].address, security) as client:
                _wait_for_step(client, step, running)
            how = signal.SIGKILL if name == "controller" else signal.SIGTERM
            stop_process(processes[name], how)
            processes[name] = server.start()
        out, err = running.communicate(timeout=RUN_LIMIT_S)
    assert running.returncode == 0, err
    assert _essence(json.loads(out)) == _essence(alone)
