"""Lessons about parts of Python that Triton does not compile."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from adaexplore_memory.distill.diagnosis import Diagnosis
from adaexplore_memory.distill.snippets import block_kernel
from adaexplore_memory.domain import Lesson, Pattern

_UNSUPPORTED = re.compile(r"unsupported AST node type: (\w+)")


@dataclass(frozen=True)
class Construct:
    """A part of Python that Triton refuses.

    Attributes:
        phrase: Follows "You cannot use".
        instead: What to do instead.
        bad: Lines that use it.
        good: Lines that do without it.

    """

    phrase: str
    instead: str
    bad: tuple[str, ...]
    good: tuple[str, ...]


_LOOP = ("result = x", "for step in range(n):")
_MASKED = (*_LOOP, "    result = tl.where(step < 3, result + 1.0, result)")
_SUM = ("result = x",)
_CONSTRUCTS: dict[str, Construct] = {
    "Break": Construct(
        "`break` in a loop",
        "Bound the loop, or keep a flag and mask the update with `tl.where`; a `while` condition can end it too.",
        (*_LOOP, "    if step > 3:", "        break", "    result += 1.0"),
        _MASKED,
    ),
    "Continue": Construct(
        "`continue` in a loop",
        "Mask the rest of the body with `tl.where`, or put it under an `if`.",
        (*_LOOP, "    if step > 3:", "        continue", "    result += 1.0"),
        _MASKED,
    ),
    "Lambda": Construct(
        "a `lambda`",
        "Write the expression in place, or a helper under `@triton.jit`.",
        ("double = lambda value: value + value", "result = double(x)"),
        ("result = x + x",),
    ),
    "Try": Construct("`try`", "Choose on the host, before the launch.", ("try:", "    result = x", "finally:", "    pass"), _SUM),
    "Raise": Construct("`raise`", "Use `tl.device_assert`, or check on the host.", ("result = x", "raise ValueError()"), _SUM),
    "Dict": Construct("a dict", "Use plain variables.", ('table = {"one": 1.0}', "result = x"), ("one = 1.0", "result = x * one")),
    "Set": Construct("a set", "Use plain variables or a tuple.", ("table = {1, 2}", "result = x"), _SUM),
    "SetComp": Construct("a set comprehension", "Use `tl.static_range`.", ("table = {i for i in range(2)}", "result = x"), _SUM),
    "DictComp": Construct("a dict comprehension", "Use `tl.static_range`.", ("table = {i: i for i in range(2)}", "result = x"), _SUM),
    "GeneratorExp": Construct("a generator expression", "Use a loop.", ("table = tl.sum(x for i in range(2))", "result = x"), _SUM),
    "Delete": Construct("`del`", "Leave the variable be.", ("result = x", "del x"), _SUM),
    "Global": Construct("`global`", "Pass values as arguments.", ("global counter", "result = x"), _SUM),
    "NamedExpr": Construct("`:=`", "Assign on a line of its own.", ("result = (y := x) + y",), ("y = x", "result = y + y")),
    "Import": Construct("`import`", "Import at the top of the file.", ("import math", "result = x"), _SUM),
    "ImportFrom": Construct("`from … import`", "Import at the top of the file.", ("from math import pi", "result = x"), _SUM),
    "ClassDef": Construct("a class", "Use plain variables.", ("class Pair:", "    pass", "result = x"), _SUM),
    "Match": Construct(
        "`match`",
        "Use `if` and `elif`.",
        ("match n:", "    case _:", "        result = x"),
        ("if n > 1:", "    result = x", "else:", "    result = -x"),
    ),
    "Yield": Construct("`yield`", "Store the values with `tl.store`.", ("yield x", "result = x"), _SUM),
}
_CHAINED = Construct(
    "a chained comparison such as `0 < x < 1`",
    "Write `(0 < x) & (x < 1)`.",
    ("result = tl.where(0 < x < 1, x, 0.0)",),
    ("result = tl.where((0 < x) & (x < 1), x, 0.0)",),
)
_RETURN = Construct(
    "`return` inside a loop",
    "Bound the loop or mask its body, and return after it.",
    (*_LOOP, "    if step > 3:", "        return", "    result += 1.0"),
    _MASKED,
)
_LIST = Construct(
    "a list comprehension",
    "Use `tl.static_range`, or a block with one more dimension.",
    ("parts = [i for i in range(2)]", "result = x"),
    ("result = x", "for i in tl.static_range(2):", "    result += i"),
)
_FORMAT = Construct("an f-string over run-time values", "Print values with `tl.device_print`.", ('text = f"{n}"', "result = x"), _SUM)
_MATMUL = Construct(
    "the operator `@`",
    "Use `tl.dot`.",
    ("square = tl.reshape(x, (32, 32))", "result = tl.reshape(square @ square, (BLOCK,))"),
    ("square = tl.reshape(x, (32, 32))", "result = tl.reshape(tl.dot(square, square), (BLOCK,))"),
)
_POWER = Construct("the operator `**` on a block", "Multiply, or use `tl.exp2(y * tl.log2(x))`.", ("result = x ** 2",), ("result = x * x",))
_MEMBER = Construct(
    "the operators `in` and `not in`",
    "Compare with `==` and join with `|`.",
    ("result = x", "if 3 in (1, 2):", "    result = -x"),
    ("result = tl.where((n == 1) | (n == 2), -x, x)",),
)
_NESTED = Construct(
    "a function defined inside a kernel",
    "Define the helper at module level under `@triton.jit`.",
    ("def double(value):", "    return value + value", "result = double(x)"),
    ("result = x + x",),
)


def unsupported(found: Diagnosis) -> Lesson | None:
    """Return the lesson of a construct that Triton refuses, if the source has it inside a kernel."""
    match = _UNSUPPORTED.search(found.text)
    if match and match[1] in _CONSTRUCTS and match[1] in found.kinds:
        return _lesson(found, match[1], _CONSTRUCTS[match[1]], pattern=match[1])
    if "only tuple comprehensions are supported" in found.text and "ListComp" in found.kinds:
        return _lesson(found, "ListComp", _LIST, pattern="ListComp")
    if "nested function definition is not supported" in found.text or found.text.startswith("StopIteration"):
        return _lesson(found, "FunctionDef", _NESTED, pattern="FunctionDef") if "FunctionDef" in found.kinds else None
    if "Cannot evaluate f-string" in found.text and "JoinedStr" in found.kinds:
        return _lesson(found, "JoinedStr", _FORMAT)
    return _control(found) or _operator(found)


def _control(found: Diagnosis) -> Lesson | None:
    returns = "Cannot have `return` statements inside" in found.text or "the loop body should only have one block" in found.text
    loops = [node for node in found.nodes() if isinstance(node, ast.For | ast.While)]
    if returns and any(isinstance(inner, ast.Return) for loop in loops for inner in ast.walk(loop)):
        return _lesson(found, "return-in-loop", _RETURN)
    chained = any(isinstance(node, ast.Compare) and len(node.ops) > 1 for node in found.nodes())
    return _lesson(found, "chained-comparison", _CHAINED) if "simultaneous multiple comparison" in found.text and chained else None


def _operator(found: Diagnosis) -> Lesson | None:
    operators = {type(node) for node in found.nodes() if isinstance(node, ast.operator | ast.cmpop)}
    if "'MatMult' object has no attribute" in found.text and ast.MatMult in operators:
        return _lesson(found, "matmul-operator", _MATMUL)
    if "'tensor' object has no attribute '__pow__'" in found.text and ast.Pow in operators:
        return _lesson(found, "power-operator", _POWER)
    membership = "'In' object has no attribute" in found.text or "'NotIn' object has no attribute" in found.text
    return _lesson(found, "membership", _MEMBER) if membership and operators & {ast.In, ast.NotIn} else None


def _lesson(found: Diagnosis, subject: str, construct: Construct, pattern: str = "") -> Lesson:
    return Lesson(
        signature=found.signature("construct", subject),
        rule=f"You cannot use {construct.phrase} in a Triton kernel: Triton does not compile it.",
        instead=construct.instead,
        scope=found.scope,
        patterns=(Pattern(statement_kind=pattern),) if pattern else (),
        reproducer=block_kernel(construct.bad),
        repairs=(block_kernel(construct.good),),
    )
