"""Equivalent spellings of functions: what can stand where a name does not exist."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_memory.distill.snippets import LIBDEVICE, pointwise
from adaexplore_memory.domain import Snippet


@dataclass(frozen=True)
class Spelling:
    """One way to compute a function.

    Attributes:
        expression: In terms of `x`, `y`, `z`.
        library: True if it needs libdevice.

    """

    expression: str
    library: bool = False

    @property
    def imports(self) -> tuple[str, ...]:
        """Import lines beside the usual two."""
        return (LIBDEVICE,) if self.library else ()

    @property
    def advice(self) -> str:
        """The spelling as one would tell it."""
        return f"`{self.expression}`" + (f" after `{LIBDEVICE}`" if self.library else "")


@dataclass(frozen=True)
class Function:
    """A function of blocks.

    Attributes:
        arity: Blocks it takes.
        spellings: Ways to compute it, the likeliest to compile first.
        called: False for a constant, a type or a change of shape, which a test should name and not call.

    """

    arity: int
    spellings: tuple[Spelling, ...]
    called: bool = True

    def snippet(self, spelling: Spelling) -> Snippet:
        """Return the kernel that computes the function in one way."""
        return pointwise(spelling.expression, imports=spelling.imports, arity=self.arity)


_ARGUMENTS = {1: "x", 2: "x, y", 3: "x, y, z"}
_SOFTPLUS = "tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))"
_TANH = "2.0 * tl.sigmoid(2.0 * x) - 1.0"
_GELU = "0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))"
_GELU_TANH = "x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))"
# Functions that libdevice has, with formulas for where it is missing.
_LIBRARY: dict[str, tuple[int, tuple[str, ...]]] = {
    "tanh": (1, (_TANH, "1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)")),
    "tan": (1, ("tl.sin(x) / tl.cos(x)",)),
    "sinh": (1, ("0.5 * (tl.exp(x) - tl.exp(-x))",)),
    "cosh": (1, ("0.5 * (tl.exp(x) + tl.exp(-x))",)),
    "asin": (1, ()),
    "acos": (1, ()),
    "atan": (1, ()),
    "asinh": (1, ("tl.log(x + tl.sqrt(x * x + 1.0))",)),
    "acosh": (1, ("tl.log(x + tl.sqrt(x * x - 1.0))",)),
    "atanh": (1, ("0.5 * tl.log((1.0 + x) / (1.0 - x))",)),
    "log10": (1, ("tl.log(x) * 0.4342944819032518",)),
    "log1p": (1, ("tl.log(1.0 + x)",)),
    "expm1": (1, ("tl.exp(x) - 1.0",)),
    "exp10": (1, ("tl.exp(x * 2.302585092994046)",)),
    "cbrt": (1, ()),
    "erfc": (1, ("1.0 - tl.erf(x)",)),
    "erfinv": (1, ()),
    "round": (1, ("tl.where(x < 0, -tl.floor(0.5 - x), tl.floor(x + 0.5))",)),
    "rint": (1, ()),
    "nearbyint": (1, ()),
    "trunc": (1, ("tl.where(x < 0, tl.ceil(x), tl.floor(x))",)),
    "isnan": (1, ("x != x",)),
    "isinf": (1, ('tl.abs(x) == float("inf")',)),
    "lgamma": (1, ()),
    "tgamma": (1, ()),
    "signbit": (1, ("x < 0",)),
    "pow": (2, ("tl.exp(y * tl.log(x))", "tl.exp2(y * tl.log2(x))")),
    "fmod": (2, ("x % y",)),
    "remainder": (2, ("x - y * tl.floor(x / y)",)),
    "atan2": (2, ()),
    "hypot": (2, ("tl.sqrt(x * x + y * y)",)),
    "copysign": (2, ("tl.where(y < 0, -tl.abs(x), tl.abs(x))",)),
    "fdim": (2, ("tl.maximum(x - y, 0.0)",)),
    "nextafter": (2, ()),
}
# Functions that triton.language has.
_LANGUAGE: dict[str, tuple[int, tuple[str, ...]]] = {
    "exp": (1, ("tl.exp2(x * 1.4426950408889634)",)),
    "exp2": (1, ("tl.exp(x * 0.6931471805599453)",)),
    "log": (1, ("tl.log2(x) * 0.6931471805599453",)),
    "log2": (1, ("tl.log(x) * 1.4426950408889634",)),
    "sqrt": (1, ("x * tl.rsqrt(x)",)),
    "rsqrt": (1, ("1.0 / tl.sqrt(x)",)),
    "sin": (1, ()),
    "cos": (1, ()),
    "erf": (1, ()),
    "abs": (1, ("tl.where(x < 0, -x, x)", "tl.maximum(x, -x)")),
    "floor": (1, ()),
    "ceil": (1, ()),
    "sigmoid": (1, ("1.0 / (1.0 + tl.exp(-x))",)),
    "softmax": (1, ("tl.exp(x - tl.max(x, axis=0)) / tl.sum(tl.exp(x - tl.max(x, axis=0)), axis=0)",)),
    "maximum": (2, ("tl.where(x > y, x, y)",)),
    "minimum": (2, ("tl.where(x < y, x, y)",)),
    "fma": (3, ("x * y + z",)),
    "clamp": (3, ("tl.minimum(tl.maximum(x, y), z)",)),
    "where": (3, ()),
}
# Functions that neither has: formulas alone.
_FORMULAS: dict[str, tuple[int, tuple[str, ...]]] = {
    "gelu": (1, (_GELU, _GELU_TANH)),
    "silu": (1, ("x * tl.sigmoid(x)", "x / (1.0 + tl.exp(-x))")),
    "relu": (1, ("tl.maximum(x, 0.0)", "tl.where(x > 0, x, 0.0)")),
    "relu6": (1, ("tl.minimum(tl.maximum(x, 0.0), 6.0)",)),
    "leaky_relu": (1, ("tl.where(x > 0, x, 0.01 * x)",)),
    "elu": (1, ("tl.where(x > 0, x, tl.exp(x) - 1.0)",)),
    "softplus": (1, (_SOFTPLUS,)),
    "softsign": (1, ("x / (1.0 + tl.abs(x))",)),
    "logsigmoid": (1, ("tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))",)),
    "mish": (1, (f"x * (2.0 * tl.sigmoid(2.0 * ({_SOFTPLUS})) - 1.0)",)),
    "hardsigmoid": (1, ("tl.minimum(tl.maximum(x / 6.0 + 0.5, 0.0), 1.0)",)),
    "hardswish": (1, ("x * tl.minimum(tl.maximum(x / 6.0 + 0.5, 0.0), 1.0)",)),
    "square": (1, ("x * x",)),
    "reciprocal": (1, ("1.0 / x",)),
    "neg": (1, ("-x",)),
    "sign": (1, ("tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))",)),
    "mean": (1, ("tl.sum(x, axis=0) / BLOCK",)),
    "var": (1, ("tl.sum(x * x, axis=0) / BLOCK - (tl.sum(x, axis=0) / BLOCK) * (tl.sum(x, axis=0) / BLOCK)",)),
    "amax": (1, ("tl.max(x, axis=0)",)),
    "amin": (1, ("tl.min(x, axis=0)",)),
    "logsumexp": (1, ("tl.log(tl.sum(tl.exp(x - tl.max(x, axis=0)), axis=0)) + tl.max(x, axis=0)",)),
    "ones_like": (1, ("tl.full(x.shape, 1.0, x.dtype)",)),
    "logical_and": (2, ("(x != 0) & (y != 0)",)),
    "logical_or": (2, ("(x != 0) | (y != 0)",)),
    "div": (2, ("x / y",)),
    "add": (2, ("x + y",)),
    "sub": (2, ("x - y",)),
    "mul": (2, ("x * y",)),
}
# What is no function of blocks: shapes, constants and types. It is named in a reproducer, never called.
_VALUES: dict[str, tuple[str, ...]] = {
    "matmul": ("tl.reshape(tl.dot(tl.reshape(x, (32, 32)), tl.reshape(x, (32, 32))), (BLOCK,))",),
    "transpose": ("tl.reshape(tl.trans(tl.reshape(x, (32, 32))), (BLOCK,))",),
    "ones": ("tl.full((BLOCK,), 1.0, tl.float32)",),
    "empty": ("tl.zeros((BLOCK,), tl.float32)",),
    "inf": ('tl.full((BLOCK,), float("inf"), tl.float32)',),
    "nan": ('tl.full((BLOCK,), float("nan"), tl.float32)',),
    "pi": ("x * 3.141592653589793",),
    "any": ("tl.max((x != 0).to(tl.int32), axis=0)",),
    "all": ("tl.min((x != 0).to(tl.int32), axis=0)",),
    "float": ("x.to(tl.float32)",),
    "half": ("x.to(tl.float16)",),
    "double": ("x.to(tl.float64)",),
    "int": ("x.to(tl.int32)",),
    "long": ("x.to(tl.int64)",),
    "bool": ("x.to(tl.int1)",),
    "block_id": ("tl.program_id(0)",),
}
_SAME = {
    "fabs": "abs",
    "absolute": "abs",
    "swish": "silu",
    "power": "pow",
    "powf": "pow",
    "tanhf": "tanh",
    "expf": "exp",
    "logf": "log",
    "sqrtf": "sqrt",
    "rsqrtf": "rsqrt",
    "fmax": "maximum",
    "fmin": "minimum",
    "clip": "clamp",
    "arctan": "atan",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "negative": "neg",
    "log_sigmoid": "logsigmoid",
    "hard_sigmoid": "hardsigmoid",
    "hard_swish": "hardswish",
    "fast_tanh": "tanh",
    "tanh_approx": "tanh",
    "gelu_tanh": "gelu",
    "mod": "fmod",
    "multiply": "mul",
    "divide": "div",
    "subtract": "sub",
}


def _library(called: str) -> tuple[Spelling, ...]:
    return Spelling(f"libdevice.{called}", library=True), Spelling(f"tl.math.{called}"), Spelling(f"tl.{called}")


def concept(identifier: str) -> str:
    """Return the function that an identifier means, `abs` for `fabs`; the identifier itself if it has no other."""
    return _SAME.get(identifier, identifier)


def function(identifier: str) -> Function | None:
    """Return the function that an identifier means, or None if the catalogue does not know it."""
    name = concept(identifier)
    if name in _LIBRARY:
        arity, formulas = _LIBRARY[name]
        called = f"{name}({_ARGUMENTS[arity]})"
        return Function(arity, (*_library(called), *map(Spelling, formulas)))
    if name in _LANGUAGE:
        arity, formulas = _LANGUAGE[name]
        called = f"{name}({_ARGUMENTS[arity]})"
        spelled = (
            Spelling(f"tl.{called}"),
            *map(Spelling, formulas),
            Spelling(f"tl.math.{called}"),
            Spelling(f"libdevice.{called}", library=True),
        )
        return Function(arity, spelled)
    if name in _FORMULAS:
        arity, formulas = _FORMULAS[name]
        return Function(arity, tuple(map(Spelling, formulas)))
    return Function(1, tuple(map(Spelling, _VALUES[name])), called=False) if name in _VALUES else None
