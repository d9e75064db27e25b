"""Every rule that the memory can distil is held against the installed Triton, in one process that compiles for sm_90."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from adaexplore_memory.distill import distill
from adaexplore_memory.distill.blocks import FAMILIES
from adaexplore_memory.distill.catalogue import _FORMULAS, _LIBRARY, _VALUES, function
from adaexplore_memory.distill.constructs import _CONSTRUCTS
from adaexplore_memory.patterns import INDISPENSABLE_NAMES, matches
from adaexplore_memory.sources import parse

pytest.importorskip("triton")

# A kernel line that fails, and the signature of the lesson it must teach.
BAD_LINES = {
    "tl.math.tanh": ("y = tl.math.tanh(x)", "missing-name:triton.language.math.tanh"),
    "tl.tanh": ("y = tl.tanh(x)", "missing-name:triton.language.tanh"),
    "tl.math.pow": ("y = tl.math.pow(x, 2.0)", "missing-name:triton.language.math.pow"),
    "tl.math.log1p": ("y = tl.math.log1p(x)", "missing-name:triton.language.math.log1p"),
    "tl.math.expm1": ("y = tl.math.expm1(x)", "missing-name:triton.language.math.expm1"),
    "tl.libdevice": ("y = tl.libdevice.tanh(x)", "missing-name:triton.language.libdevice"),
    "tl.gelu": ("y = tl.gelu(x)", "missing-name:triton.language.gelu"),
    "tl.inf": ("y = x + tl.inf", "missing-name:triton.language.inf"),
    "tl.frobnicate": ("y = tl.frobnicate(x, 1, 2)", "missing-name:triton.language.frobnicate"),
    "libdevice.sigmoid": ("y = libdevice.sigmoid(x)", "missing-name:triton.language.extra.libdevice.sigmoid"),
    "x.tanh": ("y = x.tanh()", "tensor-attribute:tanh"),
    "x.float": ("y = x.float()", "tensor-attribute:float"),
    "abs": ("y = abs(x)", "builtin:abs"),
    "sum": ("y = sum(x)", "builtin:sum"),
    "torch.tanh": ("y = torch.tanh(x)", "host-function:torch.tanh"),
    "math.tanh": ("y = math.tanh(x)", "host-function:math.tanh"),
    "helper": ("y = helper(x)", "plain-function"),
    "break": ("y = x\n    for i in range(n):\n        if i > 3:\n            break\n        y += 1", "construct:Break"),
    "lambda": ("y = (lambda v: v)(x)", "construct:Lambda"),
    "list": ("z = [i for i in range(4)]\n    y = x", "construct:ListComp"),
    "return": ("y = x\n    for i in range(n):\n        if i > 3:\n            return\n        y += 1", "construct:return-in-loop"),
    "chained": ("y = tl.where(0 < x < 1, x, 0.0)", "construct:chained-comparison"),
    "power": ("y = x ** 2", "construct:power-operator"),
    "matmul": ("y = x @ x", "construct:matmul-operator"),
    "branch": ("if n > 3:\n        extra = 1.5\n    y = x + extra", "branch-variable"),
    "dim": ("y = x + tl.sum(x, dim=0)", "wrong-arguments"),
    "list-loop": ("y = x\n    for f in [1, 2]:\n        y += f", "loop-iterable"),
    "nested": ("def g(v):\n        return v\n    y = g(x)", "construct:FunctionDef"),
}
HEAD = "import math\nfrom triton.language.extra import libdevice\n\ndef helper(v):\n    return v\n"
SIGNATURE = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}


def _as_snippet(source):
    return {
        "source": source,
        "function_name": "kernel",
        "signature": SIGNATURE,
        "constexprs": {"BLOCK": "128"},
        "num_warps": 0,
        "num_stages": 0,
    }


@pytest.fixture(scope="module")
def compile_all():
    """Tries each list of snippets until one compiles; returns the version of Triton and the verdicts on what was tried."""

    def run(lists):
        script = Path(__file__).with_name("compile_snippets.py")
        done = subprocess.run([sys.executable, str(script)], input=json.dumps(lists), capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        return answer["triton"], answer["verdicts"]

    return run


@pytest.fixture
def lessons(candidate, failure, compile_all):
    """The lesson of each bad line, from what the installed compiler really says about it."""
    sources = {name: candidate(line, HEAD) for name, (line, _) in BAD_LINES.items()}
    version, verdicts = compile_all([[_as_snippet(source)] for source in sources.values()])
    found = {}
    for (name, source), (verdict,) in zip(sources.items(), verdicts, strict=True):
        assert not verdict["compiled"], f"{name} compiles on Triton {version}"
        found[name] = distill(failure(source, verdict["detail"], exception_type=verdict["exception_type"], triton_version=version))
    return found


def _tried(snippets):
    return [dataclasses.asdict(snippet) for snippet in snippets]


def _check_repairs(named, compile_all):
    for (name, _), tried in zip(named, compile_all([_tried(repairs) for _, repairs in named])[1], strict=True):
        assert not tried or tried[-1]["compiled"], f"no repair of {name} compiles: {tried}"


def _check_reproducers(named, compile_all):
    """Each reproducer fails; returns what the compiler said."""
    verdicts = [verdict for (verdict,) in compile_all([_tried([reproducer]) for _, reproducer in named])[1]]
    assert [name for (name, _), verdict in zip(named, verdicts, strict=True) if verdict["compiled"]] == []
    return verdicts


@pytest.mark.timeout(600)
def test_what_the_compiler_says_of_bad_kernels_teaches_rules_whose_reproducer_fails_and_whose_repair_compiles(lessons, compile_all):
    for name, (_, signature) in BAD_LINES.items():
        assert lessons[name] is not None, name
        assert lessons[name].signature.partition("@")[0] == signature
    _check_reproducers([(name, lesson.reproducer) for name, lesson in lessons.items()], compile_all)
    _check_repairs([(name, lesson.repairs) for name, lesson in lessons.items()], compile_all)


@pytest.mark.timeout(600)
def test_each_family_recognises_the_failure_of_its_own_reproducer_and_repairs_it(failure, compile_all):
    verdicts = _check_reproducers([(family.signature, family.reproducer) for family in FAMILIES], compile_all)
    for family, verdict in zip(FAMILIES, verdicts, strict=True):
        report = failure(family.reproducer.source, verdict["detail"], exception_type=verdict["exception_type"])
        assert distill(report).signature == f"{family.signature}@3.7"
    _check_repairs([(family.signature, family.repairs) for family in FAMILIES], compile_all)


@pytest.mark.timeout(600)
def test_each_unsupported_construct_fails_and_its_replacement_compiles(failure, compile_all):
    lessons = {}
    for kind, construct in _CONSTRUCTS.items():
        source = "\n".join(["import triton", "@triton.jit", "def k(x):", *(f"    {line}" for line in construct.bad)])
        lessons[kind] = distill(failure(source, f"unsupported AST node type: {kind}"))
        assert matches(parse(lessons[kind].reproducer.source), lessons[kind].patterns), kind
        assert not matches(parse(lessons[kind].repairs[0].source), lessons[kind].patterns), kind
    _check_reproducers([(kind, lesson.reproducer) for kind, lesson in lessons.items()], compile_all)
    _check_repairs([(kind, lesson.repairs) for kind, lesson in lessons.items()], compile_all)


@pytest.mark.timeout(600)
def test_every_function_of_the_catalogue_has_a_spelling_that_compiles(compile_all):
    functions = {name: function(name) for name in (*_LIBRARY, *_FORMULAS, *_VALUES)}
    _check_repairs([(name, [known.snippet(spelling) for spelling in known.spellings]) for name, known in functions.items()], compile_all)


def test_every_name_that_is_taken_for_granted_exists_in_the_installed_triton():
    script = (
        "import builtins, sys, triton, triton.language\nfor name in sys.argv[1:]:\n    eval(name, {'triton': triton, 'builtins': builtins})"
    )
    subprocess.run([sys.executable, "-c", script, *sorted(INDISPENSABLE_NAMES)], check=True, capture_output=True)
