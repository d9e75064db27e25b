"""`adaexplore rules verify`: compiles the reproducers of rules anew and tells the memory what was shown."""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from adaexplore.cli.failures import CliError
from adaexplore.client.evaluator import AsyncEvaluatorClient
from adaexplore.client.memory import AsyncMemoryClient
from adaexplore.evaluator.v1 import evaluator_pb2
from adaexplore.memory.v1 import memory_pb2
from adaexplore.runtime.errors import AbortedError
from adaexplore.types.v1 import evaluation_pb2, skill_pb2

_COMPILE_LIMIT_S = 600
_AT_ONCE = 4
_MOST_CONFLICTS = 5
_SHOWING = {evaluation_pb2.CAUSE_COMPILE, evaluation_pb2.CAUSE_LAUNCH}


class Shown(enum.StrEnum):
    """What compiling a rule's reproducer and repairs for one target showed.

    REPAIRED: the reproducer fails and a repair compiles. HOLDS: it fails and no repair compiles. REFUTED: it compiles. UNCLEAR: it fails
    for another reason than a compiler's refusal. OUT_OF_SCOPE: the rule does not speak of this version or target.
    """

    REPAIRED = "REPAIRED"
    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    UNCLEAR = "UNCLEAR"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"


@dataclass(frozen=True)
class Row:
    """What one rule showed for one version of Triton and one target.

    Attributes:
        name: Resource name of the rule.
        rule: Its sentence.
        triton: Version of Triton.
        target: For example `sm_90`.
        shown: What was shown.
        repair_index: First repair that compiled, if any.
        state: State of the rule afterwards.

    """

    name: str
    rule: str
    triton: str
    target: str
    shown: Shown
    repair_index: int | None = None
    state: str = ""


async def verify(
    memory: AsyncMemoryClient, evaluator: AsyncEvaluatorClient, skills: Sequence[skill_pb2.Skill], targets: Sequence[str], *, dry: bool
) -> list[Row]:
    """Try rules that have a reproducer for each target and send the memory the proofs.

    A rule whose reproducer compiles for every target that it speaks of is retired by its proof; one that is refuted for some targets alone
    keeps its state.

    Raises:
        ServiceError: The evaluator or the memory cannot answer.

    """
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(skill: skill_pb2.Skill) -> list[Row]:
        async with free:
            rows = [await _tried(evaluator, skill, target) for target in targets]
        proof = _proof(rows)
        state = skill.state if proof is None or dry else (await _store(memory, skill, proof)).state
        return [Row(**asdict(row) | {"state": skill_pb2.SkillState.Name(state).removeprefix("SKILL_STATE_")}) for row in rows]

    found = await asyncio.gather(*(one(skill) for skill in skills if skill.evidence.HasField("reproducer")))
    return [row for rows in found for row in rows]


def remembered(file: Path | None, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a file with new ones in place of older ones of the same rule, version and target, and write them there.

    Raises:
        CliError: The file is not one that this command wrote.

    """
    merged = {(row.name, row.triton, row.target): row for row in [*_read(file), *rows]}
    if file is not None:
        file.write_text("".join(f"{json.dumps(asdict(row), ensure_ascii=False)}\n" for row in merged.values()), encoding="utf-8")
    return list(merged.values())


def markdown(rows: Iterable[Row]) -> str:
    """Return the table of rules by version and target."""
    cells = {(row.name, row.triton, row.target): row.shown.lower().replace("_", " ") for row in rows}
    columns = sorted(
        {key[1:] for key in cells}, key=lambda column: ([int(part) for part in column[0].split(".") if part.isdecimal()], column[1])
    )
    names = {row.name: row.rule.replace("|", "\\|") for row in rows}
    head = ["rule", *(f"{triton}, {target}" for triton, target in columns)]
    lines = [[rule, *(cells.get((name, *column), "–") for column in columns)] for name, rule in names.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


async def _tried(evaluator: AsyncEvaluatorClient, skill: skill_pb2.Skill, target: str) -> Row:
    evidence = skill.evidence
    answer = await _compile(evaluator, evidence.reproducer, target)
    triton, real = answer.platform.triton_version, answer.platform.target or target
    if not _in_scope(skill.scope, triton, real):
        return Row(skill.name, skill.rule, triton, real, Shown.OUT_OF_SCOPE)
    if answer.compiled:
        return Row(skill.name, skill.rule, triton, real, Shown.REFUTED)
    if answer.cause not in _SHOWING:
        return Row(skill.name, skill.rule, triton, real, Shown.UNCLEAR)
    for index, repair in enumerate(evidence.repairs):
        if (await _compile(evaluator, repair, target)).compiled:
            return Row(skill.name, skill.rule, triton, real, Shown.REPAIRED, index)
    return Row(skill.name, skill.rule, triton, real, Shown.HOLDS)


async def _compile(evaluator: AsyncEvaluatorClient, snippet: skill_pb2.KernelSnippet, target: str) -> evaluator_pb2.CompileKernelResponse:
    return await evaluator.compile_kernel(evaluator_pb2.CompileKernelRequest(snippet=snippet, target=target), timeout_s=_COMPILE_LIMIT_S)


def _in_scope(scope: skill_pb2.SkillScope, triton: str, target: str) -> bool:
    backend = "hip" if target.startswith("gfx") else "cuda"
    try:
        versions = SpecifierSet(scope.triton_versions)
    except InvalidSpecifier:
        return False
    there = scope.backend in ("", backend) and (not scope.architectures or target in scope.architectures)
    return there and (not scope.triton_versions or versions.contains(triton, prereleases=True))


def _proof(rows: Sequence[Row]) -> skill_pb2.SkillProof | None:
    tried = [row for row in rows if row.shown is not Shown.OUT_OF_SCOPE]
    failing = [row for row in tried if row.shown in (Shown.REPAIRED, Shown.HOLDS)]
    best = next((row for row in failing if row.shown is Shown.REPAIRED), failing[0] if failing else None)
    if best is None:
        if not tried or any(row.shown is not Shown.REFUTED for row in tried):
            return None
        best = tried[0]
    proof = skill_pb2.SkillProof(
        reproducer_failed=best.shown is not Shown.REFUTED, repair_index=best.repair_index, triton_version=best.triton, target=best.target
    )
    proof.prove_time.GetCurrentTime()
    return proof


async def _store(memory: AsyncMemoryClient, skill: skill_pb2.Skill, proof: skill_pb2.SkillProof) -> skill_pb2.Skill:
    for _ in range(_MOST_CONFLICTS):
        try:
            return await _update(memory, skill, proof)
        except AbortedError:  # counters changed meanwhile; the reproducer that was tried never does
            skill = (await memory.get_skill(memory_pb2.GetSkillRequest(name=skill.name), timeout_s=30)).skill
    return await _update(memory, skill, proof)


async def _update(memory: AsyncMemoryClient, skill: skill_pb2.Skill, proof: skill_pb2.SkillProof) -> skill_pb2.Skill:
    request = memory_pb2.UpdateSkillRequest(skill=skill_pb2.Skill(name=skill.name, etag=skill.etag))
    request.skill.evidence.proof.CopyFrom(proof)
    request.update_mask.paths.append("evidence.proof")
    return (await memory.update_skill(request, timeout_s=30)).skill


def _read(file: Path | None) -> list[Row]:
    if file is None or not file.exists():
        return []
    try:
        found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [Row(**row | {"shown": Shown(row["shown"])}) for row in found]
    except (OSError, ValueError, TypeError, KeyError):
        raise CliError(f"{file} is no file of results that `rules verify` wrote; name another one") from None
