"""Small candidates with the verdicts that they must get on a real GPU, through the real server, referee and sandbox."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.types.v1 import evaluation_pb2, kernel_pb2, task_pb2

from ..integration.evaluator.conftest import cause_of, start_server, verdict_of

OWN = Path(__file__).parent / "cases"
SHARED = Path(__file__).parent.parent / "integration" / "evaluator" / "cases"
CUDA = kernel_pb2.DeviceSpec(kind=kernel_pb2.DEVICE_KIND_CUDA)


@dataclass(frozen=True)
class Case:
    task: str
    kernel: str
    verdict: str
    causes: tuple = ("UNSPECIFIED",)
    says: str = ""
    precision: str = "fp32"
    track: str = "any"
    timing: str = ""


AT_ONE_TIME = 4
PASSED, FAILED, REJECTED = "PASSED", "FAILED", "REJECTED"
CASES = {
    "zeros for a wide softmax": Case("softmax", "zeros", FAILED, ("NUMERIC",), "all zeros"),
    "the mean as a constant": Case("row_sum", "constant_mean", FAILED, ("NUMERIC",), "constant"),
    "a truth that is identically zero": Case("group_norm_mean", "zeros", "TASK_INVALID", ("DEGENERATE",)),
    "the input for relu": Case("relu", "returns_input", FAILED, ("NUMERIC",)),
    "the input for relu at the benchmarked shape alone": Case("relu", "relu_unless_benchmarked", FAILED, ("NUMERIC",)),
    "a product that stops": Case("cumulative_product", "cumulative_product_that_stops", FAILED, ("NUMERIC", "SPECIAL_VALUES")),
    "cross-entropy with int64 labels": Case("cross_entropy", "cross_entropy", PASSED),
    "layers in another order": Case("two_layers", "layers_in_another_order", PASSED),
    "missing state names": Case("two_layers", "layers_of_another_name", FAILED, ("CONTRACT",), r"first\.weight"),
    "weights transposed after load": Case("two_layers", "transposed_after_load", PASSED),
    "weights transposed in the constructor": Case("two_layers", "transposed_in_init", FAILED, ("NUMERIC",), "after_load"),
    "a deep tf32 product in fp32": Case("deep_matmul", "matmul_in_tf32", FAILED, ("NUMERIC",), "looks like tf32"),
    "a deep tf32 product in tf32": Case("deep_matmul", "matmul_in_tf32", PASSED, precision="tf32"),
    "configurations that write different halves": Case(
        "large_scale", "configurations_write_halves", FAILED, ("NUMERIC", "MEMORY", "NONDETERMINISTIC")
    ),
    "tuning in place without restoring": Case("large_scale", "tuned_in_place", FAILED, ("NUMERIC", "NONDETERMINISTIC")),
    "a tail that is never written": Case("scale", "tail_never_written", FAILED, ("MEMORY",), r"\[199, 295\]"),
    "too much shared memory": Case("matmul", "too_much_shared_memory", FAILED, ("LAUNCH",), r"393216.*232448"),
    "an illegal write": Case("large_scale", "illegal_write", FAILED, ("FAULT",), "illegal"),
    "a good candidate after it": Case("large_scale", "scale", PASSED, timing="MEASURED"),
    "an honest try": Case("scale", "honest_try", PASSED),
    "a reference that crashes": Case("crashes", "scale", "TASK_INVALID", ("REFERENCE_FAILS",), "line 7"),
    "minus infinity of a masked row": Case("masked_log_sum_exp", "log_sum_exp", PASSED),
    "a large negative number in its place": Case(
        "masked_log_sum_exp", "log_sum_exp_with_large_negative", FAILED, ("SPECIAL_VALUES",), "-inf"
    ),
    "an input mutated by a kernel": Case("scale", "input_mutated_by_kernel", FAILED, ("MEMORY",), "input 0"),
    "float16 instead of float32": Case("row_sum", "sum_in_half", FAILED, ("DTYPE",)),
    "a flat shape": Case("row_sum", "sum_of_another_shape", FAILED, ("SHAPE",)),
    "a library product where all is allowed": Case("deep_matmul", "product_in_ieee", PASSED),
    "a library product before a kernel": Case("deep_matmul", "product_then_a_kernel", PASSED),
    "a library product before a kernel in the triton track": Case(
        "deep_matmul", "product_then_a_kernel", FAILED, ("TRACK",), "mm", track="triton_only"
    ),
    "a library product beside a kernel that is never launched": Case(
        "deep_matmul", "product_in_ieee", REJECTED, ("NO_KERNEL",), track="triton_only"
    ),
    "a kernel that is never launched": Case("scale", "kernel_never_launched", REJECTED, ("NO_KERNEL",), track="triton_only"),
    "a kernel whose result is unused": Case("scale", "kernel_unused", REJECTED, ("NO_KERNEL",), track="triton_only"),
    "a right kernel in the triton track": Case("scale", "scale", PASSED, track="triton_only"),
    "the last answer for a pointer": Case("scale", "last_answer_for_pointer", REJECTED, ("REPLAY",)),
    "the last answer for a hash": Case("scale", "last_answer_again", REJECTED, ("REPLAY",)),
    "a tensor that computes when it is read": Case("scale", "lazy_output", REJECTED, ("LAZY_OUTPUT",)),
    "work on a stream that is never joined": Case("large_scale", "unjoined_stream", REJECTED, ("HIDDEN_WORK",)),
    "work on a stream that is joined": Case("large_scale", "joined_stream", PASSED),
    "a thread that finishes after the return": Case("large_scale", "late_thread", FAILED, ("NONDETERMINISTIC", "MEMORY", "NUMERIC")),
    "patched clocks and comparisons": Case("large_scale", "patched_clocks", REJECTED, ("TAMPER",)),
    "a forged result": Case("scale", "forged_result", REJECTED, ("FORGED_RESULT",)),
    "an exit": Case("scale", "exits", FAILED, ("FAULT",)),
    "honest for twenty calls": Case("large_scale", "honest_for_twenty_calls", REJECTED, ("REPLAY",)),
    "a memo of the last activations": Case("large_scale", "device_side_memo", FAILED, ("NUMERIC",)),
    "the input where that is the answer": Case("identity", "returns_input", PASSED, timing="INCONCLUSIVE"),
    "a decision of the host": Case("large_scale", "not_capturable", PASSED, timing="MEASURED"),
    "a kernel that never ends": Case("large_scale", "hangs_on_the_gpu", FAILED, ("TIMEOUT",)),
    "a block beyond the row": Case("scale", "block_beyond_the_row", FAILED, ("MEMORY",), "beyond the end of a tensor"),
    "offsets that overflow int32 at the large shape": Case("beyond_int32", "scale", FAILED, ("FAULT", "NUMERIC"), precision="fp16"),
    "offsets in int64 at the large shape": Case("beyond_int32", "offsets_in_int64", PASSED, precision="fp16"),
    "a race from thread to thread": Case("large_scale", "races_within_a_program", FAILED, ("NUMERIC", "MEMORY", "NONDETERMINISTIC")),
    "outputs of six gigabytes": Case("six_gigabytes", "offsets_in_int64", PASSED, timing="MEASURED"),
    "the last answer for a version": Case("scale", "last_answer_for_version", REJECTED, ("REPLAY",)),
    "an answer from freed memory": Case("scale", "answer_from_freed_memory", FAILED, ("MEMORY",)),
    "a search for the reference": Case("scale", "searches_for_the_reference", FAILED, ("NUMERIC",)),
    "the truth among tensors": Case("scale", "truth_among_tensors", FAILED, ("NUMERIC", "SHAPE")),
    "patched clocks and right numbers": Case("scale", "patches_clocks_and_computes", REJECTED, ("TAMPER",)),
    "a printed result and an exit": Case("scale", "prints_a_result_and_exits", FAILED, ("FAULT",)),
    "writing to every descriptor": Case("scale", "writes_to_descriptors_and_exits", REJECTED, ("FORGED_RESULT",)),
    "sys.exit": Case("scale", "sys_exits", FAILED, ("RUNTIME",), "SystemExit"),
    "killing other processes": Case("scale", "kills_its_parent", REJECTED, ("TAMPER",)),
    "tracing the parent": Case("scale", "traces_its_parent", REJECTED, ("TAMPER",)),
    "a fork bomb": Case("scale", "fork_bomb", REJECTED, ("TAMPER",)),
    "a full disk": Case("scale", "fills_the_disk", FAILED, ("OUT_OF_MEMORY",)),
    "a socket": Case("scale", "opens_a_socket", REJECTED, ("TAMPER",)),
    "sleep for ever": Case("scale", "sleeps_for_ever", FAILED, ("TIMEOUT",)),
    "a right kernel after all of these": Case("row_sum", "row_sum", PASSED),
    "later inputs computed ahead": Case("scale", "computes_later_inputs_ahead", REJECTED, ("REPLAY",)),
    "work skipped unless memory looks poisoned": Case("scale", "skips_unless_poisoned", FAILED, ("MEMORY", "NUMERIC")),
    "lines that persist in the cache": Case("large_scale", "persisting_cache", PASSED, timing="MEASURED"),
    "global flags of a right kernel": Case("scale", "sets_global_flags", PASSED),
    "a product after another candidate's flags": Case("matmul", "product_by_the_library", PASSED),
    "tf32 by a flag": Case("deep_matmul", "products_in_tf32_by_a_flag", FAILED, ("NUMERIC",)),
    "inputs drawn from a guessed seed": Case("scale", "predicts_seeds", FAILED, ("NUMERIC",)),
    "patched random numbers": Case("scale", "patches_random_numbers", REJECTED, ("TAMPER",)),
    "answers kept in files": Case("scale", "keeps_answers_in_files", REJECTED, ("REPLAY",)),
    "a copy of twenty megabytes": Case("copy_of_twenty_megabytes", "copies", PASSED, timing="MEASURED"),
    "a kernel of a few microseconds": Case("small_scale", "scale", PASSED, timing="MEASURED"),
    "a tuner that never ends": Case("scale", "tunes_for_ever", FAILED, ("TIMEOUT",), "configurations of slow_kernel are timed"),
    "streams that are joined": Case("scale", "streams_joined", PASSED),
    "block pointers": Case("scale", "block_pointers", PASSED),
    "a sum by atomics": Case("row_sum", "sum_by_atomics", PASSED),
    "what torch compiles": Case("scale", "compiled_by_torch", PASSED),
    "an autograd function": Case("scale", "autograd_function", PASSED),
    "folded statistics": Case("running_statistics", "folded_statistics", PASSED),
    "weights packed at the first call": Case("gated_product", "packed_at_the_first_call", PASSED),
    "a fused product with configurations": Case("gated_product", "fused_gate", PASSED, track="triton_only"),
    "a scan carried from block to block": Case("running_sum", "scan_in_blocks", PASSED),
    "several outputs of several dtypes": Case("statistics", "statistics", PASSED),
    "a view with strides": Case("strided_input", "every_second_column", PASSED),
    "what depends on the shape alone": Case("scale", "remembers_by_shape", PASSED),
    "a persistent kernel": Case("wide_scale", "persistent_scale", PASSED),
    "configurations with heuristics": Case("scale", "autotuned_with_heuristics", PASSED),
    "a configuration that the assembler refuses": Case("scale", "configuration_refused", PASSED, track="triton_only"),
    "work that is left out while it is captured": Case("large_scale", "skips_while_captured", REJECTED, ("FORGED_RESULT",)),
    "a random answer": Case("random_scaling", "drops_by_its_own_seed", PASSED),
    "a random answer that is left out while it is captured": Case("random_scaling", "drops_unless_captured", REJECTED, ("FORGED_RESULT",)),
    "a function that Triton lacks": Case("scale", "unknown_function", FAILED, ("COMPILE",), "line 10"),
}


def source(kind, name):
    found = [path for folder in (OWN, SHARED) for path in sorted((folder / kind).glob(f"{name}.*"))]
    return found[0].read_text()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("runners"), "--check-s", "30", "--compile-s", "30", "--gpu-workers", str(AT_ONE_TIME))
    with EvaluatorClient(server.address) as connected:
        yield connected
    server.stop()


@pytest.fixture(scope="module")
def evaluations(client, request):
    """Evaluations of the cases that are asked for, some at one time: none may change another one's verdict."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    asked = [call.params["name"] for call in calls if call is not None and call.params.get("name") in CASES]
    with ThreadPoolExecutor(AT_ONE_TIME) as threads:
        found = {name: threads.submit(evaluate, client, CASES[name]) for name in asked}
        yield found
        for future in found.values():
            future.cancel()


