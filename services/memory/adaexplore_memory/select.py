"""Which skills a generation should be shown, in which order, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from adaexplore_memory.distill.catalogue import concept
from adaexplore_memory.domain import Environment, Scope, Skill, SkillKind

DEFAULT_TOKEN_BUDGET = 1_600
_CHARACTERS_A_TOKEN = 4
_TOKENS_AROUND = 6
# Functions that kernels reach for when they compute an operator, beside the one of its own name.
_REACHED_FOR = {
    "gelu": ("tanh", "erf", "exp", "sigmoid", "pow"),
    "silu": ("sigmoid", "exp", "tanh"),
    "sigmoid": ("exp", "tanh"),
    "log_sigmoid_forward": ("sigmoid", "log", "log1p", "exp", "logsigmoid"),
    "tanh": ("exp", "sigmoid"),
    "mish": ("tanh", "softplus", "log1p", "exp"),
    "softplus": ("log1p", "exp", "log"),
    "elu": ("expm1", "exp"),
    "selu": ("expm1", "exp"),
    "celu": ("expm1", "exp"),
    "erf": ("exp",),
    "pow": ("exp", "log"),
    "rsqrt": ("sqrt",),
    "softmax": ("exp", "amax", "maximum"),
    "log_softmax": ("exp", "log", "amax", "logsumexp"),
    "logsumexp": ("exp", "log", "amax"),
    "cross_entropy_loss": ("exp", "log", "logsumexp"),
    "nll_loss_forward": ("log",),
    "layer_norm": ("rsqrt", "sqrt", "mean", "var"),
    "native_layer_norm": ("rsqrt", "sqrt", "mean", "var"),
    "group_norm": ("rsqrt", "sqrt", "mean", "var"),
    "batch_norm": ("rsqrt", "sqrt", "mean", "var"),
    "rms_norm": ("rsqrt", "sqrt", "mean", "pow"),
    "relu": ("maximum",),
    "clamp": ("maximum", "minimum"),
    "hardtanh": ("maximum", "minimum", "clamp"),
}
_FAMILIES = {
    "softmax": {"softmax", "log_softmax", "logsumexp", "cross_entropy_loss"},
    "norm": {"layer_norm", "native_layer_norm", "group_norm", "batch_norm", "rms_norm", "native_group_norm", "native_batch_norm"},
    "matmul": {"mm", "bmm", "addmm", "baddbmm", "linear", "matmul"},
    "convolution": {"convolution", "conv1d", "conv2d", "conv3d"},
    "reduction": {"sum", "mean", "var", "std", "amax", "amin", "max", "min", "prod", "argmax", "argmin"},
    "activation": {"relu", "gelu", "silu", "sigmoid", "tanh", "mish", "softplus", "elu", "selu", "leaky_relu", "hardtanh", "hardswish"},
}
_TANH_ALONE = "gelu_tanh"


@dataclass(frozen=True)
class Query:
    """What skills are selected for.

    Attributes:
        operators: Names of the task's operators, overloads left out (`softmax`); `gelu_tanh` for the GELU that uses tanh.
        environment: What will compile the kernel.
        structural: True for a rewrite, False for a small edit.
        token_budget: Tokens that the skills may take.

    """

    operators: frozenset[str]
    environment: Environment
    structural: bool = True
    token_budget: int = DEFAULT_TOKEN_BUDGET


def in_scope(scope: Scope, environment: Environment, *, certain: bool = False) -> bool:
    """Return whether a scope holds for an environment.

    Args:
        scope: Where the skill holds.
        environment: What will compile the kernel.
        certain: What an unknown version or target means: False lets the skill through, True keeps it out.

    """
    unknown = not certain
    version = _version_in(scope.triton_versions, environment.triton_version) if environment.triton_version else unknown
    backend = scope.backend == environment.backend if environment.backend else unknown
    architecture = environment.target in scope.architectures if environment.target else unknown
    return (not scope.triton_versions or version) and (not scope.backend or backend) and (not scope.architectures or architecture)


def estimate_tokens(skill: Skill) -> int:
    """Return the tokens a skill takes in a prompt, at about four characters each."""
    return math.ceil((len(skill.rule) + len(skill.instead)) / _CHARACTERS_A_TOKEN) + _TOKENS_AROUND


def valid_version(version: str) -> bool:
    """Return whether a text is a PEP 440 version."""
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def valid_specifier(specifier: str) -> bool:
    """Return whether a text is a PEP 440 specifier."""
    try:
        SpecifierSet(specifier)
    except InvalidSpecifier:
        return False
    return True


def subjects(skill: Skill) -> frozenset[str]:
    """Return the functions that a skill speaks of, by the last part of the names in its patterns and its signature."""
    names = [pattern.name_used for pattern in skill.patterns if pattern.name_used]
    family, _, subject = skill.evidence.signature.partition("@")[0].partition(":")
    if family in {"missing-name", "tensor-attribute", "builtin", "host-function"}:
        names.append(subject)
    return frozenset(concept(name.rpartition(".")[2]) for name in names)


def reach(operators: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return the functions that kernels for these operators may call, each with its distance and the operator that calls for it.

    The distance is 0 for the operator's own function and grows with the functions that its formulas need less often.
    """
    found: dict[str, tuple[int, str]] = {}
    for operator in sorted(operators):
        own = "gelu" if operator == _TANH_ALONE else operator
        needed = ("tanh", "sigmoid", "exp", "pow") if operator == _TANH_ALONE else _REACHED_FOR.get(operator, ())
        for distance, name in enumerate((own, *needed)):
            nearest = found.get(concept(name), (distance, own))
            found[concept(name)] = min(nearest, (distance, own))
    return found


def suits(scope: Scope, query: Query) -> bool:
    """Return whether a scope's operator families are among those of the task."""
    wanted = set(scope.operator_families)
    if not wanted or not query.operators:
        return True
    families = {family for family, members in _FAMILIES.items() if members & query.operators}
    return bool(wanted & (families | query.operators))


def worth(skill: Skill) -> float:
    """Return what ranks skills of one relevance: what is heeded before what is ignored, what is proven before what is only counted."""
    counters, proof = skill.counters, skill.evidence.proof
    effect = (counters.avoided + 1) / (counters.avoided + counters.broken + 2)
    return 0.5 * effect + (0.2 if proof is not None and proof.reproducer_failed else 0.0)


def reason(skill: Skill, query: Query, reachable: Mapping[str, tuple[int, str]]) -> str:
    """Return why a skill is shown, in a few words."""
    about = subjects(skill)
    hits = sorted((*reachable[name], name) for name in about if name in reachable)
    if hits:
        _, operator, name = hits[0]
        said = f"the task's {operator} may be written with {name}"
    elif skill.scope.operator_families and query.operators:
        said = f"it speaks of {_named(skill.scope.operator_families)}, which the task has"
    elif skill.kind is SkillKind.TECHNIQUE:
        said = "a technique that sped kernels up"
    else:
        said = f"it holds for this Triton, should {_named(sorted(about))} be used" if about else "it holds for every Triton kernel"
    return said + (f"; heeded {skill.counters.avoided} times" if skill.counters.avoided else "")


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3])


@lru_cache(maxsize=4096)
def _version_in(specifier: str, version: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False
