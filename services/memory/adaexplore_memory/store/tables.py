"""Tables of the store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

from adaexplore.runtime.migrations import Schema

metadata = MetaData()
# SQLite gives numbers of its own to INTEGER keys alone, and its INTEGER has 64 bits anyway.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

skills = Table(
    "skills",
    metadata,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("rule", Text, nullable=False),
    Column("rule_key", String(64), nullable=False, unique=True),
    Column("instead", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("failure_count", BigInteger, nullable=False),
    Column("shown", BigInteger, nullable=False),
    Column("broken", BigInteger, nullable=False),
    Column("avoided", BigInteger, nullable=False),
    Column("create_time_us", BigInteger, nullable=False),
    Column("update_time_us", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("retire_reason", Text, nullable=False),
    Column("distilled", Boolean, nullable=False),
    sqlite_autoincrement=True,  # a deleted skill's number is never given again, so that page tokens keep their meaning
)
_GROUPS = skills.c.signature != ""
Index("skills_by_signature", skills.c.signature, unique=True, sqlite_where=_GROUPS, postgresql_where=_GROUPS)

# Written by triggers, which the migrations make: a process of the version before notes its writes too.
skill_changes = Table(
    "skill_changes",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
)
Index("skill_changes_by_sequence", skill_changes.c.sequence)

skill_tasks = Table(
    "skill_tasks",
    metadata,
    Column("skill_name", ForeignKey("skills.name", ondelete="CASCADE"), primary_key=True),
    Column("task_digest", String(128), primary_key=True),
)

failures = Table(
    "failures",
    metadata,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
    Column("failure_id", String(64), nullable=False, unique=True),
    Column("skill_name", ForeignKey("skills.name", ondelete="CASCADE"), nullable=True, index=True),
    Column("task_digest", String(128), nullable=False),
    Column("kernel_digest", String(128), nullable=False),
    Column("cause", String(32), nullable=False),
    Column("phase", String(32), nullable=False),
    Column("exception_type", Text, nullable=False),
    Column("evaluator_signature", Text, nullable=False),
    Column("diagnostic", Text, nullable=False),
    Column("line", _NUMBER, nullable=False),
    Column("kernel_name", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("triton_version", Text, nullable=False),
    Column("create_time_us", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
Index("failures_by_candidate", failures.c.kernel_digest, failures.c.task_digest)

outcomes = Table(
    "outcomes",
    metadata,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
    Column("request_id", String(128), nullable=False, unique=True),
    Column("failed", Boolean, nullable=False),
    Column("kernel_digest", String(128), nullable=False),
    Column("task_digest", String(128), nullable=False),
    Column("create_time_us", BigInteger, nullable=False),
)
Index("outcomes_by_candidate", outcomes.c.kernel_digest, outcomes.c.task_digest)

outcome_skills = Table(
    "outcome_skills",
    metadata,
    Column("request_id", ForeignKey("outcomes.request_id", ondelete="CASCADE"), primary_key=True),
    Column("skill_name", ForeignKey("skills.name", ondelete="CASCADE"), primary_key=True),
    Column("respected", Boolean, nullable=False),
    Column("broken", Boolean, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("method", String(32), primary_key=True),
    Column("request_id", String(128), primary_key=True),
    Column("result", Text, nullable=False),
    Column("skill_name", String(64), nullable=False),
    Column("created", Boolean, nullable=False),
    Column("create_time_us", BigInteger, nullable=False),
)

SCHEMA = Schema("memory", "memory.sqlite3", metadata, Path(__file__).parent / "migrations")