def evaluate(client, case):
    task = task_pb2.Task(
        name=f"{case.task}.py",
        source=source("tasks", case.task),
        precision=task_pb2.PrecisionClass.Value(f"PRECISION_CLASS_{case.precision.upper()}"),
        track=task_pb2.Track.Value(f"TRACK_{case.track.upper()}"),
    )
    kernel = kernel_pb2.Kernel(source=source("kernels", case.kernel))
    request = pb.EvaluateKernelRequest(task=task, kernel=kernel, device=CUDA)
    return list(client.evaluate_kernel(request, 280))[-1].evaluation


def told(phases):
    return " ".join(f"{name.removeprefix('PHASE_').lower()} {seconds:.1f}" for name, seconds in phases.items() if seconds >= 0.05)


@pytest.mark.parametrize("name", CASES)
def test_each_case_gets_its_verdict(evaluations, report_row, case_row, name):
    case, found = CASES[name], evaluations[name].result()
    phases = {evaluation_pb2.Phase.Name(item.phase): item.elapsed.ToTimedelta().total_seconds() for item in found.phase_times}
    seconds = sum(phases.values())
    case_row(name, "cuda", verdict_of(found), cause_of(found), seconds)
    status = evaluation_pb2.TimingStatus.Name(found.timing.status).removeprefix("TIMING_STATUS_")
    latency = f"{found.timing.median_us:.2f} µs" if found.timing.HasField("median_us") else found.timing.explanation[:200]
    report_row(f"| {name} | {verdict_of(found)} {cause_of(found)} | {status} {latency} | {told(phases)} | {found.failure.message[:160]} |")
    assert (verdict_of(found), cause_of(found)) in [(case.verdict, cause) for cause in case.causes], found.failure
    assert re.search(case.says, found.failure.message), found.failure.message
    assert status == (case.timing or status)
    assert found.platform.device == kernel_pb2.DEVICE_KIND_CUDA


