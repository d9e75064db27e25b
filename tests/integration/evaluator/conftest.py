import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

CASES = Path(__file__).parent / "cases"
# What a slow host needs; a test of what hangs asks for less.
UNHURRIED = [word for phase in ("task", "setup", "compile", "check", "timing") for word in (f"--{phase}-s", "400")]


def _descendants(pid):
    table = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            table[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in table.items() if its_parent == parent]
    return found


@dataclass
class Server:
    process: subprocess.Popen
    address: str
    scratch: Path

    def tree(self):
        return _descendants(self.process.pid)

    def runner_folders(self):
        return sorted(path.name for path in self.scratch.iterdir())

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=240)
        self.process.stdout.close()


def start_server(scratch, *flags):
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ADAEXPLORE_")}
    command = [
        sys.executable,
        "-m",
        "adaexplore_evaluator",
        "--listen",
        "127.0.0.1:0",
        "--workers",
        "1",
        "--parent-pid",
        str(os.getpid()),
        "--scratch-root",
        str(scratch),
        *UNHURRIED,
    ]
    process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ)
    line = process.stdout.readline()
    if not line:
        process.stdout.close()
    assert line, f"the server did not start, exit code {process.wait(timeout=60)}"
    return Server(process, json.loads(line)["address"], scratch)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    started = start_server(tmp_path_factory.mktemp("runners"), "--runner-memory-bytes", str(2 * 1024**3))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def client(server):
    with EvaluatorClient(server.address) as connected:
        yield connected


def task(name, precision="fp32", track="any"):
    return task_pb2.Task(
        name=f"{name}.py",
        source=(CASES / "tasks" / f"{name}.py").read_text(),
        precision=task_pb2.PrecisionClass.Value(f"PRECISION_CLASS_{precision.upper()}"),
        track=task_pb2.Track.Value(f"TRACK_{track.upper()}"),
    )


def kernel(name):
    (path,) = (CASES / "kernels").glob(f"{name}.*")
    return kernel_pb2.Kernel(source=path.read_text())


def evaluate(client, task_message, kernel_message, **fields):
    request = pb.EvaluateKernelRequest(task=task_message, kernel=kernel_message, **fields)
    events = list(client.evaluate_kernel(request, 500))
    assert [event.WhichOneof("event") for event in events].count("evaluation") == 1
    return events[-1].evaluation, [evaluation_pb2.Phase.Name(event.progress.phase).removeprefix("PHASE_") for event in events[:-1]]


def verdict_of(evaluation):
    return evaluation_pb2.Verdict.Name(evaluation.verdict).removeprefix("VERDICT_")


def cause_of(evaluation):
    return evaluation_pb2.Cause.Name(evaluation.cause).removeprefix("CAUSE_")


def phase_of(evaluation):
    return evaluation_pb2.Phase.Name(evaluation.phase).removeprefix("PHASE_")
