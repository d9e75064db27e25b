"""The memory itself: what each call does, between the servicer and the store."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from adaexplore.runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
)
from adaexplore_memory.check import check, lines_of
from adaexplore_memory.distill import distill
from adaexplore_memory.domain import (
    Counters,
    Environment,
    FailureReport,
    Imported,
    ImportOutcome,
    Lesson,
    OutcomeReport,
    RecordedFailure,
    Selected,
    Skill,
    SkillState,
    Stats,
    Violation,
)
from adaexplore_memory.index import LiveIndex, explained
from adaexplore_memory.intake import diagnostic, failure_id, refusal
from adaexplore_memory.lifecycle import (
    activation_refusal,
    from_lesson,
    imported,
    proof_wanted,
    reworded,
    supported,
    violations,
    with_proof,
    written,
)
from adaexplore_memory.select import Query
from adaexplore_memory.store import Remembered, SkillFilter, Store, Transaction

UPDATABLE = ("state", "rule", "instead", "scope", "patterns", "retire_reason", "evidence.proof")
DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1_000
MAX_IMPORTED = 500
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class SkillPage:
    """One page of skills, the newest first, and the token of the next (empty at the end)."""

    skills: tuple[Skill, ...]
    next_token: str


class Memory:
    """Skills, failures and outcomes over one store.

    Args:
        store: Where they are kept.
        now_us: Gives the time in microseconds since the epoch.

    """

    def __init__(self, store: Store, now_us: Callable[[], int]) -> None:
        self._store = store
        self._now_us = now_us
        self._index = LiveIndex()
        # One thread: reading a large source takes seconds that the event loop does not have, and the parser's warning filter is global.
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-source")

    def close(self) -> None:
        """Stop the thread that reads sources."""
        self._reader.shutdown(cancel_futures=True)

    async def create(self, draft: Skill, request_id: str) -> Skill:
        """Add a skill that somebody wrote, as a CANDIDATE.

        Raises:
            InvalidArgumentError: A field is wrong (REQUEST_INVALID).
            AlreadyExistsError: Its rule or signature is known (SKILL_EXISTS).

        """
        _refuse_invalid(violations(draft))
        now_us = self._now_us()
        skill = written(draft, now_us)
        async with self._store.transaction() as tx:
            if (answered := await tx.remembered("CreateSkill", request_id)) is not None:
                return await _existing(tx, answered.skill_name)
            known = await tx.find_by_signature(skill.evidence.signature) or await tx.find_by_rule(skill.rule)
            _refuse_known(known or await tx.find(skill.name))
            await tx.insert(skill)
            await tx.remember("CreateSkill", request_id, Remembered("", skill.name, created=True), now_us)
        return skill

    async def import_skills(self, drafts: Sequence[Skill]) -> tuple[Imported, ...]:
        """Add skills that another memory exported, each as a CANDIDATE; one that is known or wrong hinders no other.

        Raises:
            InvalidArgumentError: There are more than 500 (REQUEST_INVALID).

        """
        if len(drafts) > MAX_IMPORTED:
            _refuse_invalid([FieldViolation("skills", f"must be at most {MAX_IMPORTED}; send more calls")])
        wrong = await self._read(lambda: [violations(draft) for draft in drafts])
        now_us = self._now_us()
        results: list[Imported] = []
        async with self._store.transaction() as tx:
            for draft, found in zip(drafts, wrong, strict=True):
                results.append(
                    await _import(tx, imported(draft, now_us)) if not found else Imported(ImportOutcome.REFUSED, "", _said(found))
                )
        return tuple(results)

    async def stats(self) -> Stats:
        """Count what the memory holds."""
        async with self._store.reading() as tx:
            return await tx.stats()

    async def get(self, name: str) -> Skill:
        """Return one skill.

        Raises:
            NotFoundError: There is none of this name (SKILL_NOT_FOUND).

        """
        async with self._store.reading() as tx:
            return await _existing(tx, name)

    async def list(self, wanted: SkillFilter, page_size: int, page_token: str) -> SkillPage:
        """Return one page of skills.

        Raises:
            InvalidArgumentError: The size or the token is wrong (REQUEST_INVALID).

        """
        if not 0 <= page_size <= MAX_PAGE_SIZE:
            _refuse_invalid([FieldViolation("page_size", "must be from 0 to 1,000")])
        tag = f"{wanted.state or ''}/{wanted.kind or ''}"
        before = _read_token(page_token, tag)
        async with self._store.reading() as tx:
            skills, following = await tx.page(wanted, before, page_size or DEFAULT_PAGE_SIZE)
        return SkillPage(skills, _write_token(following, tag) if following is not None else "")

    async def update(self, changed: Skill, paths: Sequence[str], etag: str) -> Skill:
        """Change the fields that the paths name.

        A proof moves the state unless `state` is among the paths: it makes a CANDIDATE ACTIVE, and a refuted skill RETIRED.

        Raises:
            NotFoundError: There is none of this name (SKILL_NOT_FOUND).
            AbortedError: It changed since it was read (ETAG_MISMATCH).
            InvalidArgumentError: A field or a path is wrong (REQUEST_INVALID).
            FailedPreconditionError: ACTIVE without proof or a second task (PROOF_REQUIRED).
            AlreadyExistsError: Another skill has the new rule (SKILL_EXISTS).

        """
        _refuse_invalid(_path_violations(paths))
        async with self._store.transaction() as tx:
            before = await _existing(tx, changed.name)
            _refuse_stale(before, etag)
            after = _apply(before, changed, frozenset(paths))
            _refuse_invalid(violations(after))
            if after.state is SkillState.ACTIVE and (before.state is not SkillState.ACTIVE or "state" in paths):
                _refuse_unproven(after)
            other = await tx.find_by_rule(after.rule)
            _refuse_known(other if other is not None and other.name != after.name else None)
            return await tx.update(replace(after, update_time_us=self._now_us()))

    async def delete(self, name: str, etag: str) -> None:
        """Delete a skill and its evidence.

        Raises:
            NotFoundError: There is none of this name (SKILL_NOT_FOUND).
            AbortedError: It changed since it was read (ETAG_MISMATCH).

        """
        async with self._store.transaction() as tx:
            _refuse_stale(await _existing(tx, name), etag)
            await tx.delete(name)

    async def warm(self) -> None:
        """Read what choosing among skills needs, so that the first call need not wait for it."""
        async with self._store.reading() as tx:
            await self._index.current(tx)

    async def select(self, query: Query) -> tuple[Selected, ...]:
        """Return the ACTIVE skills that a generation should be shown, the most relevant first."""
        async with self._store.reading() as tx:
            chosen = await self._index.skills(tx, (await self._index.current(tx)).chosen(query))
        return explained(chosen, query)

    async def check(self, source: str, environment: Environment) -> tuple[Violation, ...]:
        """Return where a source surely breaks ACTIVE rules."""
        found = await self._read(lambda: lines_of(source))
        if found is None:
            return ()
        async with self._store.reading() as tx:
            names = (await self._index.current(tx)).breaking(found.lines, environment)
            skills = await self._index.skills(tx, names)
        return check(found, skills, environment)

    async def record_failure(self, report: FailureReport) -> RecordedFailure:
        """Record a failure and what it teaches, once for each request id.

        Raises:
            InvalidArgumentError: It is no failure of the candidate's own code (NOT_A_LESSON).

        """
        if reason := refusal(report):
            raise InvalidArgumentError(f"not a lesson: {reason}", reason="NOT_A_LESSON")
        lesson = await self._read(lambda: distill(report))
        now_us = self._now_us()
        async with self._store.transaction() as tx:
            answered = await tx.remembered("RecordFailure", report.request_id)
            if answered is not None:
                skill = await tx.find(answered.skill_name)
                return RecordedFailure(answered.result, skill, answered.created, proof_wanted(skill, report.triton_version))
            skill, created = await _learn(tx, report, lesson, now_us)
            identifier = failure_id(report.request_id)
            await tx.add_failure(identifier, report, diagnostic(report), skill, now_us)
            if skill is not None:
                skill = await _count_broken(tx, skill, report)
                skill = await _existing(tx, skill.name)
            name = skill.name if skill else ""
            await tx.remember("RecordFailure", report.request_id, Remembered(identifier, name, created), now_us)
        return RecordedFailure(identifier, skill, created, proof_wanted(skill, report.triton_version))

    async def record_outcome(self, report: OutcomeReport) -> None:
        """Count what came of a generation that was shown skills, once for each request id; unknown skills are passed over."""
        now_us = self._now_us()
        async with self._store.transaction() as tx:
            if await tx.remembered("RecordOutcome", report.request_id) is not None:
                return
            skills = [skill for name in dict.fromkeys(report.shown) if (skill := await tx.find(name)) is not None]
            taught = await tx.taught_by(report.kernel_digest, report.task_digest) if report.failed else frozenset()
            broken = [skill.name for skill in skills if skill.name in taught]
            await tx.add_outcome(report, broken, [skill.name for skill in skills], now_us)
            for skill in skills:
                old = skill.counters
                new = Counters(old.shown + 1, old.broken + (skill.name in broken), old.avoided + (skill.name in report.respected))
                await tx.update(replace(skill, counters=new, update_time_us=now_us))
            await tx.remember("RecordOutcome", report.request_id, Remembered("", "", created=False), now_us)

    async def _read(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)


async def _learn(tx: Transaction, report: FailureReport, lesson: Lesson | None, now_us: int) -> tuple[Skill | None, bool]:
    """The skill that a failure taught or supports, written, and whether it is new."""
    if lesson is not None:
        found = await tx.find_by_signature(lesson.signature) or await tx.find_by_rule(lesson.rule)
    else:
        found = await tx.find_by_signature(report.evaluator_signature)
    if found is None:
        return await _teach(tx, report, lesson, now_us)
    await tx.add_task(found.name, report.task_digest)
    if lesson is not None and not found.distilled and found.state is SkillState.CANDIDATE:
        found = reworded(found, lesson)
    # A candidate chooses the text of its exceptions, and somebody else that of a written rule: a proof decides where there can be one.
    grown = supported(found, report.task_digest, now_us, provable=report.cause == "RUNTIME" or not found.distilled)
    return await tx.update(grown), False


async def _teach(tx: Transaction, report: FailureReport, lesson: Lesson | None, now_us: int) -> tuple[Skill | None, bool]:
    if lesson is None:
        return None, False
    skill = from_lesson(lesson, report.task_digest, now_us)
    await tx.insert(skill)
    return skill, True


async def _count_broken(tx: Transaction, skill: Skill, report: FailureReport) -> Skill:
    """An outcome may be recorded before its failure; then the failure says that the skill was broken."""
    more = await tx.break_outcomes(skill.name, report.kernel_digest, report.task_digest)
    if not more:
        return skill
    return await tx.update(replace(skill, counters=replace(skill.counters, broken=skill.counters.broken + more)))


async def _import(tx: Transaction, skill: Skill) -> Imported:
    known = await tx.find_by_signature(skill.evidence.signature) or await tx.find_by_rule(skill.rule) or await tx.find(skill.name)
    if known is not None:
        return Imported(ImportOutcome.KNOWN, known.name)
    await tx.insert(skill)
    return Imported(ImportOutcome.IMPORTED, skill.name)


async def _existing(tx: Transaction, name: str) -> Skill:
    skill = await tx.find(name)
    if skill is None:
        raise NotFoundError(f"no skill is named {name!r}; ListSkills names them", reason="SKILL_NOT_FOUND", resource=name)
    return skill


def _apply(before: Skill, changed: Skill, paths: frozenset[str]) -> Skill:
    fields = {path: getattr(changed, path) for path in paths if path not in {"state", "evidence.proof"}}
    after = replace(before, **fields)
    if "evidence.proof" in paths:
        proof = changed.evidence.proof
        if proof is not None and proof.repair_index is not None and not 0 <= proof.repair_index < len(before.evidence.repairs):
            _refuse_invalid([FieldViolation("skill.evidence.proof.repair_index", "must index one of the skill's repairs")])
        after = with_proof(after, proof) if proof is not None else replace(after, evidence=replace(after.evidence, proof=None))
        if "retire_reason" in paths and changed.retire_reason:
            after = replace(after, retire_reason=changed.retire_reason)
    if "state" in paths:
        after = replace(after, state=changed.state)
    if after.state is SkillState.RETIRED:
        return after if after.retire_reason else replace(after, retire_reason="retired by hand")
    return replace(after, retire_reason="")


def _path_violations(paths: Sequence[str]) -> list[FieldViolation]:
    if not paths:
        return [FieldViolation("update_mask", f"must name fields of {', '.join(UPDATABLE)}")]
    return [
        FieldViolation("update_mask", f"{path} cannot be updated; {', '.join(UPDATABLE)} can") for path in paths if path not in UPDATABLE
    ]


def _refuse_invalid(found: Sequence[FieldViolation]) -> None:
    if found:
        raise InvalidArgumentError(_said(found), reason="REQUEST_INVALID", violations=found)


def _said(found: Sequence[FieldViolation]) -> str:
    return "; ".join(f"{v.field}: {v.description}" for v in found)


def _refuse_known(known: Skill | None) -> None:
    if known is not None:
        raise AlreadyExistsError(f"{known.name} says so already", reason="SKILL_EXISTS", resource=known.name)


def _refuse_stale(skill: Skill, etag: str) -> None:
    if etag and etag != skill.etag:
        raise AbortedError(f"{skill.name} changed since it was read; read it again", reason="ETAG_MISMATCH", resource=skill.name)


def _refuse_unproven(skill: Skill) -> None:
    if missing := activation_refusal(skill):
        raise FailedPreconditionError(f"{skill.name} cannot become ACTIVE: {missing}", reason="PROOF_REQUIRED", resource=skill.name)


def _write_token(before: int, tag: str) -> str:
    return base64.urlsafe_b64encode(f"{before}:{tag}".encode()).decode()


def _read_token(token: str, tag: str) -> int | None:
    if not token:
        return None
    try:
        number, _, given = base64.urlsafe_b64decode(token.encode()).decode().partition(":")
        before = int(number)
    except (binascii.Error, ValueError):
        before, given = 0, ""
    if not 0 < before < 1 << 63 or given != tag:
        _refuse_invalid([FieldViolation("page_token", "must come from a ListSkills call with the same filters")])
    return before
