"""libdevice functions have their values, in kernels and by symbol."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from adaexplore_evaluator.runner.triton_cpu.libdevice import call
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.cuda.libdevice import rsqrt as imported_rsqrt


@triton.jit
def uses_libdevice(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(o + i, libdevice.tanh(a))
    tl.store(o + B + i, libdevice.pow(tl.abs(a), 1.5))
    tl.store(o + 2 * B + i, imported_rsqrt(tl.abs(a) + 1.0))
    tl.store(o + 3 * B + i, libdevice.isnan(a).to(tl.float32))
    tl.store(o + 4 * B + i, cuda_libdevice.round(a))
    tl.store(o + 5 * B + i, libdevice.log1p(tl.abs(a)))
    tl.store(o + 6 * B + i, libdevice.fast_expf(a))
    tl.store(o + 7 * B + i, libdevice.fma(a, a, a))


UNARY = {
    "tanh": torch.tanh,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tan": torch.tan,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "lgamma": torch.lgamma,
    "normcdf": torch.special.ndtr,
    "rint": torch.round,
    "trunc": torch.trunc,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "j0": torch.special.bessel_j0,
    "cyl_bessel_i0": torch.special.i0,
    "sin": torch.sin,
    "cos": torch.cos,
}
POSITIVE = {
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "cbrt": lambda x: x ** (1 / 3),
    "acosh": torch.acosh,
    "tgamma": lambda x: torch.lgamma(x).exp(),
    "y0": torch.special.bessel_y0,
}


def _sample(seed: int = 0) -> torch.Tensor:
    return torch.randn(512, generator=torch.Generator().manual_seed(seed)) * 2


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_float32_agrees_with_torch(name):
    x = _sample()
    for symbol, dtype, tolerance in ((f"__nv_{name}f", torch.float32, 3e-6), (f"__nv_{name}", torch.float64, 1e-12)):
        found = torch.from_numpy(call(symbol, [x.to(dtype).numpy()]))
        torch.testing.assert_close(found, UNARY[name](x.double()).to(dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", POSITIVE)
def test_a_function_of_positive_float32_agrees_with_torch(name):
    x = _sample().abs() + 1.001
    found = torch.from_numpy(call(f"__nv_{name}f", [x.numpy()]))
    torch.testing.assert_close(found, POSITIVE[name](x.double()).float(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("symbol", "reference"),
    [
        ("__nv_powf", lambda x, y: torch.pow(x.abs(), y)),
        ("__nv_atan2f", torch.atan2),
        ("__nv_hypotf", torch.hypot),
        ("__nv_fmodf", torch.fmod),
        ("__nv_copysignf", torch.copysign),
        ("__nv_fdimf", lambda x, y: (x - y).clamp(min=0)),
        ("__nv_fdiv_rn", torch.div),
        ("__nv_fast_fdividef", torch.div),
        ("__nv_fadd_rn", torch.add),
        ("__nv_nextafterf", torch.nextafter),
        ("__ocml_pow_f32", lambda x, y: torch.pow(x.abs(), y)),
    ],
)
def test_a_function_of_two_arguments_agrees_with_torch(symbol, reference):
    x, y = _sample(), _sample(1)
    x = x.abs() if "pow" in symbol else x
    torch.testing.assert_close(torch.from_numpy(call(symbol, [x.numpy(), y.numpy()])), reference(x, y), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("symbol", "value", "expected"),
    [
        ("__nv_popc", 0b1011, 3),
        ("__nv_clz", 1, 31),
        ("__nv_clz", 0, 32),
        ("__nv_ffs", 8, 4),
        ("__nv_ffs", 0, 0),
        ("__nv_brev", 1, -(2**31)),
        ("__nv_abs", -5, 5),
    ],
)
def test_bit_functions_are_exact(symbol, value, expected):
    assert call(symbol, [np.array([value], dtype=np.int32)]).tolist() == [expected]


@pytest.mark.parametrize(("mode", "expected"), [("rn", [2, -2]), ("rz", [2, -2]), ("rd", [2, -3]), ("ru", [3, -2])])
def test_conversions_to_integers_round_as_they_say(mode, expected):
    assert call(f"__nv_float2int_{mode}", [np.array([2.5, -2.5], dtype=np.float32)]).tolist() == expected


def test_predicates_answer_int32():
    found = call("__nv_isinff", [np.array([1.0, np.inf], dtype=np.float32)])
    assert found.dtype == np.int32
    assert found.tolist() == [0, 1]


def test_what_is_not_modelled_says_so():
    with pytest.raises(NotImplementedError, match="__nv_fadd_ru"):
        call("__nv_fadd_ru", [np.ones(1, dtype=np.float32)] * 2)


def test_all_of_libdevice_is_known_but_for_directed_rounding_and_a_few_rarities():
    source = Path(cuda_libdevice.__file__).read_text()
    unknown = []
    for symbol in sorted(set(re.findall(r'"(__nv_\w+)"', source))):
        kinds = re.search(rf'\(([^()]*(?:\([^()]*\)[^()]*)*)\):\s*\("{symbol}"', source)
        types = re.findall(r'dtype\("(\w+)"\)', kinds.group(1)) if kinds else []
        dtypes = {"fp32": np.float32, "fp64": np.float64}
        try:
            with np.errstate(all="ignore"):
                call(symbol, [np.ones(2, dtype=dtypes.get(kind, kind)) for kind in types])
        except NotImplementedError:
            unknown.append(symbol)
    rare = {"byte_perm", "mul24", "umul24", "rcp64h", "hiloint2double", "double2loint", "double2hiint", "jn", "jnf", "yn", "ynf"}
    assert {name for symbol in unknown if not re.search(r"_r[zdu]$", name := symbol.removeprefix("__nv_"))} <= rare


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_libdevice_resolves_inside_of_a_kernel_however_it_was_imported(session, target):
    x, o = _sample(), torch.empty(8, 512)
    kernel = uses_libdevice
    if target == "gfx942":
        kernel = uses_libdevice_on_amd
    with session(target=target):
        kernel[(1,)](x, o, B=512)
    a = x.double()
    half_away = torch.copysign((a.abs() + 0.5).floor(), a)
    expected = [a.tanh(), a.abs() ** 1.5, (a.abs() + 1).rsqrt(), a.isnan().double(), half_away, a.abs().log1p(), a.exp(), a * a + a]
    rows = range(8) if target == "sm_90" else (0, 1)
    for row in rows:
        torch.testing.assert_close(o[row], expected[row].float(), rtol=3e-6, atol=3e-6)


@triton.jit
def uses_libdevice_on_amd(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(o + i, libdevice.tanh(a))
    tl.store(o + B + i, libdevice.pow(tl.abs(a), 1.5))
