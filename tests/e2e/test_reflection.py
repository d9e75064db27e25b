import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adaexplore.testing.servers import running_fleet

CALLS = {"generator": "ListModels", "evaluator": "ListDevices", "memory": "ListSkills", "controller": "ListSearches"}
BUF = Path(sys.executable).parent / "buf"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield running


def _curl(*words):
    command = [BUF, "curl", "--protocol", "grpc", "--http2-prior-knowledge", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.skipif(shutil.which(BUF) is None, reason="buf is not installed")
@pytest.mark.parametrize("name", CALLS)
def test_a_service_is_listed_and_called_by_reflection_alone(fleet, name):
    url, api = f"http://{fleet.address(name)}", f"adaexplore.{name}.v1.{name.capitalize()}Service"
    assert api in _curl(url, "--list-services").stdout.split()
    called = _curl("-d", "{}", f"{url}/{api}/{CALLS[name]}")
    assert called.returncode == 0, called.stderr
    assert isinstance(json.loads(called.stdout), dict)


@pytest.mark.skipif(shutil.which(BUF) is None, reason="buf is not installed")
def test_an_error_reaches_other_clients_with_its_reason(fleet):
    url = f"http://{fleet.address('controller')}/adaexplore.controller.v1.ControllerService/GetSearch"
    failed = _curl("-d", json.dumps({"name": "searches/none"}), url)
    assert failed.returncode != 0
    assert "google.rpc.ErrorInfo" in failed.stderr + failed.stdout
