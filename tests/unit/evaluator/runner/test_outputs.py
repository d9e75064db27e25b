import pytest
import torch
from adaexplore_evaluator.runner.outputs import EarlierOutputs, _digest_on_gpu
from adaexplore_evaluator.runner.wire import encode_types

HEAD = """import torch


class ModelNew(torch.nn.Module):
    kept = []
    calls = 0

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.calls += 1
"""
AGAIN = "self.kept.append(x + 1)\n        return self.kept[0]"
RING = "buffers = [torch.empty_like(x) for _ in range(3)] if not self.kept else []\n        self.kept.extend(buffers)\n"


def answers(candidate, write, body, calls):
    path = write(HEAD + "        " + body + "\n")
    candidate.get("load_candidate", path=path, entry_points=["ModelNew"], format="module", target="sm_90", precision="fp32")
    candidate.get("construct", init_inputs=encode_types([]), seed=1)
    replies = []
    for number in range(calls):
        inputs = candidate.buffers.encode([torch.full((4,), float(number))])
        replies.append(candidate.ask("run", inputs=inputs, poison=1, order_seed=0, interpret=True))
    return replies


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("self.kept.append(torch.empty_like(x)) if not self.kept else None\n        return torch.add(x, 1, out=self.kept[0])", 2),
        (RING + "        return torch.add(x, 1, out=self.kept[self.calls % 3])", 4),
        ("self.kept.append(x + 1)\n        self.kept[0].fill_(self.calls)\n        return self.kept[-1]", 2),
    ],
)
def test_outputs_that_a_later_call_overwrites_are_refused(candidate, write, body, calls):
    *before, last = answers(candidate, write, body, calls)
    assert all(reply["ok"] for reply in before)
    assert (last["ok"], last["error"]["kind"]) == (False, "memory")
    assert "allocate the output in forward" in last["error"]["message"]


@pytest.mark.parametrize("body", ["return x + 1", "return x", "return x[1:], self.weight", "return torch.empty(0), x.sum(), x > 1", AGAIN])
def test_fresh_outputs_inputs_parameters_and_kept_constants_are_fine(candidate, write, body):
    assert all(reply["ok"] for reply in answers(candidate, write, body, 4))


def test_what_is_kept_alive_is_bounded():
    earlier = EarlierOutputs(kept_bytes=1000)
    first = torch.zeros(100)
    earlier.demand_untouched([first], [])
    for _ in range(3):
        earlier.demand_untouched([torch.zeros(100)], [])
    first.fill_(1)
    earlier.demand_untouched([torch.zeros(100)], [])


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_outputs_that_begin_between_words_are_summarised(start):
    tensor = torch.arange(11, dtype=torch.uint8)[start:]
    before = _digest_on_gpu(tensor)
    assert before == _digest_on_gpu(tensor.clone())
    tensor[-1] += 1
    assert before != _digest_on_gpu(tensor)


@pytest.mark.parametrize(
    "body", ["return torch._neg_view(x)", "return torch.complex(x, x).conj()", "return torch.complex(x, x).conj().imag"]
)
def test_a_view_that_is_conjugate_or_negative_by_a_mark_alone_is_an_output_like_others(candidate, write, body):
    first, second = answers(candidate, write, body, 2)
    assert (first["ok"], second["ok"]) == (True, True)
    found = candidate.buffers.decode(second["outputs"], shared=False)
    assert not found.is_conj()
    assert not found.is_neg()
    part = found.imag if found.is_complex() else found
    assert torch.all(part == -1.0)
