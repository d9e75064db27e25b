"""Case-based function tasks on the cpu device: a reference, a line of #, and a test that names its cases."""

import re
from dataclasses import dataclass

import pytest

from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.types.v1 import kernel_pb2, task_pb2

from .conftest import cause_of, evaluate, verdict_of

SEPARATOR = "\n\n" + "#" * 146 + "\n\n"

SCALED_SUM = (
    '''
import torch

def scaled_sum(x, y, alpha=1.0, *, out=None):
    """Adds alpha * y to x."""
    return torch.add(x, y, alpha=alpha, out=out)
'''
    + SEPARATOR
    + """
import torch
from data_utils import rand_tensor

def test_scaled_sum():
    results = {}
    x = torch.tensor([1.0, -2.0, 3.0], device="cuda")
    y = torch.tensor([4.0, 5.0, -6.0], device="cuda")
    results["three_elements"] = scaled_sum(x, y)
    results["by_keyword"] = scaled_sum(x, y, alpha=0.5)
    results["in_half"] = scaled_sum(rand_tensor((33,), dtype=torch.float16), rand_tensor((33,), dtype=torch.float16), alpha=2.0)
    target = torch.empty(3, device="cuda")
    results["into_a_tensor"] = scaled_sum(x, y, out=target)
    for mode in ("standard", "outlier"):
        results[f"random_{mode}"] = [scaled_sum(rand_tensor((37, 29), mode=mode), rand_tensor((37, 29), mode=mode)) for _ in range(2)]
    return results

test_results = test_scaled_sum()
"""
)

SUM_KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def sum_kernel(x, y, o, n, alpha, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32) + alpha * tl.load(y + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(o + at, value.to(o.dtype.element_ty), mask=mask)

def ENTRY(x, y, alpha=1.0, *, out=None):
    target = torch.empty_like(x) if out is None else out
    sum_kernel[(triton.cdiv(x.numel(), 256),)](x, y, target, x.numel(), alpha, BLOCK=256)
    return target
""".replace("ENTRY", "scaled_sum")

ORTHOGONAL = (
    """
import torch

def orthogonal(A):
    return torch.linalg.qr(A)
"""
    + SEPARATOR
    + """
def test_orthogonal():
    results = {"small": orthogonal(torch.tensor([[3.0, 1.0], [1.0, 2.0], [0.5, 4.0]], device="cuda"))}
    results["random"] = orthogonal(torch.randn(3, 12, 7, device="cuda"))
    return results
"""
)

CONTRACT = (
    '''
import torch

def product_w8a8(a, b):
    """Product of two matrices, quantised at runtime.

    - Activations: per-row scales.
    - Weights: per-column scales.

    Accuracy requirement (against fp32): cosine_sim >= 0.95, l1_relative <= 0.05, rmse <= LIMIT.
    """
    return a @ b
'''
    + SEPARATOR
    + """
def test_product_w8a8():
    return {"random": product_w8a8(torch.randn(24, 64, device="cuda"), torch.randn(64, 40, device="cuda"))}
"""
)

QUANTISED = """
import torch

def rounded(x, dim):
    step = x.abs().amax(dim, keepdim=True) / BITS
    return torch.round(x / step) * step

def kernel_function(a, b):
    return rounded(a, 1) @ rounded(b, 0)
"""

DROPOUT = (
    """
import torch

def dropped(x, p=0.5):
    return torch.nn.functional.dropout(x, p=p, training=True)
"""
    + SEPARATOR
    + """
def test_dropped():
    return {"half": dropped(torch.randn(64, 96, device="cuda")), "few": dropped(torch.randn(64, 96, device="cuda"), p=0.1)}
"""
)

TIMED = (
    """
import torch

def doubled(x):
    return x * 2
"""
    + SEPARATOR
    + """
def test_doubled():
    return {"one": doubled(torch.ones(1, device="cuda")), "odd": doubled(torch.randn(999, device="cuda"))}

def get_inputs():
    return [torch.randn(4096, 4096, device="cuda")]
"""
)

DOUBLED = """
import torch
import triton
import triton.language as tl

@triton.jit
def double_kernel(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

def doubled(x):
    o = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 1024),)](x, o, x.numel(), BLOCK=1024)
    return o
