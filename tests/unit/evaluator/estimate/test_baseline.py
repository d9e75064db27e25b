"""Baselines: how many kernels eager and torch.compile launch for a graph, and how long they take by the same model."""

from __future__ import annotations

from typing import Any

import pytest
from adaexplore_evaluator.devices.cpu import (
    BaselineKind,
    MalformedGraphError,
    UnknownTargetError,
    datasheet,
    estimate_baselines,
    estimate_candidate,
)
from hypothesis import given
from hypothesis import strategies as st
from unit.evaluator.estimate.graph_writer import GraphWriter

N = 8192


def launches(graph: dict[str, Any], target: str = "sm_90") -> tuple[int, int]:
    eager, compiled = estimate_baselines(graph, target=target, precision="fp32")
    return eager.launches, compiled.launches


def latencies_us(graph: dict[str, Any], target: str = "sm_90", precision: str = "fp32") -> tuple[float, float]:
    eager, compiled = estimate_baselines(graph, target=target, precision=precision)
    return eager.median_us, compiled.median_us


def compiled_bytes(graph: dict[str, Any]) -> list[float]:
    _, compiled = estimate_baselines(graph, target="sm_90", precision="fp32")
    return [launch.dram_bytes for launch in compiled.estimate.launches]


def chain(writer: GraphWriter, length: int, rows: int = N, columns: int = N) -> dict[str, Any]:
    value = writer.value("x", rows, columns)
    for _ in range(length):
        value = writer.call("aten.relu.default", value, shape=(rows, columns))
    return writer.graph(value)


def test_a_baseline_says_its_kind_median_and_launches(writer: GraphWriter) -> None:
    eager, compiled = estimate_baselines(chain(writer, 3), target="sm_90", precision="fp32")
    assert (eager.kind, eager.launches) == (BaselineKind.EAGER, 3)
    assert (compiled.kind, compiled.launches) == (BaselineKind.COMPILED, 1)
    assert eager.median_us == pytest.approx(3 * compiled.median_us)
    assert "not measured" in compiled.estimate.explanation


@given(length=st.integers(1, 12))
def test_a_pointwise_chain_is_one_compiled_kernel_that_reads_and_writes_once(length: int) -> None:
    graph = chain(GraphWriter(), length)
    assert launches(graph) == (length, 1)
    assert compiled_bytes(graph) == [8 * N * N]


def test_views_launch_nothing(writer: GraphWriter) -> None:
    x = writer.value("x", N, N)
    view = writer.call("aten.view.default", x, [N * N], shape=(N * N,), view=True)
    turned = writer.call("aten.permute.default", x, [1, 0], shape=(N, N), view=True)
    assert launches(writer.graph(view, turned)) == (0, 0)


def test_halves_of_a_tensor_are_read_once_each(writer: GraphWriter) -> None:
    x = writer.value("x", N, 2 * N)
    gate = writer.call("aten.slice.Tensor", x, 1, 0, N, shape=(N, N), view=True)
    value = writer.call("aten.slice.Tensor", x, 1, N, 2 * N, shape=(N, N), view=True)
    gated = writer.call("aten.mul.Tensor", writer.call("aten.silu.default", gate, shape=(N, N)), value, shape=(N, N))
    assert launches(writer.graph(gated)) == (2, 1)
    assert compiled_bytes(writer.graph(gated)) == [12 * N * N]


def test_an_intermediate_that_the_task_returns_is_written(writer: GraphWriter) -> None:
    x = writer.value("x", N, N)
    first = writer.call("aten.relu.default", x, shape=(N, N))
    second = writer.call("aten.tanh.default", first, shape=(N, N))
    assert compiled_bytes(writer.graph(first, second)) == [12 * N * N]


def test_a_broadcast_row_is_read_once(writer: GraphWriter) -> None:
    total = writer.call("aten.add.Tensor", writer.value("x", N, N), writer.value("bias", N, kind="PARAMETER"), shape=(N, N))
    assert compiled_bytes(writer.graph(total)) == [8 * N * N + 4 * N]


