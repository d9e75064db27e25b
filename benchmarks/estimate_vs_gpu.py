"""Measures on a real GPU what the cpu device estimates: the example tasks in eager and compiled mode, and kernels of known traffic.

    python benchmarks/estimate_vs_gpu.py OUT_FOLDER [--examples FOLDER] [--only WORD]

Needs torch and triton alone. Cold latencies: the L2 is overwritten before each of 30 calls, CUDA events hold the clock. Writes
OUT_FOLDER/estimate_vs_gpu.json and prints a table; medians with the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
import triton
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks import estimate_kernels as kernels  # found beside this file, wherever it is run from

SAMPLES = 30
WARM_UP = 5
FLUSH_BYTES = 512 << 20
Record = dict[str, Any]


class Clock(Protocol):
    """Where the benchmarks get their tensors from and what times their calls."""

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A tensor of normally distributed values."""

    def compiled(self, launch: Callable[[], Any]) -> Any:
        """The compiled kernel that a launch returns."""

    def time(self, call: Callable[[], Any]) -> Record:
        """Latency of a call in microseconds, at least as `median_us`."""


class GpuClock:
    """Times calls on the current GPU, each after overwriting the L2."""

    def __init__(self) -> None:
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normally distributed values on the GPU."""
        return torch.randn(shape, device="cuda", dtype=dtype)

    def compiled(self, launch: Callable[[], Any]) -> Any:
        """Launch once."""
        return launch()

    def time(self, call: Callable[[], Any]) -> Record:
        """Median, 10th and 90th percentile of the call's latency in microseconds."""
        for _ in range(WARM_UP):
            call()
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(SAMPLES)]
        torch.cuda.synchronize()
        for start, end in pairs:
            self._flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        samples = sorted(1e3 * start.elapsed_time(end) for start, end in pairs)
        low, high = samples[SAMPLES // 10], samples[-1 - SAMPLES // 10]
        return {"median_us": statistics.median(samples), "p10_us": low, "p90_us": high}


def device_kernels(call: Callable[[], Any]) -> list[Record]:
    """Names and durations in microseconds of the device kernels of one call, as the profiler saw them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    events = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return [{"name": event.name[:80], "us": event.time_range.elapsed_us()} for event in events if "Memset" not in event.name]


def load_task(path: Path) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """Model and inputs of an example task on the GPU."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    with torch.device("cuda"):
        return task.Model(*task.get_init_inputs()), task.get_inputs()


def measure_task(name: str, function: Callable[..., Any], inputs: list[torch.Tensor], clock: Clock) -> Record:
    """Eager and compiled latency of a function and the device kernels it launches, with TF32 off."""
    torch._dynamo.reset()
    record: Record = {"task": name}
    for kind, run_it in (("eager", function), ("compiled", torch.compile(function))):
        call = lambda run_it=run_it: run_it(*inputs)  # noqa: E731
        record[kind] = {**clock.time(call), "kernels": device_kernels(call)}
    return record


# Shapes and functions that show how torch.compile fuses where its rules are not obvious.
PROBES: tuple[tuple[str, tuple[int, ...], Callable[..., Any]], ...] = (
    ("rms_over_columns", (16, 64, 256, 256), lambda x: x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)),
    ("softmax_over_columns", (16, 256, 128, 128), lambda x: torch.softmax(x, dim=1)),
    ("batch_norm_training", (16384, 4096), lambda x: functional.batch_norm(x, None, None, training=True)),
    ("group_norm", (16384, 4096), lambda x: functional.group_norm(x, 64)),
    ("layer_norm_few_rows", (16, 1 << 22), lambda x: functional.layer_norm(x, (1 << 22,))),
    ("softmax_long_rows", (512, 393216), lambda x: torch.softmax(x, dim=1)),
    ("sum_of_all", (8192, 8192), lambda x: torch.relu(x).sum()),
    ("two_axes", (8192, 8192), lambda x: (x.sum(0), x.sum(1))),
    ("mse", (8192, 8192), lambda x: functional.mse_loss(x, x * 0.5)),
    ("small_chain", (1024, 1024), lambda x: torch.tanh(torch.relu(x) + 1.0) * x),
)