def test_cold_and_warm_are_told_apart_and_cold_stays_below_the_peak_of_memory(client):
    timing = evaluate(client, CASES["a copy of twenty megabytes"]).timing
    assert timing.cold
    assert timing.cold_us >= 2 * 20 * 2**20 / 4.8e12 * 1e6  # bytes over the datasheet's rate
    assert timing.warm_us < timing.cold_us


def test_a_short_kernel_is_told_as_the_gpu_sees_it_and_with_its_launches(client):
    timing = evaluate(client, CASES["a kernel of a few microseconds"]).timing
    assert 1.0 < timing.median_us < 12.0
    assert timing.end_to_end_us > timing.median_us
    assert timing.setup_us > 0


def test_a_noisy_neighbour_leaves_the_verdict_and_takes_the_latency(client):
    neighbour = subprocess.Popen([sys.executable, str(OWN / "neighbour.py")])
    try:
        found = evaluate(client, Case("wide_scale", "persistent_scale", PASSED))
    finally:
        neighbour.kill()
        neighbour.wait()
    assert verdict_of(found) == PASSED, found.failure
    assert found.timing.status == evaluation_pb2.TIMING_STATUS_INCONCLUSIVE
    assert found.timing.cause in (evaluation_pb2.TIMING_CAUSE_NOISE, evaluation_pb2.TIMING_CAUSE_CLOCKS_DISAGREE)
    assert found.timing.explanation


