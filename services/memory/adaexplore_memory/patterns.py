"""Predicates over a kernel's syntax tree: which names and which kinds of statement its jit functions use."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from adaexplore_memory.domain import Pattern
from adaexplore_memory.sources import JitFunction, ParsedSource

# Kinds that some kernel can do without; a rule against any other kind would forbid every kernel.
_KNOWN_KINDS = """
AnnAssign Assert AsyncFor AsyncFunctionDef AsyncWith Await Break ClassDef Continue Delete Dict DictComp FunctionDef GeneratorExp Global
IfExp Import ImportFrom JoinedStr Lambda ListComp Match NamedExpr Nonlocal Raise Set SetComp Slice Starred Try TryStar While With Yield
YieldFrom
"""
KNOWN_KINDS = frozenset(_KNOWN_KINDS.split())
_CORE = """
abs advance arange associative_scan atomic_add atomic_cas atomic_max atomic_min bfloat16 broadcast_to cast cdiv constexpr cos cumsum dot exp
exp2 expand_dims float16 float32 float64 floor full int1 int16 int32 int64 int8 load log log2 math max maximum min minimum num_programs
permute pointer_type program_id range reduce reshape rsqrt sin sqrt static_assert static_range store sum trans where zeros
"""
# What every Triton kernel rests on, in every version; a rule that forbids one of these is wrong, whoever proposes it.
INDISPENSABLE_NAMES = frozenset(
    ["triton.jit", "triton.language", *(f"triton.language.{name}" for name in _CORE.split())]
    + [f"builtins.{name}" for name in ("range", "min", "max", "float", "int", "bool")]
)
# Only what these return is known at run time alone; arguments may be specialised and globals are constants.
_RUNTIME_CALLS = frozenset({"triton.language.program_id", "triton.language.load", "triton.language.atomic_add", "triton.language.arange"})
_RANGES = frozenset({"builtins.range", "triton.language.range"})
_NOT_COMPILED = frozenset({"annotation", "returns", "decorator_list", "type_comment"})


@dataclass(frozen=True)
class Use:
    """One node of a jit function.

    Attributes:
        name: Dotted name or node kind.
        line: 1-based.
        sure: False if Triton may never compile it: dead code, or the branch of a condition it may decide at compile time.

    """

    name: str
    line: int
    sure: bool


@dataclass(frozen=True)
class Uses:
    """What the jit functions of a source use: dotted names, and kinds of statement and expression."""

    names: tuple[Use, ...]
    kinds: tuple[Use, ...]


def problems(pattern: Pattern) -> str:
    """Return why a pattern cannot be accepted, in one sentence, or an empty string."""
    if bool(pattern.name_used) == bool(pattern.statement_kind):
        return "set exactly one of name_used and statement_kind"
    if pattern.name_used:
        parts = pattern.name_used.split(".")
        if len(parts) < 2 or len(pattern.name_used) > 200 or not all(part.isidentifier() for part in parts):
            return "name_used must be a dotted name of Python identifiers, for example triton.language.math.tanh"
        if pattern.name_used in INDISPENSABLE_NAMES:
            return f"{pattern.name_used} is what every Triton kernel rests on; a rule cannot forbid it"
        return ""
    if pattern.statement_kind not in KNOWN_KINDS:
        return "statement_kind must be the node class of a construct that kernels can do without, for example Break"
    return ""


def sure_lines(source: ParsedSource) -> Mapping[Pattern, tuple[int, ...]]:
    """Return, for every pattern that a source surely matches, the lines where it does, in order."""
    found: dict[Pattern, set[int]] = defaultdict(set)
    uses = uses_of(source)
    for use in uses.names:
        if use.sure:
            found[Pattern(name_used=use.name)].add(use.line)
    for use in uses.kinds:
        if use.sure:
            found[Pattern(statement_kind=use.name)].add(use.line)
    return {pattern: tuple(sorted(lines)) for pattern, lines in found.items()}


def matches(source: ParsedSource, patterns: Iterable[Pattern]) -> tuple[int, ...]:
    """Return the lines where a source surely matches one of the patterns, in order."""
    lines = sure_lines(source)
    return tuple(sorted({line for pattern in patterns for line in lines.get(pattern, ())}))


def uses_of(source: ParsedSource) -> Uses:
    """Return what the jit functions of a source use; names are resolved through imports and aliases, `a.b` within `a.b.c` too."""
    names: list[Use] = []
    kinds: list[Use] = []
    live = _live_names(source)
    for function in source.functions:
        reader = _Reader(function, _runtime_names(function), names, kinds)
        reader.block(function.node.body, function.node.name in live)
    return Uses(tuple(names), tuple(kinds))


class _Reader:
    """Walks one jit function as Triton would and notes what it uses, and whether that is sure."""

    def __init__(self, function: JitFunction, runtime: frozenset[str], names: list[Use], kinds: list[Use]) -> None:
        self._function = function
        self._runtime = runtime
        self._names = names
        self._kinds = kinds

    def block(self, body: list[ast.stmt], sure: bool) -> None:
        for statement in body:
            self.node(statement, sure)
            if isinstance(statement, ast.Return):
                sure = False  # Triton stops reading a block at its return

    def node(self, node: ast.AST, sure: bool) -> None:
        if isinstance(node, ast.expr_context | ast.operator | ast.cmpop):
            return
        if isinstance(node, ast.stmt | ast.expr):
            self._kinds.append(Use(type(node).__name__, node.lineno, sure))
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            dotted = self._function.resolve(node)
            if dotted is not None:
                self._names.append(Use(dotted, node.lineno, sure))
        for field in node._fields:
            if field not in _NOT_COMPILED:
                self._field(node, field, sure and self._compiled(node, field))

    def _field(self, node: ast.AST, field: str, sure: bool) -> None:
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            self.node(value, sure)
        elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            self.block(value, sure)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    self.node(item, sure and not (index and isinstance(node, ast.BoolOp)))

    def _compiled(self, node: ast.AST, field: str) -> bool:
        if isinstance(node, ast.If | ast.IfExp) and field in {"body", "orelse"}:
            if isinstance(node.test, ast.BoolOp):
                return False
            return any(isinstance(part, ast.Name) and part.id in self._runtime for part in ast.walk(node.test))
        return not (field == "orelse" and isinstance(node, ast.For | ast.While))


def _live_names(source: ParsedSource) -> frozenset[str]:
    """Names of the jit functions that something refers to; all of them if nothing refers to any, as in a file without a launch."""
    defined = frozenset(function.node.name for function in source.functions)
    references = _references(source.tree, defined)
    own = Counter(name for f in source.functions for name in _references(f.node, frozenset({f.node.name})).elements())
    return frozenset(name for name in defined if references[name] > own[name]) or defined


def _references(tree: ast.AST, names: frozenset[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in names:
            found[name] += 1
    return found


def _runtime_names(function: JitFunction) -> frozenset[str]:
    """Locals that surely hold run-time values, by following assignments until nothing is added."""
    nodes = list(ast.walk(function.node))
    known = set(_loop_variables(function, nodes))
    waiting = [_Assignment.of(function, node) for node in nodes if isinstance(node, ast.Assign | ast.AugAssign)]
    while True:
        runtime = [assignment for assignment in waiting if assignment.calls or assignment.reads & known]
        before = len(known)
        known.update(name for assignment in runtime for name in assignment.targets)
        if len(known) == before:
            return frozenset(known)


@dataclass(frozen=True)
class _Assignment:
    """Names that an assignment sets and reads, and whether it calls what returns run-time values."""

    targets: frozenset[str]
    reads: frozenset[str]
    calls: bool

    @classmethod
    def of(cls, function: JitFunction, node: ast.Assign | ast.AugAssign) -> _Assignment:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = list(ast.walk(node.value))
        return cls(
            frozenset(target.id for target in targets if isinstance(target, ast.Name)),
            frozenset(part.id for part in parts if isinstance(part, ast.Name)),
            any(isinstance(part, ast.Call) and function.resolve(part.func) in _RUNTIME_CALLS for part in parts),
        )


def _loop_variables(function: JitFunction, nodes: Iterable[ast.AST]) -> Iterator[str]:
    for loop in nodes:
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call):
            yield from [loop.target.id] if function.resolve(loop.iter.func) in _RANGES else []
