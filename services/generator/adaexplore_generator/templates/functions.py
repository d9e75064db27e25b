"""Element-wise functions as Triton text, and the several spellings that Triton may or may not know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LIBDEVICE = "triton.language.extra.libdevice"


@dataclass(frozen=True)
class Spelling:
    """One way to write a function: `template` holds `{}` for the argument, `names` the dotted names it uses."""

    ident: str
    template: str
    names: tuple[str, ...]


def _tl(name: str) -> Spelling:
    return Spelling(f"tl.{name}", f"tl.{name}({{}})", (f"triton.language.{name}",))


def _math(name: str) -> Spelling:
    return Spelling(f"tl.math.{name}", f"tl.math.{name}({{}})", (f"triton.language.math.{name}",))


def _lib(name: str) -> Spelling:
    return Spelling(f"libdevice.{name}", f"libdevice.{name}({{}})", (f"{LIBDEVICE}.{name}",))


def _formula(template: str, *names: str) -> Spelling:
    return Spelling("formula", template, tuple(f"triton.language.{name}" for name in names))


# Which of these the installed Triton accepts is not known here; rules of the memory teach it.
SPELLINGS: Mapping[str, tuple[Spelling, ...]] = {
    "tanh": (_math("tanh"), _tl("tanh"), _lib("tanh"), _formula("(2.0 / (1.0 + tl.exp(-2.0 * ({}))) - 1.0)", "exp")),
    "erf": (_tl("erf"), _math("erf"), _lib("erf")),
    "exp": (_tl("exp"), _math("exp"), _lib("exp"), _formula("tl.exp2(({}) * 1.4426950408889634)", "exp2")),
    "log": (_tl("log"), _math("log"), _lib("log")),
    "sqrt": (_tl("sqrt"), _math("sqrt"), _tl("sqrt_rn"), _lib("sqrt")),
    "rsqrt": (_tl("rsqrt"), _math("rsqrt"), _lib("rsqrt"), _formula("(1.0 / tl.sqrt({}))", "sqrt")),
    "sigmoid": (_tl("sigmoid"), _math("sigmoid"), _formula("(1.0 / (1.0 + tl.exp(-({}))))", "exp")),
    "log1p": (_lib("log1p"), _math("log1p"), _tl("log1p"), _formula("tl.log(1.0 + ({}))", "log")),
    "expm1": (_lib("expm1"), _math("expm1"), _tl("expm1"), _formula("(tl.exp({}) - 1.0)", "exp")),
    "sin": (_tl("sin"), _math("sin"), _lib("sin")),
    "cos": (_tl("cos"), _math("cos"), _lib("cos")),
    "floor": (_tl("floor"), _math("floor"), _lib("floor")),
    "ceil": (_tl("ceil"), _math("ceil"), _lib("ceil")),
    "round": (_lib("nearbyint"), _math("round"), _lib("rint")),
    "exp2": (_tl("exp2"), _math("exp2"), _lib("exp2")),
    "log2": (_tl("log2"), _math("log2"), _lib("log2")),
    "pow": (_lib("pow"), _math("pow"), _tl("pow")),
    "atan": (_lib("atan"), _math("atan")),
}

# One expression each; `@name(...)` is a function with several spellings.
INLINE: Mapping[str, str] = {
    "identity": "{0}",
    "to_float": "({0}).to(tl.float32)",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "tl.abs({0})",
    "square": "{0} * {0}",
    "reciprocal": "1.0 / {0}",
    "exp": "@exp({0})",
    "exp2": "@exp2({0})",
    "log": "@log({0})",
    "log2": "@log2({0})",
    "log1p": "@log1p({0})",
    "expm1": "@expm1({0})",
    "sqrt": "@sqrt({0})",
    "rsqrt": "@rsqrt({0})",
    "sigmoid": "@sigmoid({0})",
    "tanh": "@tanh({0})",
    "erf": "@erf({0})",
    "sin": "@sin({0})",
    "cos": "@cos({0})",
    "atan": "@atan({0})",
    "floor": "@floor({0})",
    "ceil": "@ceil({0})",
    "round": "@round({0})",
    "pow": "@pow({0}, {1})",
    "where": "tl.where({0}, {1}, {2})",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "logical_and": "{0} & {1}",
    "logical_or": "{0} | {1}",
    "logical_not": "{0} == 0",
    "isnan": "{0} != {0}",
    "finite_or_zero": 'tl.where(tl.abs({0}) == float("inf"), 0.0, {0})',
    "above_minus_infinity": 'tl.where({0} == float("-inf"), 0.0, {0})',
}


@dataclass(frozen=True)
class Helper:
    """A device function that the file defines once: its parameters, what it does, and its lines."""

    parameters: str
    summary: str
    lines: tuple[str, ...]


def _helper(parameters: str, summary: str, *lines: str) -> Helper:
    return Helper(parameters, summary, lines)


HELPERS: Mapping[str, Helper] = {
    # `tl.maximum` drops NaN where torch keeps it, so comparisons are written such that NaN survives.
    "relu": _helper("x", "max(x, 0), NaN kept.", "return tl.where(x < 0.0, 0.0, x)"),
    "maximum": _helper("x, y", "The larger of both, NaN if either is.", "return tl.where((x > y) | (x != x), x, y)"),
    "minimum": _helper("x, y", "The smaller of both, NaN if either is.", "return tl.where((x < y) | (x != x), x, y)"),
    "clamp_min": _helper("x, low", "x raised to at least `low`, NaN kept.", "return tl.where(x < low, low, x)"),
    "clamp_max": _helper("x, high", "x cut to at most `high`, NaN kept.", "return tl.where(x > high, high, x)"),
    "silu": _helper("x", "x times its sigmoid.", "return x * @sigmoid(x)"),
    "gelu": _helper("x", "GELU by the error function.", "return 0.5 * x * (1.0 + @erf(x * 0.7071067811865476))"),
    "gelu_tanh": _helper(
        "x",
        "GELU by its tanh approximation.",
        "inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)",
        "return 0.5 * x * (1.0 + @tanh(inner))",
    ),
    "softplus": _helper(
        "x, beta, threshold",
        "log(1 + exp(beta x)) / beta, and x itself above the threshold.",
        "scaled = x * beta",
        "# The larger of 0 and x is taken out, so that the exponential cannot overflow.",
        "smooth = tl.where(scaled > 0.0, scaled, 0.0) + @log1p(tl.exp(-tl.abs(scaled)))",
        "return tl.where(scaled > threshold, x, smooth / beta)",
    ),
    "mish": _helper(
        "x",
        "x tanh(softplus(x)).",
        "softplus = tl.where(x > 0.0, x, 0.0) + @log1p(tl.exp(-tl.abs(x)))",
        "return x * @tanh(softplus)",
    ),
    "log_sigmoid": _helper("x", "log of the sigmoid.", "return tl.where(x < 0.0, x, 0.0) - @log1p(tl.exp(-tl.abs(x)))"),
    "elu": _helper(
        "x, negative, positive, inner",
        "ELU and SELU: `positive` x above 0, `negative` (exp(`inner` x) - 1) below.",
        "# Above 0 the exponential is not used; 0 in its place keeps it from overflowing.",
        "below = tl.where(x > 0.0, 0.0, x)",
        "return tl.where(x > 0.0, positive * x, negative * @expm1(below * inner))",
    ),
    "leaky_relu": _helper("x, slope", "x, times `slope` below 0.", "return tl.where(x > 0.0, x, x * slope)"),
    "softsign": _helper("x", "x / (1 + |x|).", "return x / (1.0 + tl.abs(x))"),
    "hardsigmoid": _helper(
        "x",
        "x / 6 + 1 / 2 cut to 0 and 1, NaN kept.",
        "y = (x + 3.0) / 6.0",
        "y = tl.where(y < 0.0, 0.0, y)",
        "return tl.where(y > 1.0, 1.0, y)",
    ),
    "hardswish": _helper(
        "x",
        "x times its hard sigmoid.",
        "gate = x + 3.0",
        "gate = tl.where(gate < 0.0, 0.0, gate)",
        "return x * tl.where(gate > 6.0, 6.0, gate) / 6.0",
    ),
    "sign": _helper("x", "-1, 0 or 1, NaN as 0.", "return tl.where(x > 0.0, 1.0, 0.0) - tl.where(x < 0.0, 1.0, 0.0)"),
    "huber": _helper(
        "x, delta",
        "Half the square near 0, linear beyond `delta`.",
        "size = tl.abs(x)",
        "return tl.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))",
    ),
    "row_max": _helper(
        "x",
        "Maximum over axis 1, NaN if any element is, as torch has it.",
        "poisoned = tl.max((x != x).to(tl.int32), axis=1, keep_dims=True)",
        'return tl.where(poisoned > 0, float("nan"), tl.max(x, axis=1, keep_dims=True))',
    ),
    "row_min": _helper(
        "x",
        "Minimum over axis 1, NaN if any element is, as torch has it.",
        "poisoned = tl.max((x != x).to(tl.int32), axis=1, keep_dims=True)",
        'return tl.where(poisoned > 0, float("nan"), tl.min(x, axis=1, keep_dims=True))',
    ),
}

_MARK = re.compile(r"@(\w+)\(")


def spelled_functions(function: str) -> tuple[str, ...]:
    """Functions with several spellings that a map uses."""
    text = INLINE[function] if function in INLINE else "\n".join(HELPERS[function].lines)
    return tuple(_MARK.findall(text))


def spell(text: str, chosen: Mapping[str, Spelling]) -> str:
    """The text with each `@name(argument)` written as chosen."""
    while (mark := _MARK.search(text)) is not None:
        start, depth, end = mark.end(), 1, mark.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[: mark.start()] + chosen[mark[1]].template.format(text[start : end - 1]) + text[end:]
    return text


def write_helper(name: str, chosen: Mapping[str, Spelling]) -> str:
    """Source of a device function."""
    helper = HELPERS[name]
    lines = [f"    {spell(line, chosen)}" for line in helper.lines]
    return "\n".join(["@triton.jit", f"def _{name}({helper.parameters}):", f'    """{helper.summary}"""', *lines])


def write_map(function: str, args: list[str], chosen: Mapping[str, Spelling]) -> str:
    """Expression of a map of simple operands: an inline formula or the call of a helper."""
    if function in HELPERS:
        return f"_{function}({', '.join(args)})"
    return spell(INLINE[function].format(*args), chosen)
