"""Fixtures of the estimate's tests: an operator graph to write, and a launch record to change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.evaluator.estimate.graph_writer import GraphWriter, Json


@pytest.fixture
def writer() -> GraphWriter:
    return GraphWriter()


def _launch(**changes: object) -> Json:
    """A copy of 64 Mi float32 in programs of 1,024 elements; keyword arguments replace fields wherever they belong."""
    n = 1 << 26
    record: Json = {
        "kind": "triton",
        "name": "copy",
        "grid": [n // 1024],
        "constexprs": {},
        "num_warps": 4,
        "num_stages": 3,
        "count": 1,
        "line": 1,
    }
    resources: Json = {"registers": 24, "spill_bytes": 0, "shared_bytes": 0, "num_warps": 4, "num_ctas": 1}
    traffic: Json = {
        "dram_read_bytes": 4 * n, "dram_write_bytes": 4 * n, "l2_bytes": 8 * n, "flops_fp32": 0, "flops_fp32_dot": 0,
        "flops_tensor_core": 0, "tensor_core_dtype": "", "loop_iterations": 0,
        "special_functions": 0, "atomics": 0, "sampled_programs": 8, "programs": n // 1024,
    }  # fmt: skip
    for key, value in changes.items():
        (resources if key in resources else traffic if key in traffic else record)[key] = value
    return {**record, "resources": resources, "traffic": traffic, **{k: v for k, v in changes.items() if k in ("resources", "traffic")}}


@pytest.fixture(scope="session")
def launch() -> Callable[..., Json]:
    return _launch
