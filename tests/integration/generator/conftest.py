import itertools
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from integration.generator.fake_endpoint import endpoint

from adaexplore.client.generator import GeneratorClient
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x * 1.0\n"


@contextmanager
def generator(state_dir, **settings):
    """Run the real server as a process and yield its address; settings are variables without their prefix."""
    foreign = ("ADAEXPLORE_", "OPENAI_", "ANTHROPIC_", "GEMINI_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    ours = {f"ADAEXPLORE_GENERATOR_{name.upper()}": str(value) for name, value in settings.items()}
    log = (state_dir / "log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "adaexplore_generator", "--state-dir", str(state_dir)],
        env=clean | ours,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        code = process.wait(20)
        process.stdout.close()
        log.close()
    assert code == 0


@pytest.fixture(scope="module")
def fake():
    with endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def client(fake, state_dir):
    settings = {"openai_api_key": "sk-secret", "openai_idle_timeout_s": 4, "openai_attempts": 3, "default_provider": "openai"}
    with generator(state_dir, openai_base_url=fake.url, **settings) as address, GeneratorClient(address) as client:
        yield client


_ids = itertools.count()


@pytest.fixture
def request_id():
    return f"request-{next(_ids)}"


@pytest.fixture
def request_kernel(request_id):
    """Make a STRUCTURAL request, or a LOCAL one if kernels are given as its window."""

    def make(*window, provider="openai", **fields):
        local = [pb.ContextKernel(kernel={"source": source}, evaluation=said) for source, said in window]
        move = kernel_pb2.MOVE_LOCAL if window else kernel_pb2.MOVE_STRUCTURAL
        task = task_pb2.Task(name="t", source="class Model: pass", precision=task_pb2.PRECISION_CLASS_FP32)
        base = {"request_id": request_id, "task": task, "move": move, "context": local, "model": pb.ModelSpec(provider=provider)}
        return pb.GenerateKernelRequest(**(base | fields))

    return make


@pytest.fixture
def generate(client):
    """Send a request and return its candidate."""
    return lambda request: candidate_of(client.generate_kernel(request, timeout_s=60))


def candidate_of(stream):
    *progress, last = list(stream)
    assert all(message.HasField("progress") for message in progress)
    assert last.HasField("candidate")
    return last.candidate


def passed():
    timing = evaluation_pb2.Timing(status=evaluation_pb2.TIMING_STATUS_ESTIMATED, median_us=10, speedup=1.5)
    return evaluation_pb2.Evaluation(verdict=evaluation_pb2.VERDICT_PASSED, timing=timing)


def failed():
    failure = evaluation_pb2.Failure(message="no attribute foo", line=3)
    return evaluation_pb2.Evaluation(verdict=evaluation_pb2.VERDICT_FAILED, cause=evaluation_pb2.CAUSE_COMPILE, failure=failure)