def measure_probes(clock: Clock) -> Iterator[Record]:
    """Eager and compiled latency and kernels of the probes."""
    for name, shape, function in PROBES:
        yield measure_task(name, function, [clock.tensor(*shape)], clock)


def measure_tasks(folder: Path, clock: Clock) -> Iterator[Record]:
    """Eager and compiled latency and kernels of the example tasks."""
    for path in sorted(folder.glob("*.py")):
        model, inputs = load_task(path)
        yield measure_task(path.stem, model, inputs, clock)


def kernel_record(name: str, config: Record, launch: Callable[[], Any], grid: int, work: Record, clock: Clock) -> Record:
    """Latency and compiled resources of one launch, with the work that was counted by hand."""
    compiled = clock.compiled(launch)
    resources = {
        "registers": compiled.n_regs,
        "spill_bytes": compiled.n_spills * 4,
        "shared_bytes": compiled.metadata.shared,
        "num_warps": compiled.metadata.num_warps,
    }
    return {
        "kernel": name,
        "config": config,
        "grid": [grid],
        "resources": resources,
        "traffic": {"programs": grid, **work},
        **clock.time(launch),
    }


MILLION = 1 << 20
# Elements, block, warps.
COPIES = (
    (4096, 1024, 4), (MILLION, 1024, 4), (4 * MILLION, 1024, 4), (64 * MILLION, 1024, 4), (64 * MILLION, 4096, 4),
    (64 * MILLION, 4096, 8), (64 * MILLION, 512, 4), (64 * MILLION, 256, 2), (64 * MILLION, 128, 4), (64 * MILLION, 128, 1),
    (64 * MILLION, 32, 1), (256 * MILLION, 1024, 4),
)  # fmt: skip


def copies(clock: Clock, sizes: Sequence[tuple[int, int, int]] = COPIES) -> Iterator[Record]:
    """Device memory bandwidth, launch cost and program starts."""
    for n, block, warps in sizes:
        x, y, grid = clock.tensor(n), clock.tensor(n), triton.cdiv(n, block)
        launch = lambda: kernels.copy_kernel[(grid,)](x, y, n, BLOCK=block, num_warps=warps)  # noqa: B023, E731
        work = {"dram_read_bytes": 4 * n, "dram_write_bytes": 4 * n, "l2_bytes": 8 * n}
        yield kernel_record("copy", {"n": n, "block": block, "warps": warps}, launch, grid, work, clock)


def units(clock: Clock) -> Iterator[Record]:
    """L2 bandwidth, special functions and atomic updates."""
    n = 1 << 22
    x, y = clock.tensor(n), clock.tensor(1 << 26)
    grid = 132 * 16
    launch = lambda: kernels.l2_read_kernel[(grid,)](x, y, n, PASSES=64, BLOCK=2048, num_warps=8)  # noqa: E731
    work = {"dram_read_bytes": 4 * n, "dram_write_bytes": 4 * grid * 2048, "l2_bytes": 4 * grid * 2048 * 65}
    yield kernel_record("l2_read", {"passes": 64}, launch, grid, work, clock)
    grid = n // 1024
    launch = lambda: kernels.exponentials_kernel[(grid,)](x, y, n, REPEATS=256, BLOCK=1024, num_warps=8)  # noqa: E731
    work = {"dram_read_bytes": 4 * n, "dram_write_bytes": 4 * n, "l2_bytes": 8 * n, "special_functions": 256 * n, "flops_fp32": 256 * n}
    yield kernel_record("exponentials", {"repeats": 256}, launch, grid, work, clock)
    for addresses in (1 << 20, 1 << 10):
        launch = lambda: kernels.atomics_kernel[(grid,)](x, y, n, addresses, BLOCK=1024, num_warps=8)  # noqa: B023, E731
        work = {"dram_read_bytes": 4 * n, "dram_write_bytes": 4 * addresses, "l2_bytes": 8 * n, "atomics": n}
        yield kernel_record("atomics", {"addresses": addresses}, launch, grid, work, clock)


