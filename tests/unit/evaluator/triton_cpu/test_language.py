"""Features of the language beyond elementwise operations work as on a GPU."""

import pytest
import torch
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)


@triton.jit
def _scaled(x, EXTRA: tl.constexpr):
    return x * FACTOR + EXTRA, x


@triton.jit
def control_flow(x, o, n, one, B: tl.constexpr, LAST: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    a = tl.load(x + i, mask=mask, other=0.0)
    total = 0.0
    k = 0
    while k < 4:
        total += k * 1.5
        k += 1
    for step in range(one, 5, 2):
        total += step.to(tl.float32)
    for step in tl.static_range(2):
        total = total + step
    for step in tl.range(0, 2, num_stages=2):
        total = total + step
    scaled, same = _scaled(a, 0.5)
    if tl.program_id(0) == 0 and n > 0:
        scaled = scaled + 1.0
    elif LAST:
        scaled = scaled - 1.0
    picked = (i > 2) and (i < 9)
    result = tl.where(picked, scaled, same) if total > 0 else same
    size: tl.constexpr = B // 2
    assert size > 0
    tl.device_assert(total == 0.0)
    tl.store(o + i, result + total + size + min(n, 5) + max(one, 2), mask=mask)


@triton.jit
def sorting(x, o, positions, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(o + i, tl.sort(a))
    tl.store(o + B + i, tl.sort(a, descending=True))
    tl.store(o + 2 * B + i, tl.flip(a, 0))
    best, where = tl.max(a, axis=0, return_indices=True)
    tl.store(positions, where)
    tl.store(positions + 1, tl.argmin(a, axis=0))
    tl.store(o + 3 * B, best)


@triton.jit
def shapes(x, o, R: tl.constexpr, C: tl.constexpr):
    r = tl.arange(0, R)
    c = tl.arange(0, C)
    a = tl.load(x + r[:, None] * C + c[None, :])
    turned = tl.trans(a)
    tl.store(o + c[:, None] * R + r[None, :], turned)
    flat = tl.reshape(a, (R * C,))
    tl.store(o + R * C + tl.arange(0, R * C), tl.ravel(a) + flat)
    pairs = tl.join(flat, flat * 2)
    first, second = tl.split(pairs)
    tl.store(o + 2 * R * C + tl.arange(0, R * C), second - first)
    inter = tl.interleave(flat, flat + 1)
    tl.store(o + 3 * R * C + tl.arange(0, 2 * R * C), inter)
    wide = tl.broadcast_to(tl.expand_dims(tl.sum(a, 1), 1), (R, C)) + a.T.T
    tl.store(o + 5 * R * C + r[:, None] * C + c[None, :], wide + tl.cat(c, c, can_reorder=True).max(0) * 0)


@triton.jit
def _largest_with_sum(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, s1 * tl.exp(m1 - m) + s2 * tl.exp(m2 - m)


@triton.jit
def _last_nonzero(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def custom_combinations(x, o, sparse, filled, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    m, s = tl.reduce((a, tl.full((B,), 1.0, tl.float32)), 0, _largest_with_sum)
    tl.store(o, m + tl.log(s))
    tl.store(filled + i, tl.associative_scan(tl.load(sparse + i), 0, _last_nonzero))


@triton.jit
def counting(x, bins, gathered, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(bins + tl.arange(0, 16), tl.histogram(a, 16, mask=i < 100))
    tl.store(gathered + i, tl.gather(a, (B - 1) - i, 0))


@triton.jit
def atomics(x, o, h, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    a = tl.load(x + i, mask=mask, other=0)
    tl.atomic_add(o, tl.sum(a))
    tl.atomic_max(o + 1, tl.max(a, 0))
    tl.atomic_min(o + 2, tl.min(a, 0))
    tl.atomic_add(h + (a.to(tl.int32) & 7), 1, mask=mask)
    tl.atomic_xchg(h + 8, 5)
    tl.atomic_or(h + 9, 1 << tl.program_id(0))
    tl.atomic_cas(h + 10, 0, 7)


@triton.jit
def random_numbers(o, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.rand(seed, i))
    tl.store(o + B + i, tl.randn(seed, i))


@triton.jit
def block_pointers(x, o, rows, columns, R: tl.constexpr, C: tl.constexpr):
    start = tl.program_id(0) * R
    source = tl.make_block_ptr(x, shape=(rows, columns), strides=(columns, 1), offsets=(start, 0), block_shape=(R, C), order=(1, 0))
    sink = tl.make_block_ptr(o, shape=(rows, columns), strides=(columns, 1), offsets=(start, 0), block_shape=(R, C), order=(1, 0))
    for _ in range(0, tl.cdiv(columns, C)):
        values = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(sink, values * 2, boundary_check=(0, 1))
        source = tl.advance(source, (0, C))
        sink = tl.advance(sink, (0, C))


@triton.jit
def descriptors(x, o, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[rows, columns], strides=[columns, 1], block_shape=[R, C])
    sink = tl.make_tensor_descriptor(o, shape=[rows, columns], strides=[columns, 1], block_shape=[R, C])
    start = tl.program_id(0) * R
    sink.store([start, 0], source.load([start, 0]) + 1)


@triton.jit
def swizzled(o, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.swizzle2d(tl.program_id(0), tl.program_id(1), ROWS, COLUMNS, 2)
    tl.store(o + row * COLUMNS + column, tl.program_id(0) * COLUMNS + tl.program_id(1) + tl.num_programs(1) * 0)


@triton.jit
def types_by_argument(x, o, B: tl.constexpr, DTYPE: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(DTYPE).to(o.dtype.element_ty))


def test_control_flow_scalars_constants_and_device_functions(session):
    n, x = 100, torch.randn(100)
    o = torch.empty(100)
    with session() as found:
        control_flow[(2,)](x, o, n, 1, B=64, LAST=True)
    total = 9.0 + 4.0 + 1.0 + 1.0
    i = torch.arange(n)
    scaled = x * 3 + 0.5 + torch.where(i < 64, 1.0, -1.0)
    torch.testing.assert_close(o, torch.where((i > 2) & (i < 9), scaled, x) + total + 32 + 5 + 2)
    assert found.violations == []


def test_sorting_and_positions_of_extremes(session):
    x, o, positions = torch.randn(128), torch.zeros(4, 128), torch.empty(2, dtype=torch.int32)
    with session():
        sorting[(1,)](x, o, positions, B=128)
    assert torch.equal(o[0], x.sort().values)
    assert torch.equal(o[1], x.sort(descending=True).values)
    assert torch.equal(o[2], x.flip(0))
    assert positions.tolist() == [x.argmax().item(), x.argmin().item()]
    assert o[3, 0] == x.max()


def test_changes_of_shape(session):
    x, o = torch.randn(8, 16), torch.empty(6, 128)
    with session():
        shapes[(1,)](x, o, R=8, C=16)
    flat = x.reshape(-1)
    assert torch.equal(o[0], x.T.reshape(-1))
    assert torch.equal(o[1], flat * 2)
    assert torch.equal(o[2], flat * 2 - flat)
    assert torch.equal(o[3:5].reshape(-1), torch.stack([flat, flat + 1], -1).reshape(-1))
    torch.testing.assert_close(o[5], (x + x.sum(1, keepdim=True)).reshape(-1))


def test_reductions_and_scans_with_a_combine_function_of_ones_own(session):
    x, o = torch.randn(128), torch.empty(1)
    sparse = torch.zeros(128, dtype=torch.int32)
    sparse[[0, 5, 77]] = torch.tensor([1, 2, 3], dtype=torch.int32)
    filled = torch.empty_like(sparse)
    with session():
        custom_combinations[(1,)](x, o, sparse, filled, B=128)
    torch.testing.assert_close(o[0], x.logsumexp(0))
    assert filled.tolist() == [1] * 5 + [2] * 72 + [3] * 51


def test_histogram_and_gather(session):
    x = torch.randint(0, 16, (128,), dtype=torch.int32)
    bins, gathered = torch.empty(16, dtype=torch.int32), torch.empty_like(x)
    with session():
        counting[(1,)](x, bins, gathered, B=128)
    assert torch.equal(bins, torch.bincount(x[:100], minlength=16).int())
    assert torch.equal(gathered, x.flip(0))


def test_atomics(session):
    x = torch.randint(-50, 100, (1000,)).float()
    o, h = torch.zeros(3), torch.zeros(11, dtype=torch.int32)
    with session() as found:
        atomics[(8,)](x, o, h, 1000, B=128)
    assert o.tolist() == [x.sum(), x.max(), min(x.min().item(), 0.0)]
    assert h[:8].tolist() == torch.bincount(x.int() & 7, minlength=8).tolist()
    assert h[8:].tolist() == [5, 255, 7]
    assert found.violations == []


def test_random_numbers_are_uniform_normal_and_repeatable(session):
    first, second = torch.empty(2, 4096), torch.empty(2, 4096)
    with session():
        random_numbers[(1,)](first, 42, B=4096)
        random_numbers[(1,)](second, 42, B=4096)
    assert torch.equal(first, second)
    assert 0.0 <= first[0].min() < first[0].max() < 1.0
    assert abs(first[0].mean() - 0.5) < 0.02
    assert abs(first[1].std() - 1.0) < 0.05


@pytest.mark.parametrize("kernel", [block_pointers, descriptors])
def test_blocks_stay_inside_of_their_tensor(session, kernel):
    x, o = torch.randn(50, 72), torch.zeros(50, 72)
    with session() as found:
        kernel[(4,)](x, o, 50, 72, R=16, C=32 if kernel is block_pointers else 128)
    assert torch.equal(o, x * 2 if kernel is block_pointers else x + 1)
    assert found.violations == []


def test_every_program_of_a_grid_runs_once(session):
    o = torch.full((4, 6), -1, dtype=torch.int32)
    with session() as found:
        swizzled[(4, 6)](o, ROWS=4, COLUMNS=6)
    assert sorted(o.reshape(-1).tolist()) == list(range(24))
    assert found.violations == []


def test_a_dtype_can_be_a_constant(session):
    x, o = torch.randn(64), torch.empty(64)
    with session():
        types_by_argument[(1,)](x, o, B=64, DTYPE=tl.bfloat16)
    assert torch.equal(o, x.bfloat16().float())


def test_a_kernel_inside_of_a_function_sees_its_closure(session):
    width = tl.constexpr(64)

    @triton.jit
    def local_kernel(x, o):
        i = tl.arange(0, width)
        tl.store(o + i, tl.load(x + i) * 2)

    x, o = torch.randn(64), torch.empty(64)
    with session() as found:
        local_kernel[(1,)](x, o)
    assert torch.equal(o, x * 2)
    assert found.launches[0].name == "local_kernel"
