import dataclasses

import pytest
from adaexplore_memory.domain import FailureReport

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
KERNEL = """

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    {body}
    tl.store(y_ptr + offsets, y, mask=offsets < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""


@pytest.fixture
def candidate():
    """Source of a candidate whose kernel computes `y` in the given line."""
    return lambda body, head="": HEAD + head + KERNEL.format(body=body)


@pytest.fixture
def failure():
    """A failed compilation, as the evaluator reports it; keywords change its fields."""

    def make(source, detail, **changes):
        report = FailureReport(
            request_id="request-1",
            task_digest="task-1",
            kernel_digest="kernel-1",
            source=source,
            verdict="FAILED",
            cause="COMPILE",
            phase="COMPILE",
            exception_type="AttributeError",
            detail=detail,
            line=9,
            kernel_name="kernel",
            device="CPU",
            target="sm_90",
            triton_version="3.7.1",
        )
        return dataclasses.replace(report, **changes)

    return make
