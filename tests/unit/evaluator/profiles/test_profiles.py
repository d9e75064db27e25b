"""What a call does with its device, from what was measured, estimated and counted."""

import json

import pytest
from adaexplore_evaluator.devices.cpu.ceilings import Work
from adaexplore_evaluator.profiles import profiled, with_work
from adaexplore_evaluator.profiles.launches import bound_by
from adaexplore_evaluator.profiles.text import COUNTERS, MOST_CHARACTERS
from google.protobuf import json_format

from adaexplore.types.v1 import evaluation_pb2

LIBRARY = {"registers": None, "spill_bytes": None, "shared_bytes": None, "warps": None, "grid": []}


def present(item):
    return {name: value for name, value in item.items() if value is not None}


def test_a_launch_has_its_bandwidth_its_operations_and_its_place_under_the_roofline(evaluation, launch, ceilings, least):
    found = profiled(evaluation(launch(dram_bytes=400e6, flops=100e6)), ceilings, least)
    (item,) = found["launches"]
    assert (item["bytes_per_second"], item["flops_per_second"]) == (pytest.approx(3.2e12), pytest.approx(8e11))
    assert item["roofline_share"] == pytest.approx(0.8)
    assert (item["bound_by"], item["limit"]) == ("dram", "device memory bandwidth, 80% of its ceiling")
    assert item["occupancy"] == 1.0
    assert "occupancy_limit" not in item or item["occupancy_limit"] == ""


def test_a_call_is_compared_with_what_its_task_needs_at_least(evaluation, launch, ceilings, least):
    profile = profiled(evaluation(launch(), median_us=200.0), ceilings, least)["profile"]
    assert profile["bytes_per_second"] == pytest.approx(2e12)
    assert profile["roofline_share"] == pytest.approx(0.5)
    assert profile["bound_by"] == "dram"
    assert "by what the whole task needs at least" in profile["limit"]
    assert profile["ceilings"]["measured"] is True


@pytest.mark.parametrize(
    ("work", "latency_us", "precision", "name"),
    [
        (Work(4e8, 0, 0), 120.0, "fp32", "dram"),
        (Work(4e8, 0, 0), 80.0, "fp32", "l2"),
        (Work(4e6, 5e9, 0), 120.0, "fp32", "fp32"),
        (Work(4e6, 5e9, 0), 120.0, "bf16", "tensor_core"),
        (Work(4e6, 0, 2e9), 120.0, "bf16", "fp32"),
        (Work(4e6, 0, 1e6), 120.0, "fp32", "latency"),
        (Work(4e6, 0, 1e6), 3.0, "fp32", "launch"),
    ],
)
def test_measured_work_is_bound_by_the_ceiling_that_it_comes_close_to(ceilings, work, latency_us, precision, name):
    assert bound_by(work, latency_us, ceilings, precision) == name


@pytest.mark.parametrize(
    ("changes", "occupancy", "limit", "says"),
    [
        ({"registers": 255}, 0.125, "registers", "occupancy 12%, limited by registers"),
        ({"shared_bytes": 100_000}, 0.125, "shared memory", "limited by shared memory"),
        ({"grid": [4]}, 1.0, "grid", "4 programs for 132 multiprocessors"),
    ],
)
def test_what_stops_more_programs_is_told(evaluation, launch, ceilings, changes, occupancy, limit, says):
    (item,) = profiled(evaluation(launch(dram_bytes=1e6, **changes)), ceilings)["launches"]
    assert (item["occupancy"], item["occupancy_limit"], item["bound_by"]) == (occupancy, limit, "latency")
    assert says in item["limit"]


def test_an_estimate_keeps_its_bounds_and_shares_its_time_among_launches(evaluation, launch, ceilings, least):
    slow, fast = launch("slow", latency_us=30.0, bound_by="l2"), launch("fast", latency_us=5.0, count=2, bound_by="launch")
    found = profiled(evaluation(slow, fast, device="CPU", status="ESTIMATED", median_us=40.0), ceilings, least)
    assert [item["time_share"] for item in found["launches"]] == [0.75, 0.25]
    assert [item["bound_by"] for item in found["launches"]] == ["l2", "launch"]
    assert found["profile"]["limit"] == "L2 bandwidth in 75% of the time."
    assert found["profile"]["ceilings"]["measured"] is False
    assert found["profile"]["counter_status"] == "COUNTER_STATUS_NOT_ON_DEVICE"


def test_a_candidate_that_did_not_pass_has_no_profile(evaluation, launch, ceilings, least):
    failed = evaluation(launch(), verdict="VERDICT_FAILED")
    assert profiled(failed, ceilings, least) == failed


def test_what_is_not_known_is_left_out(evaluation, launch):
    found = profiled(evaluation(launch(latency_us=None, registers=None), median_us=None, platform={"target": "sm_1"}))
    assert "roofline_share" not in found["profile"]
    assert "limit" not in found["profile"]
    assert "ceilings are not known" in found["profile"]["text"]
    assert "latency unknown" in found["profile"]["text"]


def test_a_profile_is_a_message_of_the_api(evaluation, launch, ceilings, least):
    found = profiled(evaluation(launch(dram_bytes=400e6, flops=1e6)), ceilings, least)
    message = json_format.ParseDict(found, evaluation_pb2.Evaluation())
    assert message.launches[0].bytes_per_second == pytest.approx(3.2e12)
    assert message.profile.text == found["profile"]["text"]
    assert message.profile.counter_status == evaluation_pb2.COUNTER_STATUS_NOT_ASKED


