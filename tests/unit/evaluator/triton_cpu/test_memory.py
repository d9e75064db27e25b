"""Accesses that a GPU lets pass or not at random are found, and never touch memory that is not the kernel's."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def copy_block(x, o, n, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    mask = offsets < n
    tl.store(o + offsets, tl.load(x + offsets, mask=mask), mask=mask)


@triton.jit
def copy_without_mask(x, o, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + offsets, tl.load(x + offsets))


@triton.jit
def copy_rows(x, o, x_stride, o_stride, columns, B: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, B)
    values = tl.load(x + row * x_stride + column, mask=column < columns)
    tl.store(o + row * o_stride + column, values, mask=column < columns)


@triton.jit
def sum_rows_without_other(x, o, columns, B: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, B)
    tl.store(o + row, tl.sum(tl.load(x + row * columns + column, mask=column < columns), axis=0))


@triton.jit
def max_rows_without_other(x, o, columns, B: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, B)
    tl.store(o + row, tl.max(tl.load(x + row * columns + column, mask=column < columns), axis=0))


@triton.jit
def shift_left(x, o, n, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    inside = offsets + 1 < n
    tl.store(o + offsets, tl.load(x + offsets + 1, mask=inside, other=0.0), mask=inside)


@triton.jit
def everyone_writes_its_number(o):
    tl.store(o, tl.program_id(0))


@triton.jit
def everyone_writes_one(o):
    tl.store(o, 1)


@triton.jit
def count(x, o, n, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o, tl.sum((tl.load(x + offsets, mask=offsets < n, other=0) > 0).to(tl.int32)))


@triton.jit
def add_under_a_lock(o, lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(o, tl.load(o) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def read_what_the_next_one_writes(x, o):
    program = tl.program_id(0)
    tl.store(o + program, tl.load(x + program + 1) + 1)
    tl.store(x + program, program.to(tl.float32) + 100)


@triton.jit
def follow_addresses(table, o, B: tl.constexpr):
    base = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, B)
    tl.store(o + tl.program_id(0) * B + offsets, tl.load(base + offsets))


def test_a_masked_copy_touches_only_its_tensors(session):
    x, o = torch.randn(1000), torch.full((1000,), -1.0)
    with session() as found:
        copy_block[(8,)](x, o, 1000, B=128)
    assert torch.equal(x, o)
    assert found.violations == []


def test_a_missing_mask_is_reported_with_argument_and_line_and_overwrites_nothing(session):
    whole = torch.full((1280,), 7.0)
    x, o = torch.randn(1000), whole[:1000]
    with session() as found:
        copy_without_mask[(8,)](x, o, B=128)
    assert torch.equal(o, x)
    assert torch.all(whole[1000:] == 7.0)
    assert {(v.kind, v.kernel_name) for v in found.violations} == {("out_of_bounds", "copy_without_mask")}
    reads = [v for v in found.violations if v.message.startswith("reads")]
    assert "element 1000 of x, which spans 1000 elements" in reads[0].message
    assert all(v.line == copy_without_mask.fn.__code__.co_firstlineno + 3 for v in found.violations)


def test_an_access_far_outside_does_not_end_the_process(session):
    x, o = torch.randn(4), torch.zeros(4)
    with session() as found:
        copy_block[(1 << 10,)](x, o, 1 << 40, B=1024)
    assert torch.equal(x, o)
    assert found.violations


def test_a_block_wider_than_the_columns_is_out_of_bounds_in_the_last_row_though_values_match(session):
    x, o = torch.randn(3, 100), torch.zeros(3, 128)
    with session() as found:
        copy_rows[(3,)](x, o, 100, 128, 128, B=128)
    assert torch.equal(o[:, :100], x)
    assert [v.kind for v in found.violations] == ["out_of_bounds"]


def test_a_mask_taken_from_the_base_of_a_strided_view_is_out_of_bounds_though_the_storage_is_there(session):
    base = torch.randn(4, 128)
    o = torch.zeros(4, 128)
    with session() as found:
        copy_rows[(3,)](base[:, :100], o, 128, 128, 128, B=128)
    assert [v.kind for v in found.violations] == ["out_of_bounds"]
    assert "strided view" in found.violations[0].message


def test_a_strided_view_read_by_its_own_mask_is_in_bounds(session):
    base, o = torch.randn(4, 128), torch.zeros(4, 100)
    with session() as found:
        copy_rows[(4,)](base[:, :100], o, 128, 100, 100, B=128)
    assert torch.equal(o, base[:, :100])
    assert found.violations == []


@pytest.mark.parametrize("kernel", [sum_rows_without_other, max_rows_without_other])
def test_masked_lanes_without_other_do_not_read_zero(session, kernel):
    x, o = -torch.rand(32, 100) - 1.0, torch.zeros(32)
    with session() as found:
        kernel[(32,)](x, o, 100, B=128)
    expected = x.sum(1) if kernel is sum_rows_without_other else x.max(1).values
    assert not torch.allclose(o, expected)
    assert found.violations == []


def test_masked_lanes_that_are_not_stored_are_harmless(session):
    x, o = torch.randn(100), torch.zeros(100)
    with session() as found:
        copy_block[(1,)](x, o, 100, B=128)
    assert torch.equal(x, o)
    assert found.violations == []


def test_programs_that_write_different_values_to_one_element_race(session):
    o = torch.zeros(1, dtype=torch.int32)
    with session() as found:
        everyone_writes_its_number[(4,)](o)
    assert [(v.kind, v.kernel_name) for v in found.violations] == [("race", "everyone_writes_its_number")]


@triton.jit
def shared_head(o, B: tl.constexpr):
    lane = tl.arange(0, B)
    tl.store(o + lane, tl.where(lane < B // 2, 1, tl.program_id(0)))


@triton.jit
def overlapping_tail(x, o, n, B: tl.constexpr):
    start = min(tl.program_id(0) * B, n - B)
    lane = tl.arange(0, B)
    tl.store(o + start + lane, tl.load(x + start + lane) * 2)


def test_a_race_behind_elements_that_agree_is_found(session):
    with session() as found:
        shared_head[(2,)](torch.zeros(64, dtype=torch.int32), B=64)
    assert [v.kind for v in found.violations] == ["race"]


def test_a_last_block_that_overlaps_and_agrees_does_not_race(session):
    x, o = torch.randn(100), torch.zeros(100)
    with session() as found:
        overlapping_tail[(2,)](x, o, 100, B=64)
    assert torch.equal(o, x * 2)
    assert found.violations == []


def test_programs_that_write_the_same_value_do_not_race(session):
    with session() as found:
        everyone_writes_one[(4,)](torch.zeros(1, dtype=torch.int32))
    assert found.violations == []


def test_reading_a_neighbours_output_in_place_races_and_depends_on_the_order(session):
    results = []
    for seed in range(6):
        x = torch.arange(300, dtype=torch.float32)
        with session(order_seed=seed) as found:
            shift_left[(3,)](x, x, 300, B=128)
        assert {v.kind for v in found.violations} == {"race"}
        results.append(x)
    assert any(not torch.equal(results[0], other) for other in results[1:])


def test_a_read_of_what_another_program_writes_races_in_every_order(session):
    for seed in range(4):
        x, o = torch.zeros(9), torch.zeros(8)
        with session(order_seed=seed) as found:
            read_what_the_next_one_writes[(8,)](x, o)
        assert {v.kind for v in found.violations} == {"race"}


def test_shifting_into_another_tensor_does_not_race(session):
    x, o = torch.arange(300.0), torch.zeros(300)
    with session() as found:
        shift_left[(3,)](x, o, 300, B=128)
    assert torch.equal(o[:-1], x[1:])
    assert found.violations == []


def test_atomics_do_not_race_and_add_up(session):
    x, o = torch.randn(1000), torch.zeros(1, dtype=torch.int32)
    with session() as found:
        count[(8,)](x, o, 1000, B=128)
    assert o.item() == int((x > 0).sum())
    assert found.violations == []


def test_stores_under_a_lock_do_not_race(session):
    o, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    with session() as found:
        add_under_a_lock[(16,)](o, lock)
    assert o.item() == 16.0
    assert found.violations == []


def test_a_pointer_from_a_table_is_checked_against_the_known_allocations(session):
    rows = [torch.randn(64), torch.randn(64)]
    table, o = torch.tensor([row.data_ptr() for row in rows]), torch.zeros(2, 64)
    known = [(row.data_ptr(), row.nbytes, f"row{number}") for number, row in enumerate(rows)]
    with session(allocations=lambda: known) as found:
        follow_addresses[(2,)](table, o, B=64)
    assert torch.equal(o, torch.stack(rows))
    assert found.violations == []
    with session(allocations=lambda: []) as lost:
        follow_addresses[(2,)](table, o, B=64)
    assert [v.kind for v in lost.violations] == ["out_of_bounds"]


@triton.jit
def gather_through_pointers(table, o, n, B: tl.constexpr):
    lane = tl.arange(0, B)
    pointers = tl.load(table + lane, mask=lane < n).to(tl.pointer_type(tl.float32))
    tl.store(o + lane, tl.load(pointers, mask=lane < n), mask=lane < n)


def test_one_access_may_go_into_several_tensors_and_only_lanes_outside_of_all_are_reported(session):
    rows = [torch.randn(4) for _ in range(8)]
    table, o = torch.tensor([row.data_ptr() for row in rows]), torch.zeros(8)
    known = [(row.data_ptr(), row.nbytes, "row") for row in rows]
    with session(allocations=lambda: known) as found:
        gather_through_pointers[(1,)](table, o, 8, B=16)
    assert o.tolist() == [row[0].item() for row in rows]
    assert found.violations == []
    with session(allocations=lambda: known[:6]) as lost:
        gather_through_pointers[(1,)](table, o, 8, B=16)
    assert [v.message for v in lost.violations] == ["reads 2 lanes through pointers into no known tensor"]


def test_a_tensor_without_elements_may_be_passed_and_not_touched(session):
    x, o = torch.zeros(0), torch.zeros(0)
    with session() as found:
        copy_block[(0,)](x, o, 0, B=128)
        copy_block[(1,)](x, o, 0, B=128)
        copy_block[(1,)](x, o, 1, B=128)
    assert {v.kind for v in found.violations} == {"out_of_bounds"}
    assert [launch.grid for launch in found.launches] == [(0,), (1,), (1,)]
