"""How a skill lives: what is accepted, what makes it ACTIVE, what retires it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from adaexplore.runtime.errors import FieldViolation
from adaexplore_memory.domain import (
    MAX_RULE_CHARACTERS,
    RULE_START,
    Evidence,
    Lesson,
    Proof,
    Skill,
    SkillKind,
    SkillState,
    Snippet,
    skill_name,
)
from adaexplore_memory.intake import clean
from adaexplore_memory.patterns import INDISPENSABLE_NAMES, matches, problems
from adaexplore_memory.select import valid_specifier
from adaexplore_memory.sources import parse

TASKS_THAT_PROVE = 2
# Together they keep a selection of skills below the 4 MB of one message.
_MAX_SNIPPET_CHARACTERS = 8_192
_MAX_REPAIRS = 8
_MAX_ITEMS = 20
_MAX_SIGNATURE_CHARACTERS = 1_000
_MAX_SIGNATURE_BYTES = 2_600  # a unique index of PostgreSQL holds hardly more
_ARCHITECTURE = re.compile(r"(sm_\d{2,3}[a-z]?|gfx[0-9a-f]{3,5})")
# "You cannot use tl.load." and its like, with nothing that would narrow it.
_BLANKET = re.compile(
    r"You cannot (?:ever )?(?:use|call|invoke|apply|have|rely on|write) (?:the )?"
    r"`?(?:triton\.language|tl)\.(?P<name>\w+)(?!\w|\.\w)`?(?:\(.*?\))?`?"
    r"(?: (?:function|operation|at all|any ?more))?"
    r"(?: (?:in|inside|within|from) (?:any |a |an |the |your )?(?:triton |jit |@triton\.jit )*(?:kernel|function|code)s?)?"
    r"\s*(?:[.!:;,].*)?",
    re.IGNORECASE | re.DOTALL,
)


def from_lesson(lesson: Lesson, task_digest: str, now_us: int) -> Skill:
    """Return the CANDIDATE that a lesson becomes, resting on one task."""
    evidence = Evidence(
        task_digests=(task_digest,), failure_count=1, signature=lesson.signature, reproducer=lesson.reproducer, repairs=lesson.repairs
    )
    return Skill(
        name=skill_name(lesson.signature),
        kind=SkillKind.PITFALL,
        state=SkillState.CANDIDATE,
        rule=lesson.rule,
        instead=lesson.instead,
        scope=lesson.scope,
        evidence=evidence,
        patterns=lesson.patterns,
        create_time_us=now_us,
        update_time_us=now_us,
        revision=1,
        distilled=True,
    )


def written(draft: Skill, now_us: int) -> Skill:
    """Return the CANDIDATE that a skill of a person or a model becomes; what only failures and proofs can give is left behind."""
    evidence = Evidence(signature=draft.evidence.signature, reproducer=draft.evidence.reproducer, repairs=draft.evidence.repairs)
    return Skill(
        name=skill_name(evidence.signature or draft.rule),
        kind=draft.kind,
        state=SkillState.CANDIDATE,
        rule=draft.rule,
        instead=draft.instead,
        scope=draft.scope,
        evidence=evidence,
        patterns=draft.patterns,
        create_time_us=now_us,
        update_time_us=now_us,
        revision=1,
    )


def imported(draft: Skill, now_us: int) -> Skill:
    """Return the CANDIDATE that a skill of another memory becomes.

    Without a reproducer its signature is left behind too: it could be made up to fit failures that this memory will see.
    """
    skill = written(draft, now_us)
    return skill if skill.evidence.reproducer is not None else replace(skill, evidence=replace(skill.evidence, signature=""))


def reworded(skill: Skill, lesson: Lesson) -> Skill:
    """Return a CANDIDATE that somebody wrote in the memory's own words, now that a failure has taught the same; it keeps its name.

    What failures make ACTIVE must be what they have shown.
    """
    evidence = replace(skill.evidence, signature=lesson.signature, reproducer=lesson.reproducer, repairs=lesson.repairs, proof=None)
    said = replace(skill, rule=lesson.rule, instead=lesson.instead, scope=lesson.scope, patterns=lesson.patterns)
    return replace(said, evidence=evidence, distilled=True)


def supported(skill: Skill, task_digest: str, now_us: int, *, provable: bool = False) -> Skill:
    """Return the skill with one more failure of a task; the second distinct task makes a CANDIDATE ACTIVE.

    Args:
        skill: The skill that the failure supports.
        task_digest: The task.
        now_us: Microseconds since the epoch.
        provable: True if the failure alone is not to be believed, so that a skill with a reproducer waits until that is shown to fail.

    """
    evidence = skill.evidence
    digests = tuple(sorted({*evidence.task_digests, task_digest}))
    grown = replace(
        skill, evidence=replace(evidence, task_digests=digests, failure_count=evidence.failure_count + 1), update_time_us=now_us
    )
    shown_to_fail = evidence.proof is not None and evidence.proof.reproducer_failed
    waits = provable and evidence.reproducer is not None and not shown_to_fail
    if skill.state is SkillState.CANDIDATE and len(digests) >= TASKS_THAT_PROVE and not waits:
        return replace(grown, state=SkillState.ACTIVE)
    return grown


def with_proof(skill: Skill, proof: Proof) -> Skill:
    """Return the skill with a proof and the state that follows from it.

    A CANDIDATE whose reproducer fails becomes ACTIVE if a repair compiles or two tasks failed alike; a skill whose reproducer compiles is
    retired.
    """
    shown = replace(skill, evidence=replace(skill.evidence, proof=proof))
    if not proof.reproducer_failed:
        where = " ".join(
            part
            for part in (f"on Triton {proof.triton_version}" if proof.triton_version else "", f"for {proof.target}" if proof.target else "")
            if part
        )
        return replace(shown, state=SkillState.RETIRED, retire_reason=f"its reproducer compiles {where}".rstrip())
    if skill.distilled and proof.repair_index is not None:
        shown = replace(shown, instead=proven_advice(skill.evidence.repairs[proof.repair_index], proof) or skill.instead)
    if skill.state is SkillState.CANDIDATE and not activation_refusal(shown):
        return replace(shown, state=SkillState.ACTIVE)
    return shown


def activation_refusal(skill: Skill) -> str:
    """Return why a skill cannot be ACTIVE yet, in one sentence that says what is missing; empty if it can."""
    evidence, proof = skill.evidence, skill.evidence.proof
    if proof is not None and not proof.reproducer_failed:
        return "its reproducer compiles, so the rule is refuted"
    if len(evidence.task_digests) >= TASKS_THAT_PROVE:
        return ""
    if proof is None:
        return "set evidence.proof, or record failures of a second task"
    if evidence.reproducer is None:
        return "the skill has no reproducer that a proof could speak of"
    if proof.repair_index is None:
        return "its reproducer fails, but no repair of it compiled; record failures of a second task"
    return _contradiction(skill, proof)


def proof_wanted(skill: Skill | None, triton_version: str) -> bool:
    """Return whether a skill is a CANDIDATE whose reproducer has not been tried on this version of Triton."""
    if skill is None or skill.state is not SkillState.CANDIDATE or skill.evidence.reproducer is None:
        return False
    return skill.evidence.proof is None or skill.evidence.proof.triton_version != triton_version


def proven_advice(repair: Snippet, proof: Proof) -> str:
    """Return the sentence that tells a repair that compiled; empty if it is more than one line."""
    source = parse(repair.source)
    lines = list(_assignments(source.tree)) if source else []
    if len(lines) != 1:
        return ""
    imports = [line for line in repair.source.splitlines() if line.startswith("from ")]
    after = f" after `{imports[0]}`" if imports else ""
    where = f" on Triton {proof.triton_version}" if proof.triton_version else ""
    return f"Use `{lines[0]}`{after}; it compiles{where}."[:MAX_RULE_CHARACTERS]


def violations(skill: Skill) -> tuple[FieldViolation, ...]:
    """Return what is wrong with a skill that somebody wrote, field by field."""
    return tuple(FieldViolation(f"skill.{field}", text) for field, text in _problems(skill))


def _problems(skill: Skill) -> Iterator[tuple[str, str]]:
    yield from _text_problems(skill)
    scope = skill.scope
    if not valid_specifier(scope.triton_versions):
        yield "scope.triton_versions", "must be a PEP 440 specifier, for example >=3.0"
    if scope.backend not in ("", "cuda", "hip"):
        yield "scope.backend", "must be cuda, hip or empty"
    if len(scope.architectures) > _MAX_ITEMS or not all(_ARCHITECTURE.fullmatch(item) for item in scope.architectures):
        yield "scope.architectures", "must be at most 20 targets such as sm_90 or gfx942"
    if len(scope.operator_families) > _MAX_ITEMS or not all(item.isidentifier() for item in scope.operator_families):
        yield "scope.operator_families", "must be at most 20 identifiers such as softmax"
    if len(skill.patterns) > _MAX_ITEMS:
        yield "patterns", "must be at most 20"
    for index, pattern in enumerate(skill.patterns):
        if text := problems(pattern):
            yield f"patterns[{index}]", text
    yield from _snippet_problems(skill.evidence)


def _text_problems(skill: Skill) -> Iterator[tuple[str, str]]:
    signature = skill.evidence.signature
    if len(signature) > _MAX_SIGNATURE_CHARACTERS or len(signature.encode()) > _MAX_SIGNATURE_BYTES:
        yield "evidence.signature", "must be at most 1,000 characters and 2,600 bytes"
    for field, text in (("rule", skill.rule), ("instead", skill.instead)):
        if len(text) > MAX_RULE_CHARACTERS or clean(text) != text or "\n" in text or "\t" in text:
            yield field, "must be one line of at most 500 printable characters"
    if not skill.rule.strip():
        yield "rule", "must not be empty"
    elif skill.kind is SkillKind.PITFALL and not skill.rule.startswith(RULE_START):
        yield "rule", 'a PITFALL must begin with "You cannot"'
    banned = _BLANKET.fullmatch(skill.rule)
    if banned and f"triton.language.{banned['name']}" in INDISPENSABLE_NAMES:
        yield "rule", f"tl.{banned['name']} is what every Triton kernel rests on; a rule cannot forbid it"


def _snippet_problems(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if len(evidence.repairs) > _MAX_REPAIRS:
        yield "evidence.repairs", "must be at most 8"
    named = [("evidence.reproducer", evidence.reproducer)] if evidence.reproducer else []
    for field, snippet in (*named, *((f"evidence.repairs[{i}]", repair) for i, repair in enumerate(evidence.repairs))):
        source = parse(snippet.source) if snippet and len(snippet.source) <= _MAX_SNIPPET_CHARACTERS else None
        if snippet is None or source is None:
            yield field, "must be Python source of at most 8,192 characters"
        elif snippet.function_name not in [function.node.name for function in source.functions]:
            yield field, "function_name must name a @triton.jit function of its source"


def _contradiction(skill: Skill, proof: Proof) -> str:
    """A proof speaks for a pattern only if the reproducer matches it and the repair does not."""
    evidence = skill.evidence
    if not skill.patterns or evidence.reproducer is None:
        return ""
    if not _matching(evidence.reproducer, skill):
        return "its reproducer does not break the rule's own patterns, so it proves nothing about them"
    if proof.repair_index is not None and _matching(evidence.repairs[proof.repair_index], skill):
        return "the repair that compiled breaks the rule's own patterns, so they forbid too much"
    return ""


def _matching(snippet: Snippet, skill: Skill) -> bool:
    source = parse(snippet.source)
    return source is not None and bool(matches(source, skill.patterns))


def _assignments(tree: ast.AST) -> Iterator[str]:
    """The right-hand sides that make a snippet's result."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "result":
            yield ast.unparse(node.value)