def test_the_text_is_whole_lines_within_its_length_and_says_what_it_leaves_out(evaluation, launch, ceilings, least):
    launches = [launch(f"kernel_{number}_{'x' * 200}", latency_us=40.0 - number, dram_bytes=1e8, flops=1e7) for number in range(40)]
    text = profiled(evaluation(*launches), ceilings, least)["profile"]["text"]
    *_, last = lines = text.splitlines()
    assert len(text) <= MOST_CHARACTERS
    assert len(text) > MOST_CHARACTERS - 320
    shown = [line for line in lines if line.startswith("- kernel_")]
    assert [line.split("_")[1] for line in shown] == [str(number) for number in range(len(shown))]
    assert all("bound by" in line for line in shown)
    assert last.startswith(f"- {40 - len(shown)} more launches: ")


def test_a_text_whose_kernels_all_fit_leaves_out_nothing(evaluation, launch, ceilings, least):
    text = profiled(evaluation(launch("one"), launch("two")), ceilings, least)["profile"]["text"]
    assert "- one ×1" in text
    assert "- two ×1" in text
    assert "more launches" not in text


def test_counted_work_reaches_measured_kernels_by_name_and_the_only_operator_the_library(evaluation, launch, ceilings, least):
    measured = profiled(evaluation(launch("mine"), present(launch("nvjet", **LIBRARY, latency_us=250.0))), ceilings, least)
    operator = present(launch("aten.mm", **LIBRARY, dram_bytes=8e6, flops=1e10, product_flops=1e10))
    mine = [launch("mine", dram_bytes=3e8), launch("mine", dram_bytes=6e8, count=2)]
    found = with_work(measured, evaluation(*mine, operator, device="CPU", status="ESTIMATED"))
    first, second = found["launches"]
    assert (first["dram_bytes"], first["bytes_per_second"], first["bound_by"]) == (5e8, pytest.approx(4e12), "dram")
    assert (second["flops_per_second"], second["bound_by"]) == (pytest.approx(4e13), "fp32")
    assert "work_message" not in found["profile"]
    assert found["profile"]["ceilings"] == measured["profile"]["ceilings"]


def test_work_that_could_not_be_counted_is_said_so(evaluation, launch, ceilings, least):
    measured = profiled(evaluation(launch("mine")), ceilings, least)
    failed = {"verdict": "VERDICT_INCONCLUSIVE", "failure": {"message": "it cannot be interpreted"}}
    found = with_work(measured, failed)
    assert "it cannot be interpreted" in found["profile"]["work_message"]
    assert "it cannot be interpreted" in found["profile"]["text"]
    assert "bytes_per_second" not in found["launches"][0]


def test_several_operators_are_not_told_apart_among_library_kernels(evaluation, launch, ceilings, least):
    measured = profiled(evaluation(present(launch("nvjet", **LIBRARY))), ceilings, least)
    operators = [present(launch(name, **LIBRARY, dram_bytes=8e6)) for name in ("aten.mm", "aten.relu")]
    found = with_work(measured, evaluation(*operators, device="CPU"))
    assert "1 library kernels of 2 operators" in found["profile"]["work_message"]


@pytest.mark.parametrize(("latency_us", "moved"), [(1e-320, 1e9), (1e-3, 1e308), (1e300, 1e-300), (0.0, 1e9)])
def test_absurd_figures_of_a_candidates_process_are_no_rates(evaluation, launch, ceilings, least, latency_us, moved):
    found = profiled(evaluation(launch(latency_us=latency_us, dram_bytes=moved, flops=moved, grid=[0, -1])), ceilings, least)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    json_format.ParseDict(found, evaluation_pb2.Evaluation())


def test_counters_are_spoken_of_where_somebody_asked_for_them(evaluation, launch, ceilings, least):
    asked = {"counter_status": "COUNTER_STATUS_NOT_PERMITTED", "counter_message": "for the administrator only"}
    text = profiled(evaluation(launch(), profile=asked), ceilings, least)["profile"]["text"]
    assert "Hardware counters: not permitted here; for the administrator only" in text
    assert "Hardware counters" not in profiled(evaluation(launch()), ceilings, least)["profile"]["text"]


def test_no_line_of_a_kernel_is_cut_off_beside_long_reasons_and_counters(evaluation, launch, ceilings, least):
    name = "k" * 200
    values = dict.fromkeys(COUNTERS, 123456789.0)
    read = {"counter_status": "COUNTER_STATUS_READ", "counters": [{"kernel_name": name, "launches": 1, "values": values}]}
    item = launch(name, latency_us=125.0, dram_bytes=4e8, flops=1e8, registers=255, shared_bytes=100_000, spill_bytes=4096)
    found = profiled(evaluation(item, launch("other"), profile={**read, "work_message": "w" * 400}), ceilings, least)
    text = found["profile"]["text"]
    assert len(text) <= MOST_CHARACTERS
    (line,) = [part for part in text.splitlines() if part.startswith("- k")]
    assert line.count("…") == 1, "the name's own"
    assert "warp instructions 123 M" in line
    assert line.endswith("of its ceiling")
    refused = {"counter_status": "COUNTER_STATUS_FAILED", "counter_message": "c" * 400, "work_message": "w" * 400}
    assert "- other ×1" in profiled(evaluation(item, launch("other"), profile=refused), ceilings, least)["profile"]["text"]
