"""`audit` and `evaluate --batch` over folders, as a user runs them."""

import json

import pytest

RELU = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


@pytest.fixture
def run(adaexplore, evaluator_address):
    def command(*words, reached=True):
        address = evaluator_address if reached else "127.0.0.1:1"
        return adaexplore(*words, environ={"ADAEXPLORE_ADDRESS_EVALUATOR": address})

    return command


def test_a_collection_is_audited_and_what_has_a_row_is_not_audited_again(run, tmp_path):
    folder, rows = tmp_path / "tasks", tmp_path / "rows.jsonl"
    folder.mkdir()
    (folder / "relu.py").write_text(RELU)
    (folder / "zeros.py").write_text(RELU.replace("torch.relu(x)", "torch.zeros_like(x)"))
    (folder / "broken.py").write_text("def broken(:\n")
    (folder / "empty.py").write_text("")
    done = run("audit", folder, "--out", rows, "--json")
    assert done.code == 0, done.err
    assert done.json["results"] == {"VALID": 1, "DEGENERATE": 1, "REFERENCE_FAILS": 1, "REFUSED": 1}
    found = {row["key"].split("/")[0]: row for row in map(json.loads, rows.read_text().splitlines())}
    assert found["relu"]["baselines"]["eager"] > 0
    assert "line 1" in found["broken"]["message"]
    assert "empty" in found["empty"]["refused"]
    again = run("audit", folder, "--out", rows, reached=False)
    assert again.code == 0
    assert "4 tasks" in again.out
    (folder / "relu.py").write_text(RELU.replace("relu(x)", "relu(x) * 2"))
    lost = run("audit", folder, "--out", rows, "--json", reached=False)
    assert lost.code == 1
    assert lost.json["results"]["NO_ANSWER"] == 1


def test_a_batch_of_kernels_gets_a_row_each(run, tmp_path):
    folder = tmp_path / "batch" / "relu"
    folder.mkdir(parents=True)
    (folder / "task.py").write_text(RELU)
    (folder / "right.py").write_text(KERNEL)
    (folder / "wrong.py").write_text(KERNEL.replace("0.0)", "1.0)"))
    done = run("evaluate", "--batch", folder.parent, "--out", tmp_path / "rows.jsonl")
    assert done.code == 0, done.err
    assert "relu/right: PASSED" in done.out
    assert "relu/wrong: FAILED NUMERIC" in done.out
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["name"]: row["timing"]["status"] for row in rows} == {"relu/right": "ESTIMATED", "relu/wrong": "NOT_RUN"}


@pytest.mark.parametrize(("words", "said"), [([], "or --batch"), (["--batch", "nowhere", "task.py", "kernel.py"], "not both")])
def test_one_kernel_and_a_batch_exclude_each_other(run, words, said):
    done = run("evaluate", *words)
    assert done.code == 2
    assert said in done.err
