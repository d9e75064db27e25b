"""The least time of a task at ceilings that were measured."""

import pytest
from adaexplore_evaluator.devices.cpu.ceilings import Ceilings, roofline_us
from adaexplore_evaluator.devices.cpu.graph import MalformedGraphError

from .graph_writer import GraphWriter

CEILINGS = Ceilings(bytes_per_second=4e12, product_flops_per_second=5e13, other_flops_per_second=2.5e13)


def test_a_chain_of_pointwise_operators_moves_its_input_and_its_output_once():
    graph = GraphWriter()
    x = graph.value("x", 1000, 1000)
    graph.value("unused", 1000, 1000)
    y = graph.call("aten.relu.default", x, shape=(1000, 1000), flops=1e6)
    z = graph.call("aten.mul.Tensor", y, x, shape=(1000, 1000), flops=1e6)
    assert roofline_us(graph.graph(z), CEILINGS) == pytest.approx(1e6 * 2 * 4e6 / 4e12)


def test_a_large_product_is_bound_by_its_operations_and_what_follows_runs_beside_it():
    graph = GraphWriter()
    a, b = graph.value("a", 4096, 4096), graph.value("b", 4096, 4096, kind="PARAMETER")
    c = graph.call("aten.mm.default", a, b, shape=(4096, 4096), flops=2.0 * 4096**3)
    d = graph.call("aten.gelu.default", c, shape=(4096, 4096), flops=20.0 * 4096**2)
    assert roofline_us(graph.graph(d), CEILINGS) == pytest.approx(1e6 * 2.0 * 4096**3 / 5e13)


def test_an_input_that_is_returned_is_not_written():
    graph = GraphWriter()
    x = graph.value("x", 1000)
    assert roofline_us(graph.graph(x), CEILINGS) == 0.0


def test_what_is_no_graph_is_refused():
    with pytest.raises(MalformedGraphError):
        roofline_us({"values": [], "calls": [], "outputs": ["nowhere"]}, CEILINGS)
