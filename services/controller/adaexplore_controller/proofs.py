"""Proves rules: what a rule forbids must fail to compile as the candidate did, and something else must compile instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from adaexplore.runtime.errors import AbortedError
from adaexplore_controller.domain import Diagnosis, Proof, Skill
from adaexplore_controller.ports import EvaluatorPeer, MemoryPeer

_PROVING_CAUSES = frozenset({"COMPILE", "LAUNCH"})
_MOST_CONFLICTS = 5
# The name that an exception says is missing; `$` stands for a name of the source's own.
_MISSING = re.compile(
    r"module '([\w$.]+)' has no attribute '([\w$]+)'|has no attribute '([\w$]+)'|([\w$]+)['\"]? is not defined"
    r"|cannot import name '([\w$]+)'|No module named '([\w$.]+)'"
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_WORD = re.compile(r"(?<![\w#$])[^\W\d_]+(?![\w#$])")


def alike(one: Diagnosis, other: Diagnosis) -> bool:
    """Tell whether two failures are of one kind: the same exception that misses the same name, else says the same.

    What one says is compared by its words, without what it quotes and without names that hold digits, such as dtypes.
    """
    if not one.text or not other.text or _last_part(one.exception_type) != _last_part(other.exception_type):
        return False
    folded = _missing_name(one.text), _missing_name(other.text)
    if not any(folded):
        return _words(one.text) == _words(other.text)
    # A candidate may have a name of its own that is spelled like the missing one.
    spelled = _missing_name(one.said), _missing_name(other.said)
    return folded[0] == folded[1] or (all(spelled) and spelled[0] == spelled[1])


async def try_rule(evaluator: EvaluatorPeer, skill: Skill, failure: Diagnosis, target: str, now: Callable[[], datetime]) -> Proof | None:
    """Compile a rule's reproducer and, if the compiler refuses it as it refused the candidate, its repairs until one compiles.

    A reproducer that fails for another reason (it is no Python, it takes too long, it misses another name) shows nothing: None.

    Args:
        evaluator: Compiles.
        skill: The rule.
        failure: Why the candidate failed that taught the rule.
        target: Target to compile for, for example `sm_90`.
        now: Clock, in UTC.

    Raises:
        ServiceError: The evaluator could not compile; nothing is shown.

    """
    shown = await evaluator.compile_reproducer(skill, target)
    if shown.compiled:
        return Proof(False, None, shown.triton_version, shown.target, now())
    if shown.cause not in _PROVING_CAUSES or not alike(failure, shown.diagnosis):
        return None
    for index in range(skill.repairs):
        if (await evaluator.compile_repair(skill, index, target)).compiled:
            return Proof(True, index, shown.triton_version, shown.target, now())
    return Proof(True, None, shown.triton_version, shown.target, now())


async def store_proof(memory: MemoryPeer, skill: Skill, proof: Proof) -> Skill:
    """Attach a proof to its rule, where it changed meanwhile to the rule as it is now, and return it in the state the memory gives it.

    Raises:
        ServiceError: The memory refused, or the rule changes faster than it can be read.

    """
    for _ in range(_MOST_CONFLICTS):
        try:
            return await memory.store_proof(skill, proof)
        except AbortedError:
            skill = await memory.get(skill.name)
    return await memory.store_proof(skill, proof)


def _last_part(dotted: str) -> str:
    return dotted.rpartition(".")[2]


def _missing_name(text: str) -> str:
    found = _MISSING.search(text)
    return ".".join(part for part in found.groups() if part) if found else ""


def _words(text: str) -> list[str]:
    return _WORD.findall(_QUOTED.sub(" ", text))