"""


def judged(client, source, candidate):
    message = task_pb2.Task(name="mine.py", source=source)
    return evaluate(client, message, kernel_pb2.Kernel(source=candidate))[0]


def families(found):
    return [item.family for item in found.checks]


@pytest.mark.parametrize("name", ["scaled_sum", "kernel_function"])
def test_every_named_case_is_compared(client, name):
    found = judged(client, SCALED_SUM, SUM_KERNEL.replace("def scaled_sum", f"def {name}"))
    assert verdict_of(found) == "PASSED", found.failure.message
    named = {"three_elements", "by_keyword", "in_half", "into_a_tensor", "random_standard[1]", "random_outlier[0]", "random_outlier[1]"}
    assert named <= set(families(found))
    assert {"own", "own_second_seed", "negated", "one_element"} <= set(families(found))


@dataclass(frozen=True)
class Wrong:
    old: str
    new: str
    causes: tuple
    says: str


WRONG = {
    "an argument by keyword that is ignored": Wrong("alpha * tl.load", "tl.load", ("NUMERIC",), "by_keyword|in_half"),
    "a result that is not written to out": Wrong("if out is None else out", "", ("NUMERIC", "SPECIAL_VALUES"), "into_a_tensor"),
    "float32 where a case has float16": Wrong("torch.empty_like(x)", "torch.empty_like(x, dtype=torch.float32)", ("DTYPE",), "in_half"),
    "another input that is written to": Wrong("return target", "y.zero_()\n    return target", ("MEMORY",), "input 1"),
    "a keyword under another name": Wrong("y, alpha=1.0", "y, beta=1.0", ("RUNTIME",), "alpha"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_one_case_demands_fails_there(client, wrong):
    found = judged(client, SCALED_SUM, SUM_KERNEL.replace(wrong.old, wrong.new))
    assert verdict_of(found) == "FAILED"
    assert cause_of(found) in wrong.causes
    assert re.search(wrong.says, found.failure.message), found.failure.message


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("return q, r", "PASSED"),
        ("return -q, -r", "PASSED"),
        ("signs = torch.sign(torch.randn(q.shape[-1], device=A.device))\n    return q * signs, r * signs[:, None]", "PASSED"),
        ("return 2 * q, r / 2", "FAILED"),
        ("return q @ torch.roll(torch.eye(q.shape[-1], device=A.device), 1, 0), torch.roll(r, -1, -2)", "FAILED"),
        ("return torch.zeros_like(q), r", "FAILED"),
    ],
)
def test_a_decomposition_is_compared_by_its_invariants(client, answer, verdict):
    found = judged(client, ORTHOGONAL, f"import torch\n\ndef orthogonal(A):\n    q, r = torch.linalg.qr(A)\n    {answer}\n")
    assert verdict_of(found) == verdict, found.failure.message


@pytest.mark.parametrize(("steps", "verdict"), [("127", "PASSED"), ("3", "FAILED")])
def test_a_contract_judges_what_is_quantised(client, steps, verdict):
    found = judged(client, CONTRACT.replace("LIMIT", "0.5"), QUANTISED.replace("BITS", steps))
    assert verdict_of(found) == verdict, found.failure.message


def test_a_contract_that_its_own_scheme_breaks_invalidates_the_task(client):
    found = judged(client, CONTRACT.replace("LIMIT", "0.01"), QUANTISED.replace("BITS", "127"))
    assert (verdict_of(found), cause_of(found)) == ("TASK_INVALID", "UNSATISFIABLE")
    assert "row and column" in found.failure.message
    assert "RMSE" in found.failure.message


DROPPED = """
import torch

def dropped(x, p=0.5):
    keep = torch.rand(x.shape, device=x.device) >= p
    return SCALED
"""


@pytest.mark.parametrize(
    ("answer", "verdict", "says"),
    [
        ("x * keep / (1 - p)", "PASSED", ""),
        ("x * keep", "FAILED", "distribution"),
        ("x", "FAILED", "distribution"),
        ("x * (torch.rand(x.shape, device=x.device, generator=torch.Generator().manual_seed(0)) >= p) / (1 - p)", "FAILED", "same random"),
    ],
)
def test_what_is_random_is_compared_as_a_distribution(client, answer, verdict, says):
    found = judged(client, DROPOUT, DROPPED.replace("SCALED", answer))
    assert verdict_of(found) == verdict, found.failure.message
    assert says in found.failure.message


def test_timed_inputs_are_judged_beside_the_named_cases(client):
    found = judged(client, TIMED, DOUBLED)
    assert verdict_of(found) == "PASSED", found.failure.message
    assert {"own", "one", "odd"} <= set(families(found))
    described = client.describe_task(pb.DescribeTaskRequest(task=task_pb2.Task(name="mine.py", source=TIMED)), 500).description
    assert list(described.inputs[0].tensor.shape) == [4096, 4096]
