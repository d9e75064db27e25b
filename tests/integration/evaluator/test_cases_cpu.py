"""Small candidates with the verdicts that they must get on the cpu device, through the real server, referee and sandbox."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf import duration_pb2

from adaexplore.client.evaluator import EvaluatorClient
from adaexplore.evaluator.v1 import evaluator_pb2 as pb
from adaexplore.types.v1 import evaluation_pb2

from .conftest import cause_of, evaluate, kernel, phase_of, start_server, task, verdict_of


@dataclass(frozen=True)
class Case:
    task: str
    kernel: str
    verdict: str
    causes: tuple = ("UNSPECIFIED",)
    says: tuple = ()
    precision: str = "fp32"
    track: str = "any"
    phases: tuple = ()


PASSED = "PASSED"
FAILED = "FAILED"
CASES = {
    "zeros for a wide softmax fail": Case("softmax", "zeros", FAILED, ("NUMERIC",), (r"\[0, 0\]", "all zeros")),
    "a right softmax passes": Case("softmax", "softmax", PASSED),
    "the mean of the reference as a constant fails": Case("row_sum", "constant_mean", FAILED, ("NUMERIC",), ("constant",)),
    "a truth that is identically zero invalidates the task": Case("group_norm_mean", "zeros", "TASK_INVALID", ("DEGENERATE",), ("zeros",)),
    "returning the input for relu fails on sign-mixed inputs": Case("relu", "returns_input", FAILED, ("NUMERIC",), ("negated|shifted",)),
    "a shortcut at the benchmarked shape is never passed": Case("relu", "relu_unless_benchmarked", "INCONCLUSIVE", ("SHAPE_DEPENDENT",)),
    "a cumulative product that stops fails": Case(
        "cumulative_product", "cumulative_product_that_stops", FAILED, ("NUMERIC", "SPECIAL_VALUES")
    ),
    "cross-entropy with int64 labels passes": Case("cross_entropy", "cross_entropy", PASSED),
    "layers built in another order pass": Case("two_layers", "layers_in_another_order", PASSED),
    "missing state names are listed": Case(
        "two_layers", "layers_of_another_name", FAILED, ("CONTRACT",), (r"first\.weight", r"first\.bias"), phases=("SETUP",)
    ),
    "weights transposed in after_load pass": Case("two_layers", "transposed_after_load", PASSED),
    "weights transposed only in __init__ fail with the hint": Case(
        "two_layers", "transposed_in_init", FAILED, ("NUMERIC",), ("after_load", "__init__")
    ),
    "a tf32 product fails in fp32": Case("matmul", "matmul_in_tf32", FAILED, ("NUMERIC",), ("looks like tf32",)),
    "a tf32 product passes in tf32": Case("matmul", "matmul_in_tf32", PASSED, precision="tf32"),
    "a block beyond the row without a mask fails": Case("scale", "block_beyond_the_row", FAILED, ("MEMORY",), ("scale_kernel",)),
    "a tail that is never written fails": Case(
        "scale", "tail_never_written", FAILED, ("MEMORY", "NUMERIC", "SPECIAL_VALUES"), (r"\[199, 295\]",)
    ),
    "too much shared memory names what is asked and what there is": Case(
        "matmul", "too_much_shared_memory", FAILED, ("LAUNCH",), (r"\d{6}\D+232448", "product_kernel")
    ),
    "an honest try and a pass are no cheat": Case("scale", "honest_try", PASSED),
    "a reference that crashes invalidates the task": Case(
        "crashes", "scale", "TASK_INVALID", ("REFERENCE_FAILS",), (r"crashes\.py", "line 7"), phases=("TASK",)
    ),
    "minus infinity of a fully masked row passes": Case("masked_log_sum_exp", "log_sum_exp", PASSED),
    "a large negative number in its place fails": Case(
        "masked_log_sum_exp", "log_sum_exp_with_large_negative", FAILED, ("SPECIAL_VALUES",), (r"\[\d+\]", "-inf")
    ),
    "a masked load with other passes": Case("row_sum", "row_sum", PASSED),
    "a masked load without other fails": Case("row_sum", "sum_without_other", FAILED, ("NUMERIC", "SPECIAL_VALUES", "MEMORY")),
    "an input mutated by torch fails": Case("scale", "input_mutated", FAILED, ("MEMORY",), ("input 0",)),
    "an input mutated by a kernel fails": Case("scale", "input_mutated_by_kernel", FAILED, ("MEMORY",), ("input 0",)),
    "float16 instead of float32 fails": Case("row_sum", "sum_in_half", FAILED, ("DTYPE",), ("float16", "float32")),
    "a flat shape instead of a column fails": Case("row_sum", "sum_of_another_shape", FAILED, ("SHAPE",), (r"\[\d+\]", r"\[\d+, 1\]")),
    "a kernel that is never launched is rejected": Case("scale", "kernel_never_launched", "REJECTED", ("NO_KERNEL",), track="triton_only"),
    "a kernel whose result is unused is rejected": Case(
        "scale", "kernel_unused", "REJECTED", ("NO_KERNEL",), ("scale_kernel",), track="triton_only"
    ),
    "torch beside a kernel breaks the triton track": Case(
        "scale", "torch_beside_a_kernel", FAILED, ("TRACK",), ("add",), track="triton_only"
    ),
    "torch beside a kernel is fine where the track allows it": Case("scale", "torch_beside_a_kernel", PASSED),
    "a right kernel passes the triton track": Case("scale", "scale", PASSED, track="triton_only"),
    "a tensor that computes when it is read is rejected": Case("scale", "lazy_output", "REJECTED", ("LAZY_OUTPUT",)),
    "an earlier answer for a sampled hash is rejected": Case("scale", "last_answer_again", "REJECTED", ("REPLAY",)),
    "an earlier answer for the same pointer is rejected": Case("scale", "last_answer_for_pointer", "REJECTED", ("REPLAY",)),
    "an earlier answer for the same version is rejected": Case("scale", "last_answer_for_version", "REJECTED", ("REPLAY",)),
    "a forged result is rejected": Case("scale", "forged_result", "REJECTED", ("FORGED_RESULT",)),
    "a candidate that exits fails": Case("scale", "exits", FAILED, ("FAULT",), ("exit code 0",)),
    "a candidate that calls sys.exit fails": Case("scale", "sys_exits", FAILED, ("RUNTIME",), ("SystemExit", "line 8")),
    "a candidate that segfaults fails": Case("scale", "segfaults", FAILED, ("FAULT",), ("SIGSEGV",)),
    "a file that defines nothing fails": Case("scale", "defines_nothing", FAILED, ("CONTRACT",), ("ModelNew",), phases=("LOAD",)),
    "a file that is not Python fails": Case("scale", "not_python", FAILED, ("SYNTAX",), ("line 1",), phases=("LOAD",)),
    "a function that Triton lacks fails to compile": Case(
        "scale", "unknown_function", FAILED, ("COMPILE",), ("no_such_function", "line 10")
    ),
    "memory above the limit is refused": Case("scale", "out_of_memory", FAILED, ("OUT_OF_MEMORY",), ("2.0 GiB",), phases=("SETUP",)),
    "printing 100 MB at import fails": Case("scale", "prints_100_mb", FAILED, ("CONTRACT",), ("'xxx", "line 6"), phases=("LOAD",)),
    "printing in forward fails with the line": Case(
        "scale", "prints_in_forward", FAILED, ("CONTRACT",), ("standard output", "shape", "line 6")
    ),
    "warnings and text on standard error do no harm": Case("scale", "warns", PASSED),
    "a child that outlives the import is rejected": Case(
        "scale", "forks", "REJECTED", ("HIDDEN_WORK",), ("a process running",), phases=("LOAD",)
    ),
    "a child that outlives the call is rejected": Case("scale", "forks_in_forward", "REJECTED", ("HIDDEN_WORK",), ("a process running",)),
    "a list in place of a tensor fails": Case(
        "scale", "list_for_a_tensor", FAILED, ("SHAPE",), (r"the sequence \[tensor\]", "must return a tensor")
    ),
    "a renamed key fails": Case("mean_and_range", "dict_with_another_key", FAILED, ("SHAPE",), ("average", "mean")),
    "a buffer that is returned again fails": Case(
        "scale", "buffer_returned_again", FAILED, ("MEMORY",), ("allocate the output in forward",)
    ),
    "an offset that overflows int32 at full shape fails": Case(
        "tall_softmax", "softmax_by_int32_offset", FAILED, ("MEMORY",), ("at full shape", "line 11", "overflows int32", r"tl\.int64")
    ),
    "an offset cast to int64 passes at full shape": Case("tall_softmax", "softmax_by_int64_offset", PASSED),
    "a dict in another order passes": Case("mean_and_range", "dict_in_another_order", PASSED),
    "a right autotuned kernel passes": Case("wide_scale", "autotuned_scale", PASSED),
    "a configuration that stores zeros fails though another one is right": Case(
        "wide_scale", "configuration_that_stores_zeros", FAILED, ("NUMERIC",), ("BLOCK: 2048", "all zeros")
    ),
    "a configuration that is wrong fails though it is not the one chosen": Case(
        "wide_scale", "configuration_not_chosen_is_wrong", FAILED, ("NUMERIC",), ("BLOCK: 512",)
    ),
    "a configuration that is pruned only where numbers are judged is never passed": Case(
        "wide_scale", "configuration_pruned_when_judged", "INCONCLUSIVE", ("SHAPE_DEPENDENT",), ("BLOCK: 2048",)
    ),
    "a grid that is cut at full shape is never passed": Case(
        "wide_scale", "grid_cut_at_full_shape", "INCONCLUSIVE", ("SHAPE_DEPENDENT",), ("scale_kernel", "36%", "y points to")
    ),
    "a grid that is cut over an output of zeros is never passed": Case(
        "wide_scale", "grid_cut_over_zeros", "INCONCLUSIVE", ("SHAPE_DEPENDENT",), ("36%",)
    ),
    "programs that do nothing at full shape are never passed": Case(
        "wide_scale", "middle_programs_do_nothing", "INCONCLUSIVE", ("SHAPE_DEPENDENT",), ("scale_kernel",)
    ),
    "a persistent kernel passes": Case("wide_scale", "persistent_scale", PASSED),
    "a kernel that writes one triangle passes": Case("upper_triangle", "upper_triangle", PASSED),
    "programs that overwrite each other fail though an atomic stands beside": Case(
        "scale", "overlap_beside_a_swap", FAILED, ("NONDETERMINISTIC",), ("scale_kernel", "another program writes")
    ),
    "a kernel that insists on the benchmarked sizes is not told to be wrong": Case(
        "wide_scale", "insists_on_its_sizes", "INCONCLUSIVE", ("SHAPE_DEPENDENT",), ("made for", "sizes from the inputs")
    ),
    "layers that the candidate keeps in half stay so, and their numbers fail": Case(
        "two_layers", "layers_in_half", FAILED, ("NUMERIC",), (r"\[\d+, \d+\]",)
    ),
    "an identity task is passed by returning the input": Case("identity", "returns_input", PASSED),
    "a mask taken from the base of a view fails though the values match": Case(
        "scale", "second_half_masked_by_the_base", FAILED, ("MEMORY",), ("scale_kernel", "out of bounds")
    ),
    "columns masked by the base of a strided view fail though the values match": Case(
        "scale", "columns_masked_by_the_base", FAILED, ("MEMORY",), ("row_kernel", "strided view")
    ),
    "an answer that freed memory may hold fails": Case("scale", "answer_from_freed_memory", FAILED, ("MEMORY",), ("nothing wrote",)),
    "the reference is in no module, object, frame or file": Case(
        "scale", "searches_for_the_reference", FAILED, ("NUMERIC",), ("all zeros",)
    ),
    "the truth is no tensor of the candidate's process": Case("scale", "truth_among_tensors", FAILED, ("NUMERIC", "SHAPE"), ()),
    "patched clocks and comparisons are rejected": Case("scale", "patches_clocks", "REJECTED", ("TAMPER",), (r"replaces .*time",)),
    "patched clocks are rejected though the numbers are right": Case(
        "scale", "patches_clocks_and_computes", "REJECTED", ("TAMPER",), (r"replaces .*time",)
    ),
    "patched random numbers are rejected": Case("scale", "patches_random_numbers", "REJECTED", ("TAMPER",), (r"torch\.randn",)),
    "inputs drawn from a guessed seed fail": Case("scale", "predicts_seeds", FAILED, ("NUMERIC",)),
    "writing to every descriptor before an exit is rejected": Case(
        "scale", "writes_to_descriptors_and_exits", "REJECTED", ("FORGED_RESULT",)
    ),
    "a printed result before an exit fails": Case("scale", "prints_a_result_and_exits", FAILED, ("FAULT",), ("exit code 0",)),
    "killing other processes is rejected": Case("scale", "kills_its_parent", "REJECTED", ("TAMPER",), ("line 10", "signals")),
    "tracing the parent is rejected": Case("scale", "traces_its_parent", "REJECTED", ("TAMPER",), ("ptrace",)),
    "a full disk fails": Case("scale", "fills_the_disk", FAILED, ("OUT_OF_MEMORY",), ("disk",)),
    "a socket is rejected": Case("scale", "opens_a_socket", "REJECTED", ("TAMPER",), ("network",)),
    "a good candidate after all of these passes": Case("row_sum", "row_sum", PASSED, track="triton_only"),
    "answers to tensors that lie about are rejected": Case("scale", "computes_later_inputs_ahead", "REJECTED", ("REPLAY",)),
    "work that is skipped unless memory looks poisoned fails": Case("scale", "skips_unless_poisoned", FAILED, ("MEMORY",)),
    "honest for twenty calls of an instance is rejected": Case("scale", "honest_for_twenty_calls", "REJECTED", ("REPLAY",)),
    "honest for twenty calls of a module fails": Case(
        "scale", "module_wide_honest_for_twenty_calls", FAILED, ("NUMERIC", "MEMORY", "SPECIAL_VALUES")
    ),
    "a memo of the last input in memory of the device is rejected": Case("scale", "memo_of_the_last_input", "REJECTED", ("REPLAY",)),
    "global flags of a right kernel change nothing": Case("scale", "sets_global_flags", PASSED),
    "a product after another candidate's flags is computed in fp32": Case("matmul", "product_by_the_library", PASSED),
    "a library product by the switches of its class passes in tf32": Case("matmul", "product_by_the_library", PASSED, precision="tf32"),
    "a flag that lets the library compute in tf32 fails in fp32": Case(
        "matmul", "products_in_tf32_by_a_flag", FAILED, ("NUMERIC",), ("looks like tf32",)
    ),
    "a word that lets the library compute in tf32 fails in fp32": Case(
        "matmul", "products_in_tf32_by_a_word", FAILED, ("NUMERIC",), ("looks like tf32",)
    ),
    "answers that were kept in files fail": Case("scale", "keeps_answers_in_files", FAILED, ("NUMERIC",)),
    "a thread that finishes after the return is rejected": Case("scale", "thread_finishes_the_work", "REJECTED", ("HIDDEN_WORK",)),
    "a stream that is never joined is rejected": Case("scale", "stream_never_joined", "REJECTED", ("HIDDEN_WORK",), ("stream",)),
    "a timer that finishes after the return is rejected": Case("scale", "timer_finishes_the_work", "REJECTED", ("HIDDEN_WORK",)),
    "an output with a method of its own is rejected": Case("scale", "computes_in_its_own_method", "REJECTED", ("LAZY_OUTPUT",)),
    "a library product in a thread breaks the triton track": Case(
        "matmul", "library_product_in_a_thread", FAILED, ("TRACK",), ("Thread",), track="triton_only"
    ),
    "streams that are joined pass": Case("scale", "streams_joined", PASSED),
    "a pool of threads that is waited for passes": Case("scale", "waits_for_its_threads", PASSED),
    "an empty kernel passes where the input is the answer": Case("identity", "empty_kernel", PASSED),
    "a transposed view passes": Case("transpose", "transposed_without_a_copy", PASSED),
    "a transposed copy passes": Case("transpose", "transposed_with_a_copy", PASSED),
    "a view of a wider tensor passes": Case("scale", "view_of_a_wider_tensor", PASSED),
    "several outputs of several dtypes pass": Case("statistics", "statistics", PASSED),
    "helper classes and composed functions pass": Case("scale", "functional_style", PASSED),
    "configurations with heuristics pass": Case("scale", "autotuned_with_heuristics", PASSED),
    "one launch a row passes": Case("scale", "one_launch_a_row", PASSED),
    "a custom operator passes": Case("scale", "custom_operator", PASSED),
    "an autograd function passes": Case("scale", "autograd_function", PASSED),
    "extra buffers pass": Case("normalise", "extra_buffers", PASSED),
    "folded statistics pass": Case("running_statistics", "folded_statistics", PASSED),
    "work in place on its own copy passes": Case("scale", "in_place_on_its_own", PASSED),
    "a fallback after an exception passes": Case("scale", "falls_back", PASSED),
    "global constexprs, nested functions and keywords pass": Case("scale", "constants_and_nested_functions", PASSED),
    "a cast through float64 passes": Case("scale", "cast_through_double", PASSED),
    "a view with strides passes": Case("strided_input", "every_second_column", PASSED),
    "weights packed after the state is loaded pass": Case("gated_product", "one_packed_product", PASSED),
    "weights packed at the first call pass": Case("gated_product", "packed_at_the_first_call", PASSED),
    "a fused product with configurations passes": Case("gated_product", "fused_gate", PASSED, track="triton_only"),
    "a scan carried from block to block passes": Case("running_sum", "scan_in_blocks", PASSED),
    "block pointers pass": Case("scale", "block_pointers", PASSED),
    "a sum by atomics passes": Case("row_sum", "sum_by_atomics", PASSED),
    "operators alone pass where the track allows them": Case("scale", "operators_only", PASSED),
    "what torch compiles passes": Case("scale", "compiled_by_torch", PASSED),
    "what depends on the shape alone may be remembered": Case("scale", "remembers_by_shape", PASSED),
}


@pytest.mark.parametrize("name", CASES)
def test_each_case_gets_its_verdict(client, case_row, name):
    case = CASES[name]
    found, _ = evaluate(client, task(case.task, case.precision, case.track), kernel(case.kernel))
    case_row(name, "cpu", verdict_of(found), cause_of(found))
    assert (verdict_of(found), cause_of(found)) in [(case.verdict, cause) for cause in case.causes], found.failure
    for pattern in case.says:
        assert re.search(pattern, found.failure.message), found.failure.message
    if case.phases:
        assert phase_of(found) in case.phases
    assert "\n" not in found.failure.message
    assert bool(found.failure.message) is (case.verdict != PASSED)
    assert (found.timing.status == evaluation_pb2.TIMING_STATUS_NOT_RUN) is (case.verdict != PASSED)


@pytest.mark.parametrize("name", ["hangs_at_import", "hangs_in_forward", "sleeps_for_ever"])
def test_a_kernel_that_hangs_is_killed(client, server, name):
    at_import = name == "hangs_at_import"
    # A slow host needs longer for what comes before it hangs.
    limits = pb.PhaseLimits(setup=duration_pb2.Duration(seconds=3 if at_import else 120), compile=duration_pb2.Duration(seconds=3))
    found, _ = evaluate(client, task("scale"), kernel(name), limits=limits)
    assert (verdict_of(found), cause_of(found)) == (FAILED, "TIMEOUT")
    assert phase_of(found) == ("LOAD" if at_import else "COMPILE")
    assert "3 s" in found.failure.message


@pytest.mark.parametrize("name", ["fork_bomb", "fork_bomb_with_pauses"])
def test_a_fork_bomb_is_contained_and_the_next_candidate_unharmed(client, server, name):
    found, _ = evaluate(client, task("scale"), kernel(name))
    assert (verdict_of(found), cause_of(found)) == ("REJECTED", "TAMPER"), found.failure
    assert "too many processes" in found.failure.message
    found, _ = evaluate(client, task("scale"), kernel("scale"), cache_mode=pb.CACHE_MODE_BYPASS)
    assert verdict_of(found) == PASSED, found.failure
    assert len(server.runner_folders()) <= 2


def test_nothing_that_a_candidate_writes_survives_it(client):
    for _ in range(2):
        found, _ = evaluate(client, task("scale"), kernel("leaves_notes"), cache_mode=pb.CACHE_MODE_BYPASS)
        assert verdict_of(found) == PASSED, found.failure


def test_two_candidates_with_the_same_kernel_names_are_both_right_at_once(tmp_path):
    names = ["scale", "tail_never_written"]
    server = start_server(tmp_path, "--workers", "2")
    try:
        with EvaluatorClient(server.address) as client, ThreadPoolExecutor(2) as pool:

            def verdict(name):
                found, _ = evaluate(client, task("scale"), kernel(name), cache_mode=pb.CACHE_MODE_BYPASS)
                return verdict_of(found)

            verdicts = list(pool.map(verdict, names))
    finally:
        server.stop()
    assert verdicts == [PASSED, FAILED]


def test_progress_is_told_in_order_and_a_passed_kernel_has_an_estimate(client):
    found, phases = evaluate(client, task("scale"), kernel("scale"), cache_mode=pb.CACHE_MODE_BYPASS)
    assert phases == ["QUEUED", "LOAD", "SETUP", "COMPILE", "CHECK", "TIMING"]
    assert found.timing.status == evaluation_pb2.TIMING_STATUS_ESTIMATED
    assert found.timing.median_us > 0
    assert found.timing.speedup == pytest.approx(min(item.median_us for item in found.timing.baselines) / found.timing.median_us)
    assert {item.family for item in found.checks} >= {"own", "own_second_seed", "scaled_up", "negated", "one_element"}
    assert [item.name for item in found.launches] == ["scale_kernel"]
    assert found.launches[0].registers > 0


def test_returning_the_input_has_no_latency_to_tell(client):
    found, _ = evaluate(client, task("identity"), kernel("returns_input"))
    assert found.timing.status == evaluation_pb2.TIMING_STATUS_INCONCLUSIVE
    assert found.timing.cause == evaluation_pb2.TIMING_CAUSE_BELOW_RESOLUTION
    assert not found.timing.HasField("median_us")


def test_what_the_host_computes_is_right_but_has_no_estimate(client):
    found, _ = evaluate(client, task("wide_scale"), kernel("scaled_by_the_host"))
    assert verdict_of(found) == PASSED, found.failure
    assert found.timing.status == evaluation_pb2.TIMING_STATUS_INCONCLUSIVE
    assert found.timing.cause == evaluation_pb2.TIMING_CAUSE_PROFILE_INCOMPLETE
    assert "between host and device" in found.timing.explanation
    assert not found.timing.HasField("median_us")


def test_seeded_state_judges_layers_of_other_names_and_says_so(client):
    found, _ = evaluate(client, task("two_layers"), kernel("layers_of_another_name"), state_mode=pb.STATE_MODE_SEEDED)
    assert verdict_of(found) == PASSED, found.failure
    assert "default parameters only" in found.timing.explanation


def test_nothing_is_left_behind(client, server):
    for name in ("forks", "exits", "hangs_at_import"):
        limits = pb.PhaseLimits(setup=duration_pb2.Duration(seconds=2))
        evaluate(client, task("scale"), kernel(name), limits=limits, cache_mode=pb.CACHE_MODE_BYPASS)
    # What is left are the two runners that are kept warm: one runner process each, and one private folder each.
    runners = [pid for pid in server.tree() if _command(pid).startswith(sys.executable) and "adaexplore_evaluator.runner" in _command(pid)]
    assert len(runners) <= 2
    assert len(server.runner_folders()) <= 2


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