def softmax(writer: GraphWriter, rows: int, columns: int, before: int = 0, after: int = 0) -> dict[str, Any]:
    value = writer.value("x", rows, columns)
    for _ in range(before):
        value = writer.call("aten.mul.Tensor", value, 2.0, shape=(rows, columns))
    value = writer.call("aten.softmax.int", value, 1, shape=(rows, columns))
    for _ in range(after):
        value = writer.call("aten.mul.Tensor", value, 2.0, shape=(rows, columns))
    return writer.graph(value)


def test_softmax_fuses_with_what_comes_before_and_after_over_the_same_rows(writer: GraphWriter) -> None:
    assert launches(softmax(writer, N, 1024, before=2, after=1)) == (4, 1)


def test_rows_that_stay_in_registers_are_read_once_and_long_ones_again() -> None:
    elements = 1 << 28
    short = latencies_us(softmax(GraphWriter(), elements // 1024, 1024))
    long = latencies_us(softmax(GraphWriter(), elements // 262144, 262144))
    assert short[0] == pytest.approx(short[1])
    assert long[1] == pytest.approx(1.5 * short[1], rel=0.05)  # a second read beside one read and one write
    assert long[0] == pytest.approx(2.0 * short[0], rel=0.05)  # eager reads long rows three times


def test_eager_softmax_of_middling_rows_is_slower_than_the_same_bytes_compiled() -> None:
    eager, compiled = latencies_us(softmax(GraphWriter(), N, 8192))
    assert eager > 1.5 * compiled


@pytest.mark.parametrize("operand", ["broadcast", "strided"])
def test_eager_mode_is_slower_where_an_operand_is_broadcast_or_strided(operand: str) -> None:
    def add(other: str, writer: GraphWriter) -> tuple[float, float]:
        return latencies_us(writer.graph(writer.call("aten.add.Tensor", writer.value("x", N, N), other, shape=(N, N))))

    plain, odd = GraphWriter(), GraphWriter()
    other = odd.value("other", N, 1) if operand == "broadcast" else odd.value("other", N, N)
    if operand == "strided":
        odd.values["other"]["type"]["strides"] = [1, N]
    straight, crooked = add(plain.value("other", N, N), plain), add(other, odd)
    per_byte = 2 / 3 if operand == "broadcast" else 1.0
    assert crooked[0] > 1.4 * per_byte * straight[0]
    assert crooked[1] <= 1.01 * straight[1]


def test_a_thin_product_of_a_library_does_not_hide_its_result_behind_its_arithmetic() -> None:
    def thin(inner: int) -> float:
        writer = GraphWriter()
        operands = writer.value("a", 2 * N, inner), writer.value("b", inner, 4096)
        return latencies_us(writer.graph(writer.call("aten.mm.default", *operands, shape=(2 * N, 4096), flops=4.0 * N * inner * 4096)))[1]

    written_us = 1e6 * 4 * 2 * N * 4096 / datasheet("sm_90").dram_bytes_per_second
    arithmetic_us = 1e6 * 4.0 * N * 16 * 4096 / datasheet("sm_90").fp32_flops_per_second
    assert thin(16) > written_us + arithmetic_us
    assert thin(4096) < 256 * (thin(16) - 0.9 * written_us)


def test_logsumexp_is_a_chain_in_eager_and_one_kernel_compiled(writer: GraphWriter) -> None:
    result = writer.call("aten.logsumexp.default", writer.value("x", N, N), [1], shape=(N,))
    eager, compiled = latencies_us(writer.graph(result))
    assert launches(writer.graph(result)) == (9, 1)
    assert eager > 4 * compiled


def rms_norm(writer: GraphWriter, rows: int, columns: int) -> dict[str, Any]:
    x, weight = writer.value("x", rows, columns), writer.value("w", columns, kind="PARAMETER")
    square = writer.call("aten.mul.Tensor", x, x, shape=(rows, columns))
    mean = writer.call("aten.mean.dim", square, [-1], True, shape=(rows, 1))
    scale = writer.call("aten.rsqrt.default", writer.call("aten.add.Tensor", mean, 1e-6, shape=(rows, 1)), shape=(rows, 1))
    normal = writer.call("aten.mul.Tensor", x, scale, shape=(rows, columns))
    return writer.graph(writer.call("aten.mul.Tensor", normal, weight, shape=(rows, columns)))


def test_a_norm_spelled_out_is_one_compiled_kernel(writer: GraphWriter) -> None:
    assert launches(rms_norm(writer, N, 4096)) == (6, 1)


def test_two_reductions_of_the_same_rows_share_a_kernel(writer: GraphWriter) -> None:
    x = writer.value("x", N, N)
    results = [writer.call(f"aten.{name}.default", x, [1], shape=(N,)) for name in ("amax", "amin")]
    assert launches(writer.graph(*results)) == (2, 1)
    assert compiled_bytes(writer.graph(*results)) == [4 * N * N + 8 * N]


def test_reductions_over_different_axes_stay_apart(writer: GraphWriter) -> None:
    x = writer.value("x", N, N)
    results = [writer.call("aten.sum.dim_IntList", x, [dim], shape=(N,)) for dim in (0, 1)]
    assert launches(writer.graph(*results))[1] >= 2


def test_a_full_reduction_is_split_in_two_kernels(writer: GraphWriter) -> None:
    x = writer.value("x", N, N)
    assert launches(writer.graph(writer.call("aten.sum.default", writer.call("aten.relu.default", x, shape=(N, N)), shape=()))) == (2, 2)


def test_a_linear_layer_stays_a_library_call_and_its_epilogue_is_one_kernel(writer: GraphWriter) -> None:
    x, weight, bias = writer.value("x", 1024, N), writer.value("w", N, N, kind="PARAMETER"), writer.value("b", N, kind="PARAMETER")
    value = writer.call("aten.linear.default", x, weight, bias, shape=(1024, N), flops=2.0 * 1024 * N * N)
    for name in ("mul.Tensor", "leaky_relu.default"):
        value = writer.call(f"aten.{name}", value, 2.0, shape=(1024, N))
    assert launches(writer.graph(value)) == (3, 2)
    _, compiled = estimate_baselines(writer.graph(value), target="sm_90", precision="fp32")
    assert [launch.bound_by for launch in compiled.estimate.launches] == ["fp32", "dram"]


def test_a_product_is_faster_in_a_class_that_may_use_tensor_cores(writer: GraphWriter) -> None:
    value = writer.call("aten.mm.default", writer.value("a", N, N), writer.value("b", N, N), shape=(N, N), flops=2.0 * N**3)
    figures = [latencies_us(writer.graph(value), precision=precision)[1] for precision in ("fp32", "tf32", "bf16")]
    assert figures == sorted(figures, reverse=True)
    assert figures[0] > 5 * figures[1]


def test_the_bias_of_a_convolution_is_a_kernel_of_its_own(writer: GraphWriter) -> None:
    shape = (16, 64, 128, 128)
    operands = (writer.value("x", *shape), writer.value("w", 64, 64, 3, 3, kind="PARAMETER"), writer.value("b", 64, kind="PARAMETER"))
    plain = writer.call("aten.conv2d.default", *operands[:2], None, [1, 1], [1, 1], shape=shape, flops=1e10)
    assert launches(writer.graph(plain)) == (1, 1)
    biased = GraphWriter()
    operands = (biased.value("x", *shape), biased.value("w", 64, 64, 3, 3, kind="PARAMETER"), biased.value("b", 64, kind="PARAMETER"))
    value = biased.call("aten.conv2d.default", *operands, [1, 1], [1, 1], shape=shape, flops=1e10)
    value = biased.call("aten.relu.default", value, shape=shape)
    assert launches(biased.graph(value)) == (3, 2)


def test_cross_entropy_never_writes_the_log_softmax_when_compiled(writer: GraphWriter) -> None:
    labels = writer.value("labels", 4096, dtype="INT64")
    loss = writer.call("aten.cross_entropy_loss.default", writer.value("x", 4096, 32000), labels, shape=())
    eager, compiled = latencies_us(writer.graph(loss))
    assert launches(writer.graph(loss)) == (2, 2)
    assert eager > 2 * compiled
    assert sum(compiled_bytes(writer.graph(loss))) < 1.01 * 4 * 4096 * 32000


@pytest.mark.parametrize(("training", "eager", "compiled"), [(True, 2, 2), (False, 1, 1)])
def test_batch_norm_is_pointwise_outside_of_training(writer: GraphWriter, training: bool, eager: int, compiled: int) -> None:
    state = [writer.value(name, 256, kind="BUFFER") for name in ("w", "b", "mean", "var")]
    value = writer.call("aten.batch_norm.default", writer.value("x", 16384, 256), *state, training, 0.1, 1e-5, True, shape=(16384, 256))
    found = launches(writer.graph(value))
    assert found[0] == eager
    assert found[1] >= compiled


def test_group_norm_is_three_kernels_in_eager_and_one_compiled(writer: GraphWriter) -> None:
    affine = [writer.value(name, 4096, kind="PARAMETER") for name in ("w", "b")]
    value = writer.call("aten.group_norm.default", writer.value("x", N, 4096), 64, *affine, 1e-5, shape=(N, 4096))
    assert launches(writer.graph(value)) == (3, 1)


def test_mse_loss_writes_its_terms_in_eager_and_not_when_compiled(writer: GraphWriter) -> None:
    loss = writer.call("aten.mse_loss.default", writer.value("x", N, N), writer.value("y", N, N), shape=())
    eager, compiled = latencies_us(writer.graph(loss))
    assert launches(writer.graph(loss)) == (2, 2)
    assert eager > 1.8 * compiled


def test_dropout_outside_of_training_is_nothing(writer: GraphWriter) -> None:
    value = writer.call("aten.dropout.default", writer.value("x", N, N), 0.5, False, shape=(N, N))
    value = writer.call("aten.relu.default", value, shape=(N, N))
    assert launches(writer.graph(value)) == (1, 1)


def test_an_unknown_operator_is_one_kernel_that_fuses_with_nothing(writer: GraphWriter) -> None:
    value = writer.call("aten.relu.default", writer.value("x", N, N), shape=(N, N))
    value = writer.call("aten.some_new_thing.default", value, shape=(N, N))
    value = writer.call("aten.relu.default", value, shape=(N, N))
    assert launches(writer.graph(value)) == (3, 3)
    assert latencies_us(writer.graph(value))[0] == pytest.approx(latencies_us(writer.graph(value))[1])


def test_unused_results_are_dropped_by_the_compiler_only(writer: GraphWriter) -> None:
    x = writer.value("x", N, N)
    writer.call("aten.tanh.default", x, shape=(N, N))
    used = writer.call("aten.relu.default", x, shape=(N, N))
    assert launches(writer.graph(used)) == (2, 1)


def test_kernels_are_ordered_and_do_not_wait_for_each_other_in_a_circle(writer: GraphWriter) -> None:
    x, weight = writer.value("x", 1024, 1024), writer.value("w", 1024, 1024, kind="PARAMETER")
    left = writer.call("aten.relu.default", x, shape=(1024, 1024))
    product = writer.call("aten.mm.default", left, weight, shape=(1024, 1024), flops=2.0 * 1024**3)
    both = writer.call("aten.add.Tensor", product, left, shape=(1024, 1024))
    _, compiled = estimate_baselines(writer.graph(both), target="sm_90", precision="fp32")
    assert [launch.name.split(".")[-1] for launch in compiled.estimate.launches][1] == "default"
    assert compiled.launches == 3


@given(lengths=st.lists(st.integers(0, 3), min_size=1, max_size=4), columns=st.sampled_from([64, 1000, 4096, 100_000]))
def test_compiling_never_adds_bytes_or_launches_to_chains_of_softmaxes(lengths: list[int], columns: int) -> None:
    writer = GraphWriter()
    value = writer.value("x", 2048, columns)
    for length in lengths:
        for _ in range(length):
            value = writer.call("aten.relu.default", value, shape=(2048, columns))
        value = writer.call("aten.softmax.int", value, 1, shape=(2048, columns))
    eager, compiled = estimate_baselines(writer.graph(value), target="sm_90", precision="fp32")
    assert compiled.launches <= eager.launches
    assert sum(item.dram_bytes for item in compiled.estimate.launches) <= sum(item.dram_bytes for item in eager.estimate.launches)


def test_a_candidate_that_calls_what_the_task_calls_is_not_faster_than_eager(writer: GraphWriter) -> None:
    rows, columns = 1024, 262144
    graph = softmax(writer, rows, columns, after=1)
    size = 4 * rows * columns
    calls = [
        {"kind": "operator", "name": name, "bytes_read": size, "bytes_written": size, "flops": 0.0, "view": False, "count": 1}
        for name in ("aten._softmax.default", "aten.mul.Tensor")
    ]
    eager, _ = estimate_baselines(graph, target="sm_90", precision="fp32")
    candidate = estimate_candidate(calls, target="sm_90", precision="fp32", graph=graph)
    assert candidate.median_us == pytest.approx(eager.median_us)
    assert candidate.device_kernels == 2


def test_views_of_a_candidate_cost_nothing() -> None:
    view = {"kind": "operator", "name": "aten.view.default", "bytes_read": 0, "bytes_written": 0, "flops": 0.0, "view": True, "count": 1}
    assert estimate_candidate([view], target="sm_90", precision="fp32").median_us == 0.0


def test_a_slower_target_takes_longer(writer: GraphWriter) -> None:
    graph = chain(writer, 2)
    by_bandwidth = sorted(("sm_80", "sm_86", "sm_90", "sm_100"), key=lambda target: datasheet(target).dram_bytes_per_second)
    figures = [latencies_us(graph, target)[1] for target in by_bandwidth]
    assert figures == sorted(figures, reverse=True)


def test_int64_fields_may_be_strings_as_protobuf_writes_them(writer: GraphWriter) -> None:
    graph = softmax(writer, N, 1024)
    for value in graph["values"]:
        value["type"]["shape"] = [str(extent) for extent in value["type"]["shape"]]
    for call in graph["calls"]:
        call["bytes_read"], call["bytes_written"] = str(call["bytes_read"]), str(call["bytes_written"])
    assert launches(graph) == (1, 1)


@pytest.mark.parametrize("damage", ["undeclared", "dtype", "operator"])
def test_a_malformed_graph_is_refused(writer: GraphWriter, damage: str) -> None:
    graph = chain(writer, 1)
    if damage == "undeclared":
        graph["outputs"] = ["nobody"]
    elif damage == "dtype":
        graph["values"][0]["type"]["dtype"] = "D_TYPE_DECIMAL"
    else:
        del graph["calls"][0]["operator"]
    with pytest.raises(MalformedGraphError):
        estimate_baselines(graph, target="sm_90", precision="fp32")


def test_baselines_of_an_unknown_target_are_refused(writer: GraphWriter) -> None:
    with pytest.raises(UnknownTargetError):
        estimate_baselines(chain(writer, 1), target="sm_1", precision="fp32")


def test_few_rows_cannot_fill_the_chip_in_eager_mode() -> None:
    def layer_norm(rows: int, columns: int) -> dict[str, Any]:
        writer = GraphWriter()
        operands = (writer.value("x", rows, columns), [columns], writer.value("w", columns, kind="PARAMETER"))
        return writer.graph(writer.call("aten.layer_norm.default", *operands, shape=(rows, columns)))

    few, many = latencies_us(layer_norm(4, 1 << 24)), latencies_us(layer_norm(4096, 1 << 14))
    assert few[0] > 5 * many[0]
    assert few[1] < 2.5 * many[1]  # torch.compile splits such rows over two kernels


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
@given(registers=st.sampled_from([16, 32, 64, 128, 255]), warps=st.sampled_from([1, 4, 8]), block=st.sampled_from([256, 1024, 4096, 16384]))
def test_a_kernel_that_does_what_torch_compile_generates_is_no_speedup(
    launch: Any, target: str, registers: int, warps: int, block: int
) -> None:
    graph = chain(GraphWriter(), 3)
    _, compiled = estimate_baselines(graph, target=target, precision="fp32")
    programs = N * N // block
    record = launch(registers=registers, num_warps=warps, programs=programs, grid=[programs])
    candidate = estimate_candidate([record], target=target, precision="fp32", graph=graph)
    assert candidate.median_us is not None
    assert candidate.median_us > 0.98 * compiled.median_us