def test_a_profile_on_a_gpu_has_measured_ceilings_and_the_work_of_its_kernels(client):
    task = task_pb2.Task(name="large_scale.py", source=source("tasks", "large_scale"))
    request = pb.ProfileKernelRequest(task=task, kernel=kernel_pb2.Kernel(source=source("kernels", "scale")), device=CUDA)
    found = list(client.profile_kernel(request, 500))[-1].evaluation
    assert verdict_of(found) == PASSED, found.failure
    told, launch = found.profile, max(found.launches, key=lambda item: item.time_share)
    assert told.ceilings.measured
    assert 1e11 < told.ceilings.bytes_per_second < 1e13
    assert launch.registers > 0
    assert 0 < launch.occupancy <= 1
    assert not told.work_message
    assert 0.3 < launch.roofline_share < 1.2
    assert launch.bound_by == "dram"
    assert told.counter_status in (
        evaluation_pb2.COUNTER_STATUS_READ,
        evaluation_pb2.COUNTER_STATUS_NOT_PERMITTED,
        evaluation_pb2.COUNTER_STATUS_NOT_INSTALLED,
    )
    assert told.counter_message or told.counters
    assert len(told.text) <= 1500


def test_an_evaluation_that_passes_on_a_gpu_carries_its_profile(client):
    found = evaluate(client, CASES["a copy of twenty megabytes"])
    assert found.profile.ceilings.measured
    assert found.profile.bytes_per_second > 0
    assert found.profile.counter_status == evaluation_pb2.COUNTER_STATUS_NOT_ASKED
    assert "Limited by" in found.profile.text


def test_a_candidate_far_behind_the_best_baseline_gets_a_first_look(client):
    once = source("kernels", "scale")
    launch = "scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)"
    often = once.replace(f"    {launch}\n", f"    for _ in range(9):\n        {launch}\n")
    assert often != once
    task = task_pb2.Task(name="large_scale.py", source=source("tasks", "large_scale"))
    found = []
    for text in (once, often):
        request = pb.EvaluateKernelRequest(task=task, kernel=kernel_pb2.Kernel(source=text), device=CUDA, cache_mode=pb.CACHE_MODE_BYPASS)
        found.append(list(client.evaluate_kernel(request, 280))[-1].evaluation)
        assert verdict_of(found[-1]) == PASSED, found[-1].failure
    assert [item.timing.first_look for item in found] == [False, True]
    assert found[1].timing.speedup < 1 / 3
    families = [{check.family for check in item.checks} for item in found]
    assert families[0] == families[1]
    assert "A first look" in found[1].timing.explanation
