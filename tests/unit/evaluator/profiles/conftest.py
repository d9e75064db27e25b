"""JSON of an Evaluation to change."""

import pytest
from adaexplore_evaluator.devices.cpu.ceilings import Ceilings, Work

CEILINGS = Ceilings(bytes_per_second=4e12, product_flops_per_second=5e13, other_flops_per_second=2.5e13)
LEAST = Work(bytes=400e6, product_flops=0.0, other_flops=100e6)


def a_launch(name="scale_kernel", **changes):
    resources = {"registers": 32, "spill_bytes": 0, "shared_bytes": 0, "warps": 4}
    return {"name": name, "count": 1, "grid": [100_000], "latency_us": 125.0, "dram_bytes": 0.0, "flops": 0.0, **resources} | changes


def an_evaluation(*launches, device="CUDA", status="MEASURED", median_us=125.0, **changes):
    timing = {"status": f"TIMING_STATUS_{status}"} | ({} if median_us is None else {"median_us": median_us})
    return {
        "verdict": "VERDICT_PASSED",
        "precision": "PRECISION_CLASS_FP32",
        "timing": timing,
        "launches": list(launches),
        "platform": {"device": f"DEVICE_KIND_{device}", "device_name": "NVIDIA H200", "target": "sm_90"},
    } | changes


@pytest.fixture
def ceilings():
    return CEILINGS


@pytest.fixture
def least():
    return LEAST


@pytest.fixture
def launch():
    return a_launch


@pytest.fixture
def evaluation():
    return an_evaluation
