"""The store over SQLAlchemy: transactions in which skills, failures and outcomes are read and written together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Select, and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from adaexplore.runtime.migrations import prepare
from adaexplore.runtime.sql import insert_or, take_turn, transaction
from adaexplore_memory.domain import Counters, FailureReport, OutcomeReport, Skill, SkillKind, SkillState, Stats
from adaexplore_memory.store.rows import from_row, rule_key, to_row
from adaexplore_memory.store.tables import SCHEMA, failures, idempotency, outcome_skills, outcomes, skill_changes, skill_tasks, skills

_KEPT_FAILURE_IDS = 100
_MAX_PAGE_CHARACTERS = 2_500_000


@dataclass(frozen=True)
class SkillFilter:
    """Which skills to list; None means all."""

    state: SkillState | None = None
    kind: SkillKind | None = None


@dataclass(frozen=True)
class Remembered:
    """What a request with this id was answered.

    Attributes:
        result: The method's own key of the answer.
        skill_name: The skill it spoke of; empty if none.
        created: True if that request created it.

    """

    result: str
    skill_name: str
    created: bool


class Store:
    """Skills and their evidence in one database.

    Args:
        engine: Its engine; the schema exists.

    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction that commits at the end; writers wait for each other, in all processes, and lose nothing.

        Raises:
            UnavailableError: The database is locked, full, damaged or gone (STORE_UNAVAILABLE).
            InvalidArgumentError: It cannot hold a value (REQUEST_INVALID).

        """
        async with transaction(self._engine) as connection:
            # A rule is new or known by what all other rules say: there are no rows that a writer could lock for that.
            await take_turn(connection, "adaexplore memory writes")
            yield Transaction(connection)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """Open a transaction that only reads and sees one instant throughout; errors are those of `transaction`."""
        async with transaction(self._engine, read_only=True) as connection:
            yield Transaction(connection)

    async def close(self) -> None:
        """Release the connections."""
        await self._engine.dispose()


@asynccontextmanager
async def open_store(engine: AsyncEngine) -> AsyncIterator[Store]:
    """Open the store over an engine, which is closed at the end; a local file is created on first use.

    Raises:
        UnavailableError: The database cannot be used; the message says what to do.
        SchemaOutdatedError: A PostgreSQL database has not been migrated; the message names the command.

    """
    store = Store(engine)
    try:
        await prepare(engine, SCHEMA)
        yield store
    finally:
        await store.close()


class Transaction:
    """Reads and writes of one transaction.

    Args:
        connection: An open connection inside a transaction.

    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def find(self, name: str) -> Skill | None:
        """Return the skill with this name."""
        return await self._first(select(skills).where(skills.c.name == name))

    async def find_by_signature(self, signature: str) -> Skill | None:
        """Return the skill that groups failures under this signature; an empty one finds nothing."""
        return await self._first(select(skills).where(skills.c.signature == signature)) if signature else None

    async def find_by_rule(self, rule: str) -> Skill | None:
        """Return the skill with the same rule, whatever its case and spacing."""
        return await self._first(select(skills).where(skills.c.rule_key == rule_key(rule)))

    async def active(self, names: Sequence[str]) -> tuple[Skill, ...]:
        """Return the ACTIVE skills of these names, in the order of the names."""
        # By name alone: with the state in the condition SQLite would look through all ACTIVE ones.
        found = await self._all(select(skills).where(skills.c.name.in_(names)))
        by_name = {skill.name: skill for skill in found if skill.state is SkillState.ACTIVE}
        return tuple(by_name[name] for name in names if name in by_name)

    async def last_change(self) -> int:
        """Return where the last change of a skill stands, 0 if there was none."""
        return await self._number(select(func.coalesce(func.max(skill_changes.c.sequence), 0)))

    async def changes(self, after: int, most: int) -> list[tuple[int, str, Skill | None]]:
        """Return the skills that changed after a point, the earliest first: where each stands, its name, and the skill if it is ACTIVE.

        Tasks and failures are left out of their evidence.
        """
        noted = select(skill_changes).where(skill_changes.c.sequence > after).order_by(skill_changes.c.sequence).limit(most).subquery()
        columns = [column for column in skills.c if column.name not in {"name", "sequence"}]
        query = (
            select(noted.c.sequence, noted.c.name, *columns)
            .select_from(noted.outerjoin(skills, skills.c.name == noted.c.name))
            .order_by(noted.c.sequence)
        )
        rows: Iterable[Mapping[Any, Any]] = (await self._connection.execute(query)).mappings()
        return [(row["sequence"], row["name"], from_row(row, (), ()) if row["state"] == SkillState.ACTIVE else None) for row in rows]

    async def page(self, wanted: SkillFilter, before: int | None, size: int) -> tuple[tuple[Skill, ...], int | None]:
        """Return the newest skills older than `before`, at most `size`, and where the next page starts (None at the end)."""
        query = select(skills).order_by(skills.c.sequence.desc()).limit(size + 1)
        if before is not None:
            query = query.where(skills.c.sequence < before)
        if wanted.state is not None:
            query = query.where(skills.c.state == wanted.state)
        if wanted.kind is not None:
            query = query.where(skills.c.kind == wanted.kind)
        rows = (await self._connection.execute(query)).mappings().all()
        kept = _fitting(rows[:size])
        return await self._skills(rows[:kept]), rows[kept - 1]["sequence"] if len(rows) > kept else None

    async def insert(self, skill: Skill) -> None:
        """Add a skill, with the tasks of its evidence."""
        await self._connection.execute(insert(skills).values(to_row(skill)))
        for digest in skill.evidence.task_digests:
            await self.add_task(skill.name, digest)

    async def update(self, skill: Skill) -> Skill:
        """Write a skill over its older self and return it with its new revision."""
        written = replace(skill, revision=skill.revision + 1)
        await self._connection.execute(update(skills).where(skills.c.name == skill.name).values(to_row(written)))
        return written

    async def delete(self, name: str) -> None:
        """Delete a skill with its tasks, failures and outcomes."""
        await self._connection.execute(delete(skills).where(skills.c.name == name))

    async def add_task(self, name: str, task_digest: str) -> None:
        """Count a task for a skill, once."""
        statement = insert_or(self._connection, skill_tasks).values(skill_name=name, task_digest=task_digest)
        await self._connection.execute(statement.on_conflict_do_nothing())

    async def add_failure(self, failure_id: str, report: FailureReport, diagnostic: str, skill: Skill | None, now_us: int) -> None:
        """Record a failure, for a skill or for none."""
        await self._connection.execute(
            insert(failures).values(
                failure_id=failure_id,
                skill_name=skill.name if skill else None,
                task_digest=report.task_digest,
                kernel_digest=report.kernel_digest,
                cause=report.cause,
                phase=report.phase,
                exception_type=report.exception_type,
                evaluator_signature=report.evaluator_signature,
                diagnostic=diagnostic,
                line=report.line,
                kernel_name=report.kernel_name,
                target=report.target,
                triton_version=report.triton_version,
                create_time_us=now_us,
            )
        )

    async def remembered(self, method: str, request_id: str) -> Remembered | None:
        """Return what a request with this id was answered; an empty id is never remembered."""
        query = select(idempotency).where(idempotency.c.method == method, idempotency.c.request_id == request_id)
        row = (await self._connection.execute(query)).mappings().first() if request_id else None
        return Remembered(row["result"], row["skill_name"], row["created"]) if row else None

    async def remember(self, method: str, request_id: str, answer: Remembered, now_us: int) -> None:
        """Keep what a request was answered; an empty id is passed over."""
        if request_id:
            values = {"result": answer.result, "skill_name": answer.skill_name, "created": answer.created, "create_time_us": now_us}
            await self._connection.execute(insert(idempotency).values(method=method, request_id=request_id, **values))

    async def add_outcome(self, report: OutcomeReport, broken: Sequence[str], known: Sequence[str], now_us: int) -> None:
        """Record an outcome for the skills that are known, `broken` ones among them."""
        await self._connection.execute(
            insert(outcomes).values(
                request_id=report.request_id,
                failed=report.failed,
                kernel_digest=report.kernel_digest,
                task_digest=report.task_digest,
                create_time_us=now_us,
            )
        )
        for name in known:
            values = {"skill_name": name, "respected": name in report.respected, "broken": name in broken}
            await self._connection.execute(insert(outcome_skills).values(request_id=report.request_id, **values))

    async def taught_by(self, kernel_digest: str, task_digest: str) -> frozenset[str]:
        """Return the names of the skills that failures of this candidate taught or support."""
        query = select(failures.c.skill_name).where(
            failures.c.kernel_digest == kernel_digest, failures.c.task_digest == task_digest, failures.c.skill_name.is_not(None)
        )
        return frozenset((await self._connection.execute(query)).scalars()) if kernel_digest else frozenset()

    async def break_outcomes(self, skill_name: str, kernel_digest: str, task_digest: str) -> int:
        """Mark the failed outcomes of a candidate that was shown this skill as broken; return how many were not yet."""
        candidate = select(outcomes.c.request_id).where(
            outcomes.c.kernel_digest == kernel_digest, outcomes.c.task_digest == task_digest, outcomes.c.failed
        )
        shown = and_(outcome_skills.c.skill_name == skill_name, outcome_skills.c.request_id.in_(candidate), ~outcome_skills.c.broken)
        return (await self._connection.execute(update(outcome_skills).where(shown).values(broken=True))).rowcount

    async def stats(self) -> Stats:
        """Count what there is."""
        by_kind = select(skills.c.kind, skills.c.state, func.count()).group_by(skills.c.kind, skills.c.state)
        by_cause = select(failures.c.cause, func.count(), func.count(failures.c.skill_name)).group_by(failures.c.cause)
        sums = select(*(func.coalesce(func.sum(column), 0) for column in (skills.c.shown, skills.c.broken, skills.c.avoided)))
        proven = select(func.count()).where(skills.c.body.like('%"reproducer_failed": true%'))
        run = self._connection.execute
        return Stats(
            {(SkillKind(kind), SkillState(state)): count for kind, state, count in await run(by_kind)},
            {cause: (count, taught) for cause, count, taught in await run(by_cause)},
            await self._number(select(func.count(func.distinct(failures.c.task_digest)))),
            await self._number(proven),
            await self._number(select(func.count()).select_from(outcomes)),
            Counters(*map(int, (await run(sums)).one())),
        )

    async def _number(self, query: Select[Any]) -> int:
        return int((await self._connection.execute(query)).scalar_one())

    async def _first(self, query: Select[Any]) -> Skill | None:
        found = await self._all(query.limit(1))
        return found[0] if found else None

    async def _all(self, query: Select[Any]) -> tuple[Skill, ...]:
        return await self._skills((await self._connection.execute(query)).mappings().all())

    async def _skills(self, rows: Sequence[Mapping[Any, Any]]) -> tuple[Skill, ...]:
        names = [row["name"] for row in rows]
        supported = select(skill_tasks.c.skill_name, skill_tasks.c.task_digest).where(skill_tasks.c.skill_name.in_(names))
        tasks = await self._by_skill(supported)
        rank = func.row_number().over(partition_by=failures.c.skill_name, order_by=failures.c.sequence.desc()).label("rank")
        ranked = select(failures.c.skill_name, failures.c.failure_id, rank).where(failures.c.skill_name.in_(names)).subquery()
        newest = select(ranked.c.skill_name, ranked.c.failure_id).where(ranked.c.rank <= _KEPT_FAILURE_IDS).order_by(ranked.c.rank)
        ids = await self._by_skill(newest)
        return tuple(from_row(row, sorted(tasks[row["name"]]), ids[row["name"]]) for row in rows)

    async def _by_skill(self, query: Select[Any]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, value in await self._connection.execute(query):
            found[name].append(value)
        return found


def _fitting(rows: Sequence[Mapping[Any, Any]]) -> int:
    """How many of the rows make a page that stays well below the 4 MB of one message; at least one if there is one."""
    total = 0
    for index, row in enumerate(rows):
        total += len(row["body"])
        if index and total > _MAX_PAGE_CHARACTERS:
            return index
    return len(rows)
