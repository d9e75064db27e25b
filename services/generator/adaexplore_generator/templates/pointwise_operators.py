"""Element-wise ATen operators in the intermediate form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adaexplore_generator.graph import DTypeRef, ValueRef
from adaexplore_generator.templates.builder import CallReader
from adaexplore_generator.templates.ir import FLOATS, UnsupportedError

Lowering = Callable[[CallReader], tuple[str, ...]]


def _unary(function: str) -> Lowering:
    def lower(call: CallReader) -> tuple[str, ...]:
        return (call.builder.map(function, call.float_tensor(0, "self"), hint=call.result),)

    return lower


def _binary(function: str) -> Lowering:
    def lower(call: CallReader) -> tuple[str, ...]:
        return (call.builder.map(function, call.operand(0, "self"), call.operand(1, "other"), hint=call.result),)

    return lower


def _comparison(function: str) -> Lowering:
    def lower(call: CallReader) -> tuple[str, ...]:
        left = call.tensor(0, "self")
        other = call.raw(1, "other")
        right: str | float = call.tensor(1, "other") if isinstance(other, ValueRef) else call.number(1, "other")
        return (call.builder.map(function, left, right, hint=call.result),)

    return lower


def _scaled(function: str) -> Lowering:
    """`add` and `sub` with their factor `alpha`."""

    def lower(call: CallReader) -> tuple[str, ...]:
        left, right = call.operand(0, "self"), call.operand(1, "other")
        alpha = call.number(2, "alpha", 1)
        if alpha != 1.0:
            right = right * alpha if isinstance(right, float) else call.builder.map("mul", right, alpha)
        if function == "rsub":
            left, right = right, left
        return (call.builder.map("sub" if function == "rsub" else function, left, right, hint=call.result),)

    return lower


def _div(call: CallReader) -> tuple[str, ...]:
    mode = call.raw(2, "rounding_mode")
    divided = call.builder.map("div", call.operand(0, "self"), call.operand(1, "other"), hint=call.result)
    if mode is None:
        return (divided,)
    if mode == "floor":
        return (call.builder.map("floor", divided),)
    raise UnsupportedError(f"division that rounds by {mode}")


def _pow(call: CallReader) -> tuple[str, ...]:
    if not isinstance(call.raw(0, "self"), ValueRef):
        raise UnsupportedError("a number to the power of a tensor")
    base, exponent = call.float_tensor(0, "self"), call.operand(1, "exponent")
    builder = call.builder
    simple = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal", 2.0: "square", 1.0: "identity"}
    if isinstance(exponent, float) and exponent in simple:
        return (builder.map(simple[exponent], base, hint=call.result),)
    if exponent == 3.0:
        return (builder.map("mul", builder.map("square", base), base, hint=call.result),)
    return (builder.map("pow", base, exponent, hint=call.result),)


def _gelu(call: CallReader) -> tuple[str, ...]:
    function = "gelu_tanh" if call.raw(1, "approximate", "none") == "tanh" else "gelu"
    return (call.builder.map(function, call.float_tensor(0, "self"), hint=call.result),)


def _parameters(function: str, *defaults: tuple[str, float]) -> Lowering:
    """A function of one tensor and constants with defaults."""

    def lower(call: CallReader) -> tuple[str, ...]:
        constants = [call.number(position + 1, name, value) for position, (name, value) in enumerate(defaults)]
        return (call.builder.map(function, call.float_tensor(0, "self"), *constants, hint=call.result),)

    return lower


def _elu(call: CallReader) -> tuple[str, ...]:
    alpha, scale, inner = call.number(1, "alpha", 1), call.number(2, "scale", 1), call.number(3, "input_scale", 1)
    return (call.builder.map("elu", call.float_tensor(0, "self"), alpha * scale, scale, inner, hint=call.result),)


def _selu(call: CallReader) -> tuple[str, ...]:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return (call.builder.map("elu", call.float_tensor(0, "self"), alpha * scale, scale, 1.0, hint=call.result),)


def _clamp(low: tuple[int, str, float | None] | None, high: tuple[int, str, float | None] | None) -> Lowering:
    """Cuts to bounds that may be numbers, tensors or absent."""

    def lower(call: CallReader) -> tuple[str, ...]:
        value = call.float_tensor(0, "self")
        for bound, function in ((low, "clamp_min"), (high, "clamp_max")):
            if bound is not None and call.raw(*bound) is not None:
                value = call.builder.map(function, value, call.operand(*bound), hint=call.result)
        return (value,)

    return lower


def _where(call: CallReader) -> tuple[str, ...]:
    condition = call.tensor(0, "condition")
    return (call.builder.map("where", condition, call.operand(1, "self"), call.operand(2, "other"), hint=call.result),)


def _masked_fill(call: CallReader) -> tuple[str, ...]:
    value, mask = call.float_tensor(0, "self"), call.tensor(1, "mask")
    return (call.builder.map("where", mask, call.operand(2, "value"), value, hint=call.result),)


def _addc(function: str) -> Lowering:
    def lower(call: CallReader) -> tuple[str, ...]:
        builder = call.builder
        step = builder.map(function, call.float_tensor(1, "tensor1"), call.float_tensor(2, "tensor2"))
        scale = call.number(3, "value", 1)
        step = step if scale == 1.0 else builder.map("mul", step, scale)
        return (builder.map("add", call.float_tensor(0, "self"), step, hint=call.result),)

    return lower


def _lerp(call: CallReader) -> tuple[str, ...]:
    start, end, weight = call.float_tensor(0, "self"), call.float_tensor(1, "end"), call.operand(2, "weight")
    moved = call.builder.map("mul", call.builder.map("sub", end, start), weight)
    return (call.builder.map("add", start, moved, hint=call.result),)


def _dropout(call: CallReader) -> tuple[str, ...]:
    if call.flag(2, "train", True) and call.number(1, "p", 0.5) != 0.0:
        raise UnsupportedError("dropout that drops")
    return (call.tensor(0, "input"),)


def _same(call: CallReader) -> tuple[str, ...]:
    return (call.tensor(0, "self"),)


def _cast(call: CallReader) -> tuple[str, ...]:
    wanted = next((arg for arg in (*call.call.args[1:], *call.call.kwargs.values()) if isinstance(arg, DTypeRef)), None)
    source = call.tensor(0, "self")
    if wanted is None or (wanted.name == call.builder.values[source].dtype):
        return (source,)
    if wanted.name not in FLOATS:
        raise UnsupportedError(f"a cast to {wanted.name}")
    return (call.builder.map("identity", call.float_tensor(0, "self"), hint=call.result),)


def _prelu(call: CallReader) -> tuple[str, ...]:
    value, weight = call.float_tensor(0, "self"), call.float_tensor(1, "weight")
    rank = len(call.builder.shape(value))
    if rank > 1 and call.builder.shape(weight):
        weight = call.builder.align(weight, rank, 1)
    return (call.builder.map("leaky_relu", value, weight, hint=call.result),)


def _shrink(soft: bool) -> Lowering:
    def lower(call: CallReader) -> tuple[str, ...]:
        builder, value, limit = call.builder, call.float_tensor(0, "self"), call.number(1, "lambd", 0.5)
        inside = builder.map("le", builder.map("abs", value), limit)
        outside = builder.map("sub", value, builder.map("mul", builder.map("sign", value), limit)) if soft else value
        return (builder.map("where", inside, 0.0, outside, hint=call.result),)

    return lower


_UNARY = [
    "relu",
    "sigmoid",
    "tanh",
    "silu",
    "exp",
    "exp2",
    "log",
    "log2",
    "log1p",
    "expm1",
    "sqrt",
    "rsqrt",
    "neg",
    "abs",
    "reciprocal",
    "square",
    "sin",
    "cos",
    "atan",
    "erf",
    "floor",
    "ceil",
    "round",
    "mish",
    "hardsigmoid",
    "hardswish",
    "log_sigmoid",
    "isnan",
]

POINTWISE: Mapping[str, Lowering] = {
    **{name: _unary(name) for name in _UNARY},
    **{name: _binary(name) for name in ("mul", "maximum", "minimum")},
    **{name: _comparison(name) for name in ("gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or")},
    **{name: _scaled(name) for name in ("add", "sub", "rsub")},
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout"), _dropout),
    **dict.fromkeys(("contiguous", "clone", "detach", "alias", "lift_fresh_copy"), _same),
    **dict.fromkeys(("to", "_to_copy", "type_as"), _cast),
    "multiply": _binary("mul"),
    "div": _div,
    "divide": _div,
    "true_divide": _div,
    "pow": _pow,
    "gelu": _gelu,
    "elu": _elu,
    "celu": lambda call: (
        call.builder.map(
            "elu", call.float_tensor(0, "self"), call.number(1, "alpha", 1), 1.0, 1.0 / call.number(1, "alpha", 1), hint=call.result
        ),
    ),
    "selu": _selu,
    "leaky_relu": _parameters("leaky_relu", ("negative_slope", 0.01)),
    "softplus": _parameters("softplus", ("beta", 1.0), ("threshold", 20.0)),
    "relu6": lambda call: (call.builder.map("clamp_max", call.builder.map("relu", call.float_tensor(0, "self")), 6.0, hint=call.result),),
    "hardtanh": _clamp((1, "min_val", -1.0), (2, "max_val", 1.0)),
    "clamp": _clamp((1, "min", None), (2, "max", None)),
    "clip": _clamp((1, "min", None), (2, "max", None)),
    "clamp_min": _clamp((1, "min", None), None),
    "clamp_max": _clamp(None, (1, "max", None)),
    "where": _where,
    "masked_fill": _masked_fill,
    "addcmul": _addc("mul"),
    "addcdiv": _addc("div"),
    "lerp": _lerp,
    "prelu": _prelu,
    "softshrink": _shrink(soft=True),
    "hardshrink": _shrink(soft=False),
}
