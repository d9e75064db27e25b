import pytest
from adaexplore_memory.domain import Pattern
from adaexplore_memory.patterns import matches, problems
from adaexplore_memory.sources import parse

TANH = Pattern(name_used="triton.language.math.tanh")
BREAK = Pattern(statement_kind="Break")
TOP = "import triton\nimport triton.language as tl\n"
FALLBACK = "try:\n    from triton.language.math import tanh\nexcept ImportError:\n    from triton.language.extra.libdevice import tanh\n"


def lines(source, *patterns):
    return list(matches(parse(source), patterns))


def kernel(*body, head=TOP, arguments="x, n"):
    return head + f"@triton.jit\ndef kernel({arguments}):\n" + "".join(f"    {line}\n" for line in body)


@pytest.mark.parametrize(
    "source",
    [
        kernel("y = tl.math.tanh(x)"),
        kernel("y = triton.language.math.tanh(x)", head="import triton\n"),
        kernel("y = m.tanh(x)", head="import triton\nfrom triton.language import math as m\n"),
        kernel("y = tanh(x)", head="import triton\nfrom triton.language.math import tanh\n"),
        kernel("y = t(x)", head="import triton\nfrom triton.language.math import tanh as t\n"),
        kernel("y = lang.math.tanh(x)", head="import triton\nfrom triton import language as lang\n"),
        kernel("y = alias(x)", head=TOP + "alias = tl.math.tanh\n"),
        kernel("y = m.tanh(x)", head=TOP + "m = tl.math\n"),
        kernel("f = tl.math.tanh", "y = f(x)"),
        kernel("y = tl.math.tanh(x)").replace("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit"),
        kernel("y = tl.math.tanh(x)").replace("@triton.jit", "@triton.jit(debug=True)"),
        kernel("y = tl.math.tanh(x)", head=TOP + "from triton import jit as compiled\n").replace("@triton.jit", "@compiled"),
        TOP + "def plain(x):\n    y = tl.math.tanh(x)\nkernel = triton.jit(plain)\n",
        TOP + "class A:\n    @triton.jit\n    def kernel(x):\n        y = tl.math.tanh(x)\n",
        TOP + "def make():\n    @triton.jit\n    def kernel(x):\n        y = tl.math.tanh(x)\n    return kernel\n",
        kernel("p = tl.program_id(0)", "if p == 0:", "    y = tl.math.tanh(x)"),
        kernel("for i in range(n):", "    if i > 2:", "        y = tl.math.tanh(x)"),
    ],
)
def test_a_name_is_found_however_it_is_spelled(source):
    assert lines(source, TANH)


@pytest.mark.parametrize(
    "source",
    [
        kernel("y = libdevice.tanh(x)", head=TOP + "from triton.language.extra import libdevice\n"),
        kernel("y = tanh(x)", head=TOP + "from math import tanh\n"),
        kernel("y = tl.math.tanhf(x)"),
        kernel("y = 'tl.math.tanh(x)'  # tl.math.tanh(x)"),
        kernel("y = tl.math.tanh(x)", arguments="x, n, tl"),
        kernel("tl = n", "y = tl.math.tanh(x)"),
        kernel("y = tl.math.tanh(x)", head=TOP + "tl = object()\n"),
        TOP + "def host(x):\n    return tl.math.tanh(x)\n",
        TOP + "import other\n@other.jit\ndef kernel(x):\n    y = tl.math.tanh(x)\n",
        "import triton\nimport numpy as tl\n@triton.jit\ndef kernel(x):\n    y = tl.math.tanh(x)\n",
    ],
)
def test_another_name_is_not_taken_for_it(source):
    assert lines(source, TANH) == []


@pytest.mark.parametrize(
    "source",
    [
        kernel("if FLAG:", "    y = tl.math.tanh(x)", arguments="x, n, FLAG: tl.constexpr"),
        kernel("y = tl.math.tanh(x) if FLAG else x", arguments="x, n, FLAG: tl.constexpr"),
        kernel("if n is not None:", "    y = tl.math.tanh(x)"),
        kernel("if False:", "    y = tl.math.tanh(x)"),
        kernel("return", "y = tl.math.tanh(x)"),
        kernel("y = FLAG and tl.math.tanh(x)", arguments="x, n, FLAG: tl.constexpr"),
        kernel("y = tl.math.tanh(x)") + "@triton.jit\ndef other(x):\n    pass\nother[(1,)](1)\n",
        kernel("y = tanh(x)", head=TOP + FALLBACK),
        kernel("y = tanh(x)", head=TOP + "tanh = tl.math.tanh if hasattr(tl.math, 'tanh') else tl.exp\n"),
    ],
)
def test_what_triton_may_never_compile_is_no_sure_use(source):
    assert lines(source, TANH) == []


def test_a_device_function_that_the_launched_kernel_calls_counts():
    source = (
        TOP + "@triton.jit\ndef helper(x):\n    return tl.math.tanh(x)\n@triton.jit\ndef kernel(x):\n    y = helper(x)\nkernel[(1,)](1)\n"
    )
    assert lines(source, TANH) == [5]


def test_a_statement_kind_is_found_in_kernels_alone():
    inside = kernel("for i in range(n):", "    if i > 3:", "        break")
    outside = TOP + "for i in range(3):\n    break\n"
    assert lines(inside, BREAK) == [7]
    assert lines(outside, BREAK) == []


@pytest.mark.parametrize("text", ["def (:", "\x00", "(" * 100_000, "x = 1\n" * 300_000, "-" * 50_000 + "1", "x = " + " + ".join("a" * 400)])
def test_what_cannot_be_read_is_no_source(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(),
        Pattern("a.b", "Break"),
        Pattern("triton.language.load"),
        Pattern("builtins.range"),
        Pattern("tanh"),
        Pattern("a..b"),
        Pattern("a.b-c"),
        Pattern(statement_kind="Assign"),
        Pattern(statement_kind="For"),
        Pattern(statement_kind="Nonsense"),
    ],
)
def test_a_pattern_that_is_malformed_or_forbids_every_kernel_is_refused(pattern):
    assert problems(pattern)


def test_sensible_patterns_are_accepted():
    assert problems(TANH) == ""
    assert problems(BREAK) == ""
