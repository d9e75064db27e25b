"""Candidates under the real compute-sanitizer; skipped with the reason where it is not installed."""

import pytest
from adaexplore_evaluator.sanitizers import MISSING, find_sanitizer

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

from ..integration.evaluator.conftest import cause_of, start_server, verdict_of

pytestmark = pytest.mark.skipif(find_sanitizer() is None, reason=MISSING)

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.randn(1000)]

def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, scratch, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, {mask})
    if {reads}:
        value += tl.where(tl.load(scratch + at % n) == 12345.25, 1e-30, 0.0)
    tl.store(y + at, value + 1, at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 256),)](x, torch.empty_like(x), y, x.numel(), BLOCK=256)
        return y
"""
RIGHT = KERNEL.format(mask="at < n, other=0.0", reads="False")
# 24 elements beyond the end are read, and never stored.
BEYOND = KERNEL.format(mask="at < n + 24", reads="False")
# Memory that nothing wrote is read, and changes nothing.
UNWRITTEN = KERNEL.format(mask="at < n, other=0.0", reads="True")
# A warp reads what another one writes, without a barrier; what it reads changes nothing.
RACE = """
import torch

SOURCE = '''
extern "C" __global__ void race_kernel(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int at = blockIdx.x * 256 + threadIdx.x;
    float value = at < n ? x[at] : 0.0f;
    tile[threadIdx.x] = value;
    float other = tile[threadIdx.x ^ 32];
    if (at < n) y[at] = value + 1.0f + (other == 12345.25f ? 1e-30f : 0.0f);
}
'''
race_kernel = torch.cuda._compile_kernel(SOURCE, "race_kernel")

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        race_kernel(((x.numel() + 255) // 256, 1, 1), (256, 1, 1), (x, y, x.numel()))
        return y
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("runners"))
    try:
        with EvaluatorClient(server.address) as made:
            yield made
    finally:
        server.process.terminate()
        server.process.wait(timeout=60)
        server.process.stdout.close()


@pytest.mark.parametrize(
    ("kernel", "sanitizer", "verdict", "cause"),
    [
        (RIGHT, evaluation_pb2.SANITIZER_MEMCHECK, "PASSED", "UNSPECIFIED"),
        (RIGHT, evaluation_pb2.SANITIZER_RACECHECK, "PASSED", "UNSPECIFIED"),
        (RIGHT, evaluation_pb2.SANITIZER_SYNCCHECK, "PASSED", "UNSPECIFIED"),
        (BEYOND, evaluation_pb2.SANITIZER_MEMCHECK, "FAILED", "MEMORY"),
        (RACE, evaluation_pb2.SANITIZER_RACECHECK, "FAILED", "NONDETERMINISTIC"),
        (UNWRITTEN, evaluation_pb2.SANITIZER_INITCHECK, "FAILED", "MEMORY"),
    ],
)
def test_a_sanitizer_finds_what_changes_no_result(client, kernel, sanitizer, verdict, cause):
    request = pb.EvaluateKernelRequest(
        task=task_pb2.Task(name="task.py", source=TASK),
        kernel=kernel_pb2.Kernel(source=kernel),
        device=kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA),
        sanitizer=sanitizer,
    )
    evaluation = list(client.evaluate_kernel(request))[-1].evaluation
    assert (verdict_of(evaluation), cause_of(evaluation)) == (verdict, cause), evaluation.failure.message
    assert evaluation.sanitization.version
