"""The operator graph."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from adaexplore_evaluator.runner.graph import TraceError, trace
from google.protobuf import json_format
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from adaexplore.types.v1 import task_pb2


def graph_of(module, *shapes, dtype=torch.float32):
    with FakeTensorMode(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        instance = module()
        graph = trace(instance, [torch.empty(shape, dtype=dtype) for shape in shapes], ["x", "y", "z"], __file__)
    return json_format.ParseDict(graph, task_pb2.OperatorGraph())


class Block(nn.Module):
    def __init__(self, rows=1 << 20):
        super().__init__()
        self.norm = nn.LayerNorm(512)
        self.linear = nn.Linear(512, 256)

    def forward(self, x):
        return torch.softmax(nn.functional.gelu(self.linear(self.norm(x)), approximate="tanh"), dim=-1)


def test_composite_operators_stay_whole_and_parameters_keep_their_names():
    graph = graph_of(Block, (1 << 20, 512))
    operators = ["aten.layer_norm.default", "aten.linear.default", "aten.gelu.default", "aten.softmax.int"]
    assert [call.operator for call in graph.calls] == operators
    parameters = {value.state_name for value in graph.values if value.kind == task_pb2.VALUE_KIND_PARAMETER}
    assert parameters == {"norm.weight", "norm.bias", "linear.weight", "linear.bias"}
    (source,) = (value for value in graph.values if value.kind == task_pb2.VALUE_KIND_INPUT)
    assert (source.state_name, list(source.type.shape), list(source.type.strides)) == ("x", [1 << 20, 512], [512, 1])
    assert list(graph.outputs) == list(graph.calls[-1].results)
    assert graph.calls[2].kwargs["approximate"].string_value == "tanh"


def test_calls_are_linked_in_order_and_every_value_is_listed():
    graph = graph_of(Block, (8, 512))
    known = {value.name for value in graph.values}
    made = {value.name for value in graph.values if value.kind != task_pb2.VALUE_KIND_RESULT}
    for call in graph.calls:
        assert {item.value_name for item in call.args if item.value_name} <= made
        made.update(call.results)
    assert made == known


def test_flops_and_bytes_are_those_of_the_full_shape():
    rows = 1 << 20
    norm, linear, gelu, softmax = graph_of(Block, (rows, 512)).calls
    assert linear.flops == 2 * rows * 512 * 256 + rows * 256
    assert linear.bytes_read == 4 * (rows * 512 + 512 * 256 + 256)
    assert linear.bytes_written == softmax.bytes_written == 4 * rows * 256
    assert norm.flops > rows * 512
    assert gelu.bytes_read == 4 * rows * 256


def test_a_convolution_counts_its_multiply_adds():
    (call,) = graph_of(lambda: nn.Conv2d(16, 32, 3, padding=1, bias=False), (4, 16, 10, 12)).calls
    assert call.operator == "aten.conv2d.default"
    assert call.flops == 2 * 4 * 32 * 10 * 12 * 16 * 9


def test_views_move_nothing_and_copies_do():
    class Views(nn.Module):
        def forward(self, x):
            y = x.t().reshape(-1)[3:]
            return x.view(-1)[None].expand(4, -1), y, x.contiguous()

    calls = {call.operator: call for call in graph_of(Views, (6, 5)).calls}
    for name in ("aten.t.default", "aten.view.default", "aten.expand.default", "aten.slice.Tensor"):
        assert (calls[name].bytes_read, calls[name].bytes_written, calls[name].flops) == (0, 0, 0), name
    assert calls["aten.reshape.default"].bytes_written == 6 * 5 * 4


def test_several_results_infinities_and_dtypes_fit_the_message():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.zeros(4, 4, dtype=torch.bool))

        def forward(self, x):
            values, indices = torch.max(x.masked_fill(self.mask, -math.inf), dim=1)
            return values.to(torch.float16), indices

    graph = graph_of(Mixed, (4, 4))
    fill = next(call for call in graph.calls if "masked_fill" in call.operator)
    assert fill.args[2].float_value == -math.inf
    assert {value.state_name for value in graph.values if value.kind == task_pb2.VALUE_KIND_BUFFER} == {"mask"}
    types = {value.name: value.type.dtype for value in graph.values}
    assert [types[name] for name in graph.outputs] == [task_pb2.D_TYPE_FLOAT16, task_pb2.D_TYPE_INT64]


def test_the_line_is_the_one_of_the_task():
    line = Block.forward.__code__.co_firstlineno + 1
    assert {call.line for call in graph_of(Block, (8, 512)).calls} == {line}


def test_a_reference_that_reads_values_has_no_graph_but_a_reason():
    class Reads(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match=r"torch\.export"):
        graph_of(Reads, (3,))
