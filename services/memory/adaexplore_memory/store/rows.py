"""Skills to rows and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from adaexplore_memory.domain import Counters, Evidence, Pattern, Proof, Scope, Skill, SkillKind, SkillState, Snippet


def rule_key(rule: str) -> str:
    """Return the digest of a rule that ignores case, spacing and the final stop; equal for the same rule."""
    return hashlib.sha256(" ".join(rule.casefold().split()).rstrip(".").encode()).hexdigest()


def to_row(skill: Skill) -> dict[str, Any]:
    """Return the columns of a skill; tasks and failures have tables of their own."""
    evidence = skill.evidence
    body = {
        "scope": asdict(skill.scope),
        "patterns": [asdict(pattern) for pattern in skill.patterns],
        "reproducer": asdict(evidence.reproducer) if evidence.reproducer else None,
        "repairs": [asdict(repair) for repair in evidence.repairs],
        "proof": asdict(evidence.proof) if evidence.proof else None,
    }
    return {
        "name": skill.name,
        "kind": str(skill.kind),
        "state": str(skill.state),
        "rule": skill.rule,
        "rule_key": rule_key(skill.rule),
        "instead": skill.instead,
        "signature": evidence.signature,
        "body": json.dumps(body),
        "failure_count": evidence.failure_count,
        "shown": skill.counters.shown,
        "broken": skill.counters.broken,
        "avoided": skill.counters.avoided,
        "create_time_us": skill.create_time_us,
        "update_time_us": skill.update_time_us,
        "revision": skill.revision,
        "retire_reason": skill.retire_reason,
        "distilled": skill.distilled,
    }


def from_row(row: Mapping[Any, Any], task_digests: Sequence[str], failure_ids: Sequence[str]) -> Skill:
    """Return the skill that a row and its evidence describe."""
    body = json.loads(row["body"])
    evidence = Evidence(
        task_digests=tuple(task_digests),
        failure_ids=tuple(failure_ids),
        failure_count=row["failure_count"],
        signature=row["signature"],
        reproducer=Snippet(**body["reproducer"]) if body["reproducer"] else None,
        repairs=tuple(Snippet(**repair) for repair in body["repairs"]),
        proof=Proof(**body["proof"]) if body["proof"] else None,
    )
    scope = body["scope"]
    return Skill(
        name=row["name"],
        kind=SkillKind(row["kind"]),
        state=SkillState(row["state"]),
        rule=row["rule"],
        instead=row["instead"],
        scope=Scope(scope["triton_versions"], scope["backend"], tuple(scope["architectures"]), tuple(scope["operator_families"])),
        evidence=evidence,
        patterns=tuple(Pattern(**pattern) for pattern in body["patterns"]),
        counters=Counters(row["shown"], row["broken"], row["avoided"]),
        create_time_us=row["create_time_us"],
        update_time_us=row["update_time_us"],
        revision=row["revision"],
        retire_reason=row["retire_reason"],
        distilled=row["distilled"],
    )
