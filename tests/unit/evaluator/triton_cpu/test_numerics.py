"""Every operation agrees with PyTorch for every dtype it takes, roundings included."""

import math

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

N = 1024
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@triton.jit
def float_binary(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(o + i, a + b)
    tl.store(o + B + i, a - b)
    tl.store(o + 2 * B + i, a * b)
    tl.store(o + 3 * B + i, a / b)
    tl.store(o + 4 * B + i, tl.maximum(a, b))
    tl.store(o + 5 * B + i, tl.minimum(a, b))
    tl.store(o + 6 * B + i, tl.where(a < b, a, b))
    tl.store(o + 7 * B + i, -a)
    tl.store(o + 8 * B + i, tl.abs(a))
    tl.store(o + 9 * B + i, a * b + a)
    tl.store(o + 10 * B + i, tl.clamp(a, -0.5, 0.5))


@triton.jit
def float_unary(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    p = tl.abs(a) + 0.01
    tl.store(o + i, tl.exp(a))
    tl.store(o + B + i, tl.exp2(a))
    tl.store(o + 2 * B + i, tl.log(p))
    tl.store(o + 3 * B + i, tl.log2(p))
    tl.store(o + 4 * B + i, tl.sqrt(p))
    tl.store(o + 5 * B + i, tl.rsqrt(p))
    tl.store(o + 6 * B + i, tl.sin(a))
    tl.store(o + 7 * B + i, tl.cos(a))
    tl.store(o + 8 * B + i, tl.erf(a))
    tl.store(o + 9 * B + i, tl.floor(a))
    tl.store(o + 10 * B + i, tl.ceil(a))
    tl.store(o + 11 * B + i, tl.sigmoid(a))
    tl.store(o + 12 * B + i, tl.sqrt_rn(p))
    tl.store(o + 13 * B + i, tl.div_rn(a, p))
    tl.store(o + 14 * B + i, tl.fma(a, a, p))


@triton.jit
def int_binary(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(o + i, a + b)
    tl.store(o + B + i, a - b)
    tl.store(o + 2 * B + i, a * b)
    tl.store(o + 3 * B + i, a // b)
    tl.store(o + 4 * B + i, a % b)
    tl.store(o + 5 * B + i, a & b)
    tl.store(o + 6 * B + i, a | b)
    tl.store(o + 7 * B + i, a ^ b)
    tl.store(o + 8 * B + i, tl.maximum(a, b))
    tl.store(o + 9 * B + i, tl.minimum(a, b))
    tl.store(o + 10 * B + i, a << 2)
    tl.store(o + 11 * B + i, a >> 2)
    tl.store(o + 12 * B + i, ~a)


@triton.jit
def comparisons(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(o + i, a < b)
    tl.store(o + B + i, a <= b)
    tl.store(o + 2 * B + i, a > b)
    tl.store(o + 3 * B + i, a >= b)
    tl.store(o + 4 * B + i, a == b)
    tl.store(o + 5 * B + i, a != b)
    tl.store(o + 6 * B + i, (a < b) & (a != b))
    tl.store(o + 7 * B + i, (a < b) | (a == b))
    tl.store(o + 8 * B + i, not (a < b))


@triton.jit
def casts(x, f32, f16, bf16, i8, u8, i16, i32, i64, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(f32 + i, a.to(tl.float32))
    tl.store(f16 + i, a.to(tl.float16))
    tl.store(bf16 + i, a.to(tl.bfloat16))
    tl.store(i8 + i, a.to(tl.int8))
    tl.store(u8 + i, a.to(tl.uint8))
    tl.store(i16 + i, a.to(tl.int16))
    tl.store(i32 + i, a.to(tl.int32))
    tl.store(i64 + i, a.to(tl.int64))


@triton.jit
def store_as(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty))


@triton.jit
def round_trip_float8(x, e5, e4, o5, o4, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(e5 + i, a.to(tl.float8e5))
    tl.store(e4 + i, a.to(tl.float8e4nv))
    tl.store(o5 + i, a.to(tl.float8e5).to(tl.float32))
    tl.store(o4 + i, a.to(tl.float8e4nv).to(tl.float32))


@triton.jit
def reductions(x, o, B: tl.constexpr, R: tl.constexpr):
    i = tl.arange(0, R)
    j = tl.arange(0, B)
    a = tl.load(x + i[:, None] * B + j[None, :])
    tl.store(o + i, tl.sum(a, axis=1))
    tl.store(o + R + i, tl.max(a, axis=1))
    tl.store(o + 2 * R + i, tl.min(a, axis=1))
    tl.store(o + 3 * R + i, tl.argmax(a, axis=1))
    tl.store(o + 4 * R + i, tl.argmin(a, axis=1))
    tl.store(o + 5 * R + i, tl.sum(tl.sum(a, axis=1, keep_dims=True), axis=1))


@triton.jit
def scans(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(o + i, tl.cumsum(a, axis=0))
    tl.store(o + B + i, tl.cumsum(a, axis=0, reverse=True))


@triton.jit
def matrix_product(a, b, o, PRECISION: tl.constexpr, M: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    row = tl.arange(0, M)
    inner = tl.arange(0, BK)
    total = tl.zeros((M, M), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + row[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * M + row[None, :])
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(o + row[:, None] * M + row[None, :], total)


@triton.jit
def int_product(a, b, o, M: tl.constexpr, K: tl.constexpr):
    row = tl.arange(0, M)
    inner = tl.arange(0, K)
    left = tl.load(a + row[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * M + row[None, :])
    tl.store(o + row[:, None] * M + row[None, :], tl.dot(left, right, out_dtype=tl.int32))


@triton.jit
def default_product(a, b, o, M: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    row = tl.arange(0, M)
    inner = tl.arange(0, BK)
    total = tl.zeros((M, M), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + row[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * M + row[None, :])
        total += tl.dot(left, right)
    tl.store(o + row[:, None] * M + row[None, :], total)


@triton.jit
def scalar_arguments(x, o, scale, shift, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) * scale + shift)


@triton.jit
def nan_rules(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(o + i, tl.maximum(a, 0.0))
    tl.store(o + B + i, tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(o + 2 * B + i, tl.minimum(a, 0.0))
    tl.store(o + 3 * B + i, tl.clamp(a, -1.0, 1.0))
    tl.store(o + 4 * B + i, (a != a).to(tl.float32))  # noqa: PLR0124 - how NaN is asked for
    tl.store(o + 5 * B, tl.max(a, axis=0))


def _floats(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(N, generator=generator) * 2).to(dtype)


def _integers(dtype: torch.dtype, seed: int, *, zero: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    info = torch.iinfo(dtype)
    values = torch.randint(max(info.min, -(2**62)), min(info.max, 2**62), (N,), generator=generator).to(dtype)
    return values if zero else torch.where(values == 0, 1, values)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic_rounds_to_its_own_dtype(session, dtype):
    x, y = _floats(dtype), _floats(dtype, 1)
    o = torch.empty(11, N, dtype=dtype)
    with session():
        float_binary[(1,)](x, y, o, B=N)
    product_plus = (x.double() * y.double() + x.double()).to(dtype) if dtype == torch.float64 else x * y + x
    expected = [x + y, x - y, x * y, x / y, torch.maximum(x, y), torch.minimum(x, y), torch.minimum(x, y), -x, x.abs(), product_plus]
    for found, wanted in zip(o, [*expected, x.clamp(-0.5, 0.5)], strict=True):
        assert torch.equal(found, wanted)


def test_functions_of_float32_agree_with_torch(session):
    x, o = _floats(torch.float32), torch.empty(15, N)
    with session():
        float_unary[(1,)](x, o, B=N)
    p = x.abs() + 0.01
    expected = [x.exp(), x.exp2(), p.log(), p.log2(), p.sqrt(), p.rsqrt(), x.sin(), x.cos(), x.erf(), x.floor(), x.ceil(), x.sigmoid()]
    expected += [p.sqrt(), x / p, torch.addcmul(p, x, x)]
    for found, wanted in zip(o, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic_wraps_and_divides_towards_zero(session, dtype):
    x, y = _integers(dtype, 0), _integers(dtype, 1, zero=False)
    o = torch.empty(13, N, dtype=dtype)
    with session():
        int_binary[(1,)](x, y, o, B=N)
    quotient = torch.div(x, y, rounding_mode="trunc")
    expected = [x + y, x - y, x * y, quotient, x - quotient * y, x & y, x | y, x ^ y, torch.maximum(x, y), torch.minimum(x, y)]
    for found, wanted in zip(o, [*expected, x << 2, x >> 2, ~x], strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_comparisons_and_logic_agree_with_torch(session, dtype):
    x = _floats(dtype) if dtype.is_floating_point else _integers(dtype, 0)
    y = x.roll(1)
    y[::3] = x[::3]
    o = torch.empty(9, N, dtype=torch.bool)
    with session():
        comparisons[(1,)](x, y, o, B=N)
    expected = [x < y, x <= y, x > y, x >= y, x == y, x != y, x < y, x <= y, ~(x < y)]
    for found, wanted in zip(o, expected, strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_casts_agree_with_torch(session, dtype):
    x = (_floats(torch.float32) * 20).abs().clamp(max=100).to(dtype) if dtype.is_floating_point else _integers(dtype, 3)
    targets = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
    outputs = [torch.empty(N, dtype=target) for target in targets]
    with session():
        casts[(1,)](x, *outputs, B=N)
    for target, found in zip(targets, outputs, strict=True):
        # Through int64 first: what PyTorch does from float16 to narrow integers is not defined.
        wanted = x.float().trunc().to(torch.int64).to(target) if dtype.is_floating_point and not target.is_floating_point else x.to(target)
        assert torch.equal(found, wanted), target


@pytest.mark.parametrize("target", [torch.int32, torch.uint8, torch.int64], ids=str)
def test_floats_outside_of_an_integers_range_saturate_and_nan_becomes_zero(session, target):
    low, high = torch.iinfo(target).min, torch.iinfo(target).max
    x = torch.tensor([1e30, -1e30, float("inf"), float("-inf"), float("nan"), 2.9, 1e2, 0.0])
    o = torch.empty(8, dtype=target)
    with session():
        store_as[(1,)](x, o, B=8)
    assert o.tolist() == [high, low, high, low, 0, 2, 100, 0]


def test_a_store_to_bfloat16_rounds_to_nearest_even(session):
    x = torch.tensor([1.00390625, 1.01171875, 1.0039063692092896, float("nan"), 3.4e38, -1.00390625, 1e-40, 0.0])
    o = torch.empty(8, dtype=torch.bfloat16)
    with session():
        store_as[(1,)](x, o, B=8)
    assert torch.equal(o.nan_to_num(nan=-7.0), x.to(torch.bfloat16).nan_to_num(nan=-7.0))


def test_8_bit_floats_round_to_nearest_even_and_saturate(session):
    x = torch.cat([_floats(torch.float32)[: N - 4], torch.tensor([1e6, -1e6, 448.0, 57344.0])])
    e5, e4 = torch.empty(N, dtype=torch.float8_e5m2), torch.empty(N, dtype=torch.float8_e4m3fn)
    o5, o4 = torch.empty(N), torch.empty(N)
    with session():
        round_trip_float8[(1,)](x, e5, e4, o5, o4, B=N)
    wanted5, wanted4 = x.clamp(-57344, 57344).to(torch.float8_e5m2), x.clamp(-448, 448).to(torch.float8_e4m3fn)
    assert torch.equal(e5.view(torch.uint8), wanted5.view(torch.uint8))
    assert torch.equal(e4.view(torch.uint8), wanted4.view(torch.uint8))
    assert torch.equal(o5, wanted5.float())
    assert torch.equal(o4, wanted4.float())


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8, torch.int32, torch.int64], ids=str)
def test_reductions_agree_with_torch(session, dtype):
    x = (_floats(dtype) if dtype.is_floating_point else _integers(torch.int8, 5).to(dtype)).reshape(8, 128)
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    o = torch.empty(6, 8, dtype=wide)
    with session():
        reductions[(1,)](x, o, B=128, R=8)
    tolerance = {torch.float32: 1e-5, torch.float16: 0.05, torch.bfloat16: 0.4}.get(dtype, 0.0)
    exact = x.to(wide)
    torch.testing.assert_close(o[0], exact.sum(1), rtol=0, atol=tolerance)
    torch.testing.assert_close(o[5], exact.sum(1), rtol=0, atol=tolerance)
    assert torch.equal(o[1], exact.max(1).values)
    assert torch.equal(o[2], exact.min(1).values)
    firsts = [[row.tolist().index(extreme) for row, extreme in zip(exact, o[which].tolist(), strict=True)] for which in (1, 2)]
    assert o[3:5].to(torch.int64).tolist() == firsts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64], ids=str)
def test_scans_agree_with_torch(session, dtype):
    x = (torch.arange(64) % 7 - 3).to(dtype)
    o = torch.empty(2, 64, dtype=dtype)
    with session():
        scans[(1,)](x, o, B=64)
    assert torch.equal(o[0], x.cumsum(0).to(dtype))
    assert torch.equal(o[1], x.flip(0).cumsum(0).flip(0).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_products_of_narrow_floats_accumulate_in_float32(session, dtype):
    a = torch.randn(16, 256, generator=torch.Generator().manual_seed(0)).to(dtype)
    b = torch.randn(256, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    o = torch.empty(16, 16)
    with session():
        matrix_product[(1,)](a, b, o, PRECISION=None, M=16, K=256, BK=32)
    torch.testing.assert_close(o.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-4)


def test_products_of_int8_accumulate_in_int32(session):
    a, b = _integers(torch.int8, 0)[:512].reshape(16, 32), _integers(torch.int8, 1)[:512].reshape(32, 16)
    o = torch.empty(16, 16, dtype=torch.int32)
    with session():
        int_product[(1,)](a, b, o, M=16, K=32)
    assert torch.equal(o, a.int() @ b.int())


@pytest.mark.parametrize(("precision", "smallest", "largest"), [("ieee", 0.0, 3e-7), ("tf32", 1e-5, 2e-3), ("tf32x3", 0.0, 1e-6)])
def test_products_of_float32_have_the_error_of_their_input_precision(session, precision, smallest, largest):
    a = torch.rand(16, 4096, generator=torch.Generator().manual_seed(0)) + 0.5
    b = torch.rand(4096, 16, generator=torch.Generator().manual_seed(1)) - 0.5
    o = torch.empty(16, 16)
    with session():
        matrix_product[(1,)](a, b, o, PRECISION=precision, M=16, K=4096, BK=64)
    error = ((o.double() - a.double() @ b.double()).abs() / (a.double().abs() @ b.double().abs())).max().item()
    assert smallest <= error <= largest


@pytest.mark.parametrize(("target", "rounds"), [("sm_90", True), ("gfx942", True), ("gfx90a", False)])
def test_the_default_precision_is_the_targets(session, target, rounds):
    a = torch.full((16, 32), 1.0 + 2.0**-12)
    o = torch.empty(16, 16)
    with session(target=target):
        default_product[(1,)](a, torch.eye(32, 16), o, M=16, K=32, BK=32)
    assert torch.all(o == (1.0 if rounds else 1.0 + 2.0**-12))


def test_a_host_float_is_float32_in_the_kernel_and_lifts_half_precision(session):
    x, o = _floats(torch.float16), torch.empty(N)
    with session():
        scalar_arguments[(1,)](x, o, 1.0000001, 3, B=N)
    assert torch.equal(o, x.float() * torch.tensor(1.0000001, dtype=torch.float32) + 3)


def test_minimum_and_maximum_drop_nan_unless_asked(session):
    nan = float("nan")
    x, o = torch.tensor([nan, 1.0, -1.0, 2.0]), torch.empty(6, 4)
    with session():
        nan_rules[(1,)](x, o, B=4)
    rows = [["nan" if math.isnan(value) else value for value in row] for row in o.tolist()]
    assert rows[0] == [0.0, 1.0, 0.0, 2.0]
    assert rows[1] == ["nan", 1.0, 0.0, 2.0]
    assert rows[2] == [0.0, 0.0, -1.0, 0.0]
    assert rows[3] == [-1.0, 1.0, -1.0, 1.0]
    assert rows[4] == [1.0, 0.0, 0.0, 0.0]
    assert rows[5][0] == 2.0


def test_kernels_of_this_file_are_ordinary_triton_functions():
    assert isinstance(float_binary, JITFunction)
