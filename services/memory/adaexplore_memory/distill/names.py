"""Lessons about names that do not exist, or that a kernel cannot call."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from adaexplore_memory.distill.catalogue import Function, Spelling, concept, function
from adaexplore_memory.distill.diagnosis import Diagnosis
from adaexplore_memory.distill.snippets import block_kernel, pointwise
from adaexplore_memory.domain import Lesson, Pattern, Snippet
from adaexplore_memory.patterns import INDISPENSABLE_NAMES

_MISSING_ATTRIBUTE = re.compile(r"module '(triton(?:\.\w+)*)' has no attribute '(\w+)'")
_MISSING_IMPORT = re.compile(r"cannot import name '(\w+)' from '(triton(?:\.\w+)*)'")
_MISSING_MODULE = re.compile(r"No module named '(triton(?:\.\w+)+)'")
_UNDEFINED = re.compile(r"(?:NameError\()?[\"']?(\w+) is not defined")
_TENSOR_ATTRIBUTE = re.compile(r"'tensor' object has no attribute '(\w+)'")
_HOST_FUNCTION = re.compile(r"Unsupported function referenced: <(?:built-in (?:method|function)|function|class|module) '?([\w.]+)'?")
_MATH_ARGUMENT = re.compile(r"must be real number, not tensor")
_KNOWN_MEMBERS = "T abs broadcast_to cast dtype expand_dims max min numel permute reshape shape sum to trans type"
_MEMBERS = frozenset(_KNOWN_MEMBERS.split())
_ARGUMENTS = {1: "x", 2: "x, y", 3: "x, y, z"}
_ADVICES = 3


def missing_name(found: Diagnosis) -> Lesson | None:
    """Return the lesson of a Triton name that this version does not have."""
    match = _MISSING_ATTRIBUTE.search(found.text)
    dotted = f"{match[1]}.{match[2]}" if match else _imported(found)
    if not dotted or dotted in INDISPENSABLE_NAMES or not all(part.isidentifier() for part in dotted.split(".")):
        return None
    used = _longest_use(found, dotted)
    if used is None:
        return None
    known = function(used.rpartition(".")[2])
    called = f"{spelled(used)}({_ARGUMENTS[known.arity]})" if known and known.called else ""
    reproducer = _reproducer(used, called, known)
    choices = _choices(known, exclude=called)
    return Lesson(
        signature=found.signature("missing-name", dotted),
        rule=f"You cannot use `{spelled(dotted)}` in a Triton kernel: `{dotted.rpartition('.')[0]}` has no such name"
        + (f" in Triton {found.series}." if found.series else "."),
        instead=advice(choices) or f"Compute it from functions that `triton.language` has; `{spelled(dotted)}` has no known equivalent.",
        scope=found.scope,
        patterns=(Pattern(name_used=dotted),),
        reproducer=reproducer,
        repairs=tuple(known.snippet(choice) for choice in choices) if known else (),
    )


def builtin_call(found: Diagnosis) -> Lesson | None:
    """Return the lesson of a Python builtin that Triton does not know."""
    match = _UNDEFINED.search(found.text)
    if not match or f"builtins.{match[1]}" in INDISPENSABLE_NAMES or not found.uses(f"builtins.{match[1]}"):
        return None
    name = match[1]
    known = Function(1, (Spelling("tl.sum(x, axis=0)"),)) if name == "sum" else function(name)
    choices = _choices(known, exclude="")
    return Lesson(
        signature=found.signature("builtin", name),
        rule=f"You cannot call Python's built-in `{name}` in a Triton kernel: Triton does not know it.",
        instead=advice(choices) or "Write it with functions of `triton.language`, or do it on the host and pass the result.",
        scope=found.scope,
        patterns=(Pattern(name_used=f"builtins.{name}"),),
        reproducer=block_kernel([f"tl.static_assert({name} is not None)", "result = x"]),
        repairs=tuple(known.snippet(choice) for choice in choices) if known else (),
    )


def branch_variable(found: Diagnosis) -> Lesson | None:
    """Return the lesson of a variable that only one branch of an `if` defines."""
    match = _UNDEFINED.search(found.text)
    branches = (node for node in found.nodes() if isinstance(node, ast.If | ast.For | ast.While))
    stored = (part for branch in branches for part in ast.walk(branch) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    if not match or not any(part.id == match[1] for part in stored):
        return None
    return Lesson(
        signature=found.signature("branch-variable"),
        rule="You cannot use a variable after an `if` or a loop of a Triton kernel that alone defines it.",
        instead="Give it a value of its final type before the branch or the loop.",
        scope=found.scope,
        reproducer=block_kernel(["if n > 3:", "    extra = 1.5", "result = x + extra"]),
        repairs=(block_kernel(["extra = 0.0", "if n > 3:", "    extra = 1.5", "result = x + extra"]),),
    )


def tensor_method(found: Diagnosis) -> Lesson | None:
    """Return the lesson of a method or attribute that blocks do not have."""
    match = _TENSOR_ATTRIBUTE.search(found.text)
    name = match[1] if match else ""
    if not name or name.startswith("__") or name in _MEMBERS:
        return None
    if not any(isinstance(node, ast.Attribute) and node.attr == name for node in found.nodes()):
        return None
    known = function(name)
    choices = _choices(known, exclude="")
    return Lesson(
        signature=found.signature("tensor-attribute", name),
        rule=f"You cannot use `.{name}` of a block in a Triton kernel: a Triton tensor has no such attribute.",
        instead=advice(choices) or "Use functions of `triton.language` on the block.",
        scope=found.scope,
        reproducer=block_kernel([f"tl.static_assert(x.{name} is not None)", "result = x"]),
        repairs=tuple(known.snippet(choice) for choice in choices) if known else (),
    )


def host_function(found: Diagnosis) -> Lesson | None:
    """Return the lesson of a torch, numpy, math or plain Python function called in a kernel."""
    match = _HOST_FUNCTION.search(found.text)
    name = match[1].rpartition(".")[2] if match else ""
    called = [use.name for use in found.names if use.name.partition(".")[0] in {"torch", "numpy"} and use.name.endswith(f".{name}")]
    if name and called:
        return _host_call(found, called[0], certain=True)
    if match:
        return _plain_function(found)
    called = [use.name for use in found.names if use.name.startswith("math.") and use.name != "math"]
    if _MATH_ARGUMENT.search(found.text) and called:
        return _host_call(found, called[0], certain=False)
    return None


def spelled(dotted: str) -> str:
    """Return a dotted name as kernels write it, `tl.math.tanh` or `libdevice.tanh`."""
    for prefix in ("triton.language.extra.libdevice.", "triton.language.extra.cuda.libdevice."):
        if dotted.startswith(prefix):
            return f"libdevice.{dotted.removeprefix(prefix)}"
    return f"tl.{dotted.removeprefix('triton.language.')}" if dotted.startswith("triton.language.") else dotted


def advice(choices: Sequence[Spelling]) -> str:
    """Return the sentence that names the first few spellings; empty if there are none."""
    return f"Use {', or '.join(choice.advice for choice in choices[:_ADVICES])}." if choices else ""


def _imported(found: Diagnosis) -> str:
    """The dotted name whose import failed, if the source really imports it."""
    name, module = _MISSING_IMPORT.search(found.text), _MISSING_MODULE.search(found.text)
    wanted = f"{name[2]}.{name[1]}" if name else module[1] if module else ""
    for node in ast.walk(found.source.tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module and not node.level else ""
        if any(f"{base}{item}.".startswith(f"{wanted}.") for item in names):
            return wanted
    return ""


def _longest_use(found: Diagnosis, dotted: str) -> str | None:
    """The longest dotted name that the source uses or imports and that goes through the missing one."""
    uses = [use.name for use in found.names if f"{use.name}.".startswith(f"{dotted}.")]
    if _imported(found) == dotted:
        uses.append(dotted)
    return max(uses, key=len, default=None)


def _import_for(dotted: str) -> tuple[str, ...]:
    if dotted.startswith("triton.language.") and not dotted.startswith("triton.language.extra."):
        return ()
    module, _, _ = dotted.rpartition(".")
    parent, _, last = module.rpartition(".")
    return (f"from {parent} import {last}",) if parent else ()


def _reproducer(used: str, called: str, known: Function | None) -> Snippet:
    imports = _import_for(used)
    if known and called:
        return pointwise(called, imports=imports, arity=known.arity)
    # What arguments it would take is unknown, so it is only named: were it there, this kernel would compile.
    return block_kernel([f"tl.static_assert({spelled(used)} is not None)", "result = x"], imports=imports)


def _choices(known: Function | None, exclude: str) -> tuple[Spelling, ...]:
    return tuple(spelling for spelling in known.spellings if spelling.expression != exclude) if known else ()


def _host_call(found: Diagnosis, dotted: str, *, certain: bool) -> Lesson:
    library, _, name = dotted.rpartition(".")
    known = function(name)
    choices = _choices(known, exclude="")
    call = f"{dotted}({_ARGUMENTS[known.arity] if known else 'x'})"
    return Lesson(
        signature=found.signature("host-function", dotted),
        rule=f"You cannot call `{dotted}` on a block in a Triton kernel: {library.partition('.')[0]} works on the host only.",
        instead=advice(choices) or "Use functions of `triton.language`, or call it on the host outside the kernel.",
        scope=found.scope,
        patterns=(Pattern(name_used=dotted),) if certain else (),
        reproducer=pointwise(call, imports=(f"import {library}",), arity=known.arity if known else 1),
        repairs=tuple(known.snippet(choice) for choice in choices) if known else (),
    )


def _plain_function(found: Diagnosis) -> Lesson:
    return Lesson(
        signature=found.signature("plain-function"),
        rule="You cannot call a plain Python function from a Triton kernel: Triton compiles only functions that it has been given.",
        instead="Decorate the helper with `@triton.jit`, or write its body in the kernel.",
        scope=found.scope,
        reproducer=block_kernel(["result = twice(x)"], before=["def twice(value):", "    return value + value"]),
        repairs=(block_kernel(["result = x + x"]),),
    )


__all__ = ["advice", "builtin_call", "concept", "host_function", "missing_name", "spelled", "tensor_method"]
