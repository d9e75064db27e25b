"""What a launch at full shape moves and computes, from a few of its programs and without touching the memory."""

import math
import mmap

import pytest
import torch
import triton
import triton.language as tl
from adaexplore_evaluator.runner.triton_cpu.execution import Interpreter
from adaexplore_evaluator.runner.triton_cpu.traffic import sample_iterations, sample_programs

MAP_NORESERVE = 0x4000


def lazily_mapped(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    memory = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, flags=flags)
    return torch.frombuffer(memory, dtype=dtype).view(*shape)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - procfs
        return int(file.read().split()[1]) * mmap.PAGESIZE


@triton.jit
def copy(x, o, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def copy_strided(x, o, n, STRIDE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i * STRIDE, mask=i < n), mask=i < n)


@triton.jit
def copy_with_int32_offsets(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i))


@triton.jit
def softmax_two_passes(x, o, columns, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = -float("inf")
    for start in range(0, columns, B):
        c = start + tl.arange(0, B)
        values = tl.load(x + row * columns + c, mask=c < columns, other=-float("inf"))
        largest = tl.maximum(largest, tl.max(values, 0))
    for start in range(0, columns, B):
        c = start + tl.arange(0, B)
        values = tl.load(x + row * columns + c, mask=c < columns, other=-float("inf"))
        tl.store(o + row * columns + c, tl.exp(values - largest), mask=c < columns)


@triton.jit
def product(a, b, o, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + row[:, None] * K + inner[None, :]
    right = b + inner[:, None] * N + column[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BK
        right += BK * N
    tl.store(o + row[:, None] * N + column[None, :], total)


@triton.jit
def product_ieee(a, b, o, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + row[:, None] * K + start + inner[None, :])
        total = tl.dot(left, tl.load(b + (start + inner)[:, None] * N + column[None, :]), total, input_precision="ieee")
    tl.store(o + row[:, None] * N + column[None, :], total * 2.0)


@triton.jit
def arithmetic(x, o, h, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(o + i, tl.exp(a * a + a) / tl.sqrt(a))
    tl.atomic_add(h + (i & 3), a)


def test_a_copy_moves_its_tensors_once_also_with_a_partial_last_block(session):
    n = 1_000_003
    with session(mode="full") as found:
        copy[(triton.cdiv(n, 1024),)](torch.zeros(n), torch.zeros(n), n, B=1024)
    traffic = found.launches[0].traffic
    assert (traffic.dram_read_bytes, traffic.dram_write_bytes) == (4 * n, 4 * n)
    assert traffic.l2_bytes == 2 * 32 * math.ceil(4 * n / 32)
    assert (traffic.sampled_programs, traffic.programs) == (3, 977)
    assert (traffic.flops_fp32, traffic.flops_tensor_core, traffic.tensor_core_dtype) == (0, 0, "")


def test_billions_of_elements_cost_neither_time_nor_memory(session):
    n = 1_600_000_000
    x, o = lazily_mapped(n), lazily_mapped(n)
    before = resident_bytes()
    with session(mode="full") as found:
        copy[(triton.cdiv(n, 1024),)](x, o, n, B=1024)
    assert found.launches[0].traffic.dram_read_bytes == 4 * n
    assert resident_bytes() - before < 100 << 20
    assert found.violations == []


def test_an_int32_offset_that_overflows_at_full_shape_is_told_as_that(session):
    n = (1 << 31) + (1 << 20)
    x, o = lazily_mapped(n, dtype=torch.int8), lazily_mapped(n, dtype=torch.int8)
    with session(mode="full") as found:
        copy_with_int32_offsets[(n // 1024,)](x, o, n, B=1024)
    assert {v.kind for v in found.violations} == {"offset_overflow"}


@triton.jit
def copy_parts(x, o, columns, B: tl.constexpr, SPLITS: tl.constexpr):
    row, part = (tl.program_id(0) // SPLITS).to(tl.int64), tl.program_id(0) % SPLITS
    chunk = tl.cdiv(tl.cdiv(columns, SPLITS), B) * B
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, columns), B):
        c = start + tl.arange(0, B)
        tl.store(o + row * columns + c, tl.load(x + row * columns + c, mask=c < columns), mask=c < columns)


@pytest.mark.parametrize("splits", [32, 64, 128])
def test_parts_of_rows_that_have_nothing_to_do_are_counted_with_their_share(session, splits):
    rows, columns = 4096, 24 * 512
    x, o = lazily_mapped(rows, columns), lazily_mapped(rows, columns)
    with session(mode="full") as found:
        copy_parts[(rows * splits,)](x, o, columns, B=512, SPLITS=splits)
    traffic = found.launches[0].traffic
    assert traffic.dram_read_bytes == pytest.approx(4 * rows * columns, rel=0.12)
    assert traffic.dram_write_bytes == pytest.approx(4 * rows * columns, rel=0.12)


def test_an_uncoalesced_access_asks_for_whole_sectors(session):
    n = 1 << 16
    with session(mode="full") as found:
        copy_strided[(n // 1024,)](torch.zeros(n * 8), torch.zeros(n), n, STRIDE=8, B=1024)
    traffic = found.launches[0].traffic
    assert traffic.l2_bytes == n * 32 + n * 4
    assert traffic.dram_read_bytes == pytest.approx(n * 32, rel=1e-3)


@pytest.mark.parametrize(("columns", "passes"), [(2048, 1), (393_216, 2)])
def test_a_second_pass_over_a_row_reads_device_memory_again_only_if_the_rows_in_flight_exceed_the_cache(session, columns, passes):
    rows = 2048
    x, o = lazily_mapped(rows, columns), lazily_mapped(rows, columns)
    with session(mode="full") as found:
        softmax_two_passes[(rows,)](x, o, columns, B=1024)
    traffic, size = found.launches[0].traffic, 4 * rows * columns
    assert traffic.dram_read_bytes == passes * size
    assert traffic.dram_write_bytes == size
    assert traffic.l2_bytes == 3 * size
    assert traffic.special_functions == rows * columns


def test_a_matrix_product_counts_its_operations_and_shares_reads_in_the_cache(session):
    size = 1024
    a, b, o = torch.zeros(size, size), torch.zeros(size, size), torch.zeros(size, size)
    with session(mode="full") as found:
        product[(size // 64, size // 64)](a, b, o, size, size, BM=64, BN=64, BK=32)
    traffic = found.launches[0].traffic
    assert traffic.flops_tensor_core == 2 * size**3
    assert traffic.tensor_core_dtype == "tf32"
    assert traffic.dram_read_bytes == 2 * 4 * size * size
    assert traffic.dram_write_bytes == 4 * size * size
    assert traffic.l2_bytes == 2 * 16 * 4 * size * size + 4 * size * size


def test_a_matrix_product_beyond_the_cache_reads_device_memory_more_than_once(session):
    size = 8192
    a, b, o = lazily_mapped(size, size), lazily_mapped(size, size), lazily_mapped(size, size)
    with session(mode="full") as found:
        product[(size // 64, size // 64)](a, b, o, size, size, BM=64, BN=64, BK=32)
    traffic, once = found.launches[0].traffic, 2 * 4 * size * size
    assert once * 2 < traffic.dram_read_bytes < once * 64
    assert traffic.flops_tensor_core == pytest.approx(2 * size**3, rel=1e-9)


def test_arithmetic_special_functions_and_atomics_are_counted_per_element(session):
    n = 4096
    with session(mode="full") as found:
        arithmetic[(4,)](torch.ones(n), torch.zeros(n), torch.zeros(4), B=1024)
    traffic = found.launches[0].traffic
    assert traffic.flops_fp32 == 2 * n
    assert traffic.special_functions == 3 * n
    assert traffic.atomics == n


def test_operations_of_a_product_on_ordinary_units_are_told_from_other_arithmetic(session):
    size = 512
    a, b, o = (torch.zeros(size, size) for _ in range(3))
    with session(mode="full") as found:
        product_ieee[(size // 64, size // 64)](a, b, o, size, size, BM=64, BN=64, BK=32)
    traffic = found.launches[0].traffic
    assert traffic.flops_fp32_dot == 2 * size**3
    assert traffic.flops_fp32 - traffic.flops_fp32_dot == pytest.approx(size**2, rel=0.01)
    assert traffic.flops_tensor_core == 0


def test_loop_iterations_are_summed_over_programs_also_where_loops_are_sampled(session):
    with session(mode="full") as found:
        softmax_two_passes[(64,)](lazily_mapped(64, 1 << 16), lazily_mapped(64, 1 << 16), 1 << 16, B=512)
        copy[(64,)](torch.zeros(1 << 16), torch.zeros(1 << 16), 1 << 16, B=1024)
    looping, straight = (launch.traffic for launch in found.launches)
    assert looping.loop_iterations == 64 * 2 * 128
    assert straight.loop_iterations == 0


def test_full_mode_leaves_memory_as_it_was(session):
    x, o = torch.ones(4096), torch.full((4096,), 3.0)
    with session(mode="full"):
        copy[(4,)](x, o, 4096, B=1024)
        arithmetic[(4,)](x, o, o, B=1024)
    assert torch.all(o == 3.0)


def test_a_launch_of_no_programs_moves_nothing(session):
    with session(mode="full") as found:
        copy[(0,)](torch.zeros(0), torch.zeros(0), 0, B=1024)
    traffic = found.launches[0].traffic
    assert (traffic.programs, traffic.dram_read_bytes, traffic.l2_bytes) == (0, 0, 0)


@triton.jit
def waits_for_another_program(flag, o):
    while tl.load(flag, volatile=True) == 0:
        pass
    tl.store(o, 1.0)


def test_a_program_that_waits_for_what_sampling_never_writes_is_given_up(session, monkeypatch):
    ticks = iter(range(0, 10_000_000))
    monkeypatch.setattr(Interpreter, "__init__", _with_clock(Interpreter.__init__, lambda: next(ticks)))
    with session(mode="full") as found:
        waits_for_another_program[(4,)](torch.zeros(1), torch.zeros(1))
    assert found.launches[0].traffic.sampled_programs == 0


def test_a_launch_that_takes_too_long_to_sample_says_so(session, monkeypatch):
    ticks = iter(range(0, 10_000_000, 100))
    monkeypatch.setattr(Interpreter, "__init__", _with_clock(Interpreter.__init__, lambda: next(ticks)))
    with session(mode="full") as found:
        softmax_two_passes[(4,)](torch.zeros(4, 4096), torch.zeros(4, 4096), 4096, B=1024)
    traffic = found.launches[0].traffic
    assert (traffic.sampled_programs, traffic.programs, traffic.dram_read_bytes) == (0, 4, 0)


def _with_clock(original, clock):
    def init(self, *args, **kwargs):
        original(self, *args, **{**kwargs, "clock": clock})

    return init


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (1000, 1, 1), (7, 9, 1), (5, 6, 7)])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 8])
def test_sampled_programs_stand_for_the_whole_grid(grid, limit):
    sampled = sample_programs(grid, limit)
    assert len(sampled) <= limit
    assert sum(program.weight for program in sampled) == pytest.approx(math.prod(grid))
    assert all(0 <= index < size for program in sampled for index, size in zip(program.index, grid, strict=True))


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 12, 100, 12_345])
def test_sampled_iterations_stand_for_the_whole_loop(length):
    sampled = list(sample_iterations(length))
    numbers = [number for number, _ in sampled]
    assert sum(weight for _, weight in sampled) == pytest.approx(length)
    assert numbers == sorted(set(numbers))
    assert all(0 <= number < length for number in numbers)
    assert len(numbers) <= 10
    assert not numbers or numbers[-1] == length - 1