# Rows, columns, block, warps.
WHOLE_ROWS = (
    (8192, 8192, 8192, 4), (8192, 8192, 8192, 8), (8192, 8192, 8192, 16), (8192, 8192, 8192, 32),
    (65536, 1024, 1024, 4), (4096, 32768, 32768, 16),
)  # fmt: skip
LONG_ROWS = ((8192, 8192, 2048, 8), (1024, 131072, 4096, 8), (512, 393216, 4096, 16))
Shapes = Sequence[tuple[int, int, int, int]]


def rows(clock: Clock, whole: Shapes = WHOLE_ROWS, long: Shapes = LONG_ROWS) -> Iterator[Record]:
    """Softmax with the row in one block, and in two passes over blocks."""
    for count, columns, block, warps in whole:
        x, y = clock.tensor(count, columns), clock.tensor(count, columns)
        launch = lambda: kernels.softmax_kernel[(count,)](x, y, columns, BLOCK=block, num_warps=warps)  # noqa: B023, E731
        n = count * columns
        work = {"dram_read_bytes": 4 * n, "dram_write_bytes": 4 * n, "l2_bytes": 8 * n, "special_functions": 2 * n, "flops_fp32": 3 * n}
        yield kernel_record("softmax", {"rows": count, "columns": columns, "block": block, "warps": warps}, launch, count, work, clock)
    for count, columns, block, warps in long:
        x, y = clock.tensor(count, columns), clock.tensor(count, columns)
        launch = lambda: kernels.softmax_two_pass_kernel[(count,)](x, y, columns, BLOCK=block, num_warps=warps)  # noqa: B023, E731
        n = count * columns
        work = {"dram_read_bytes": 4 * n, "dram_write_bytes": 4 * n, "l2_bytes": 12 * n, "special_functions": 4 * n, "flops_fp32": 7 * n}
        config = {"rows": count, "columns": columns, "block": block, "warps": warps}
        yield kernel_record("softmax_two_pass", config, launch, count, work, clock)


BLOCKS = ((512, 4), (1024, 4), (2048, 4), (2048, 8), (8192, 8))


def pointwise(clock: Clock, blocks: Sequence[tuple[int, int]] = BLOCKS) -> Iterator[Record]:
    """Bias, GELU and residual in one kernel."""
    count, features = 8192, 8192
    n = count * features
    x, residual, y = (clock.tensor(count, features) for _ in range(3))
    bias = clock.tensor(features)
    for block, warps in blocks:
        grid = n // block
        launch = lambda: kernels.bias_gelu_residual_kernel[(grid,)](x, bias, residual, y, n, features, BLOCK=block, num_warps=warps)  # noqa: B023, E731
        work = {"dram_read_bytes": 8 * n, "dram_write_bytes": 4 * n, "l2_bytes": 16 * n, "special_functions": 2 * n, "flops_fp32": 9 * n}
        yield kernel_record("bias_gelu_residual", {"block": block, "warps": warps}, launch, grid, work, clock)


# Shape, epilogue, dtype and precision; then block m, n, k, warps and stages to try.
SQUARE_FP32 = (4096, 4096, 4096, "relu", torch.float32)
SQUARE_BF16 = (8192, 8192, 8192, "relu", torch.bfloat16)
MATMULS = (
    ((*SQUARE_FP32, "ieee"), ((64, 64, 16, 4, 2), (64, 64, 32, 4, 3), (128, 64, 16, 8, 2), (128, 128, 16, 8, 2))),
    ((*SQUARE_FP32, "tf32"), ((64, 64, 32, 4, 3), (128, 128, 32, 4, 3), (128, 128, 32, 8, 3), (128, 256, 32, 8, 3))),
    ((*SQUARE_BF16, "ieee"), ((64, 64, 64, 4, 3), (128, 128, 64, 2, 3), (128, 128, 64, 4, 3), (128, 256, 64, 8, 3))),
    ((16384, 4096, 16, "gelu_residual", torch.float32, "ieee"), ((32, 64, 16, 4, 1), (64, 64, 16, 4, 1), (128, 64, 16, 8, 1))),
    (
        (16384, 4096, 32, "gelu_residual", torch.float32, "ieee"),
        ((32, 64, 32, 4, 1), (64, 64, 32, 4, 1), (64, 64, 16, 4, 2), (128, 64, 32, 8, 1)),
    ),
    ((16384, 4096, 64, "gelu_residual", torch.float32, "ieee"), ((64, 64, 32, 4, 2), (128, 64, 32, 8, 2))),
    ((16384, 4096, 32, "gelu_residual", torch.float32, "tf32"), ((64, 64, 32, 4, 1), (128, 128, 32, 8, 1))),
)


def products(clock: Clock, problems: Sequence[Any] = MATMULS) -> Iterator[Record]:
    """Matrix products with an epilogue at several tiles and precisions."""
    for problem, tiles in problems:
        for tile in tiles:
            yield product(problem, tile, clock)


def product(problem: tuple[Any, ...], tile: tuple[int, ...], clock: Clock) -> Record:
    """One product with one tile."""
    (m, n, k, epilogue, dtype, precision), (block_m, block_n, block_k, warps, stages) = problem, tile
    a, b, bias, residual = (clock.tensor(*shape, dtype=dtype) for shape in ((m, k), (n, k), (n,), (m, n)))
    c, grid = clock.tensor(m, n, dtype=dtype), (m // block_m) * (n // block_n)
    constants = {"EPILOGUE": epilogue, "PRECISION": precision, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP": 8}
    launch = lambda: kernels.matmul_kernel[(grid,)](  # noqa: E731
        a, b, bias, residual, c, m, n, k, **constants, num_warps=warps, num_stages=stages
    )  # fmt: skip
    config = {"m": m, "n": n, "k": k, "dtype": str(dtype), **constants, "warps": warps, "stages": stages}
    return kernel_record("matmul", config, launch, grid, product_work(config, a.element_size()), clock)


def product_work(config: Record, element_bytes: int) -> Record:
    """Bytes and operations of one product, counted as the cpu device counts them: `ieee` float32 runs on the ordinary units."""
    m, n, k = config["m"], config["n"], config["k"]
    reads_residual = config["EPILOGUE"] == "gelu_residual"
    dram_read = element_bytes * (m * k + n * k + (m * n if reads_residual else 0))
    operand_reads = element_bytes * m * n * k * (1 / config["BLOCK_M"] + 1 / config["BLOCK_N"])
    epilogue_bytes = element_bytes * m * n * (2 if reads_residual else 1)
    ieee = config["dtype"] == "torch.float32" and config["PRECISION"] == "ieee"
    flops = 2.0 * m * n * k
    dtype = "tf32" if config["dtype"] == "torch.float32" else "bf16"
    return {
        "dram_read_bytes": dram_read,
        "dram_write_bytes": element_bytes * m * n,
        "l2_bytes": operand_reads + epilogue_bytes,
        "flops_fp32": flops if ieee else 0.0,
        "flops_tensor_core": 0.0 if ieee else flops,
        "tensor_core_dtype": "" if ieee else dtype,
        "special_functions": 2.0 * m * n if reads_residual else 0.0,
    }


# Kernels that no constant of the model was set from.
THIN_TILES = (
    (128, 128, 16, 8, 1), (64, 128, 16, 4, 1), (128, 64, 16, 4, 1), (64, 32, 16, 2, 1), (32, 32, 16, 2, 1), (64, 64, 16, 2, 1),
    (128, 128, 16, 4, 1), (32, 128, 16, 4, 1), (64, 64, 16, 8, 1), (256, 64, 16, 8, 1), (16, 256, 16, 4, 1),
)  # fmt: skip
HELD_OUT_MATMULS = (
    ((4096, 4096, 4096, "relu", torch.float16, "ieee"), ((32, 32, 32, 4, 2), (64, 128, 32, 4, 4), (128, 128, 32, 8, 4))),
    ((16384, 1024, 4096, "relu", torch.bfloat16, "ieee"), ((64, 32, 64, 4, 3), (128, 64, 64, 4, 3), (128, 128, 64, 8, 3))),
    (
        (2048, 8192, 1024, "relu", torch.float32, "ieee"),
        ((32, 32, 32, 4, 2), (32, 128, 16, 4, 2), (128, 32, 32, 4, 2), (64, 128, 16, 8, 2)),
    ),
    ((16384, 4096, 16, "gelu_residual", torch.float32, "ieee"), THIN_TILES),
    ((8192, 8192, 64, "gelu_residual", torch.float32, "tf32"), ((64, 64, 64, 4, 1), (64, 128, 32, 4, 2), (128, 64, 32, 8, 2))),
)


def held_out(clock: Clock) -> Iterator[Record]:
    """Kernels, sizes and tiles beside those that the constants were set from, to see how far the estimate carries."""
    for record in itertools.chain(
        copies(clock, ((96 * MILLION, 2048, 8), (16 * MILLION, 1024, 4), (32 * MILLION, 64, 2))),
        rows(clock, ((32768, 2048, 2048, 4), (16384, 4096, 4096, 16)), ((16384, 4096, 1024, 4), (2048, 65536, 8192, 16))),
        pointwise(clock, ((256, 1), (4096, 4))),
        products(clock, HELD_OUT_MATMULS),
    ):
        yield {**record, "held_out": True}


# What launches Triton kernels; each takes a clock.
KERNEL_GROUPS = (copies, units, rows, pointwise, products, held_out)


def libraries(clock: Clock) -> Iterator[Record]:
    """What cuBLAS reaches in each precision."""
    for size, dtype, tf32 in ((4096, torch.float32, False), (4096, torch.float32, True), (8192, torch.bfloat16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (clock.tensor(size, size, dtype=dtype) for _ in range(2))
        record = clock.time(lambda: a @ b)  # noqa: B023
        torch.backends.cuda.matmul.allow_tf32 = False
        yield {"kernel": "cublas", "config": {"size": size, "dtype": str(dtype), "tf32": tf32}, "flops": 2.0 * size**3, **record}


def collect(records: Iterator[Record], into: list[Record]) -> None:
    """Collect and print records as they come; one that fails is reported and ends its group only."""
    try:
        with torch.no_grad():
            for record in records:
                into.append(record)
                print(line_of(record), flush=True)
                torch.cuda.empty_cache()
    except Exception as error:
        print(f"failed: {type(error).__name__}: {error}", flush=True)
        into.append({"failed": f"{type(error).__name__}: {error}"})


def line_of(record: Record) -> str:
    """One line of the table: a task with both baselines, or a kernel with its configuration."""
    if "task" in record:
        cells = [f"{kind} {record[kind]['median_us']:9.1f} µs in {len(record[kind]['kernels'])} kernels" for kind in ("eager", "compiled")]
        return f"{record['task']:26s} {'   '.join(cells)}"
    config = " ".join(str(value) for value in record["config"].values())
    return f"{record['kernel']:20s} {config:60s} {record['median_us']:10.1f} µs ({record['p10_us']:.1f}–{record['p90_us']:.1f})"


def parse_options() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure on a GPU what the cpu device estimates.")
    parser.add_argument("out", type=Path, help="folder for estimate_vs_gpu.json")
    parser.add_argument("--examples", type=Path, default=Path(__file__).resolve().parent.parent / "examples")
    parser.add_argument("--only", choices=["kernels", "tasks"])
    return parser.parse_args()


def main() -> int:
    """Measure everything, print the table and write the JSON; 2 where there is no CUDA GPU."""
    options = parse_options()
    if not torch.cuda.is_available():
        print("no CUDA GPU found; this script measures real latencies and has nothing to do", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    began, clock = time.monotonic(), GpuClock()
    tasks: list[Record] = []
    measured: list[Record] = []
    for group in (*KERNEL_GROUPS, libraries) if options.only != "tasks" else ():
        collect(group(clock), measured)
    if options.only != "kernels":
        collect(measure_tasks(options.examples, clock), tasks)
        collect(measure_probes(clock), tasks)
    platform = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / "estimate_vs_gpu.json"
    target.write_text(json.dumps({"platform": platform, "tasks": tasks, "kernels": measured}, indent=1))
    print(f"{time.monotonic() - began:.0f} s; wrote {target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
