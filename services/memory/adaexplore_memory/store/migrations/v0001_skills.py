"""Skills with their evidence, outcomes, and what requests were answered."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the first tables, all but those that a SQLite file has from before there were revisions."""
    old_file = op.get_bind().dialect.name == "sqlite"
    _make_skills(if_not_exists=old_file)
    _make_failures(if_not_exists=old_file)
    _make_outcomes(if_not_exists=old_file)
    op.create_table(
        "idempotency",
        sa.Column("method", sa.String(32), primary_key=True),
        sa.Column("request_id", sa.String(128), primary_key=True),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("skill_name", sa.String(64), nullable=False),
        sa.Column("created", sa.Boolean, nullable=False),
        sa.Column("create_time_us", sa.BigInteger, nullable=False),
        if_not_exists=old_file,
    )


def _make_skills(*, if_not_exists: bool) -> None:
    op.create_table(
        "skills",
        sa.Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("rule_key", sa.String(64), nullable=False, unique=True),
        sa.Column("instead", sa.Text, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("failure_count", sa.BigInteger, nullable=False),
        sa.Column("shown", sa.BigInteger, nullable=False),
        sa.Column("broken", sa.BigInteger, nullable=False),
        sa.Column("avoided", sa.BigInteger, nullable=False),
        sa.Column("create_time_us", sa.BigInteger, nullable=False),
        sa.Column("update_time_us", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("retire_reason", sa.Text, nullable=False),
        sa.Column("distilled", sa.Boolean, nullable=False),
        sqlite_autoincrement=True,
        if_not_exists=if_not_exists,
    )
    op.create_index("ix_skills_state", "skills", ["state"], if_not_exists=if_not_exists)
    groups = sa.text("signature != ''")
    op.create_index(
        "skills_by_signature",
        "skills",
        ["signature"],
        unique=True,
        if_not_exists=if_not_exists,
        sqlite_where=groups,
        postgresql_where=groups,
    )
    op.create_table(
        "skill_tasks",
        _skill_name(primary_key=True),
        sa.Column("task_digest", sa.String(128), primary_key=True),
        if_not_exists=if_not_exists,
    )


def _make_failures(*, if_not_exists: bool) -> None:
    op.create_table(
        "failures",
        sa.Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("failure_id", sa.String(64), nullable=False, unique=True),
        _skill_name(nullable=True),
        sa.Column("task_digest", sa.String(128), nullable=False),
        sa.Column("kernel_digest", sa.String(128), nullable=False),
        sa.Column("cause", sa.String(32), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("exception_type", sa.Text, nullable=False),
        sa.Column("evaluator_signature", sa.Text, nullable=False),
        sa.Column("diagnostic", sa.Text, nullable=False),
        sa.Column("line", _NUMBER, nullable=False),
        sa.Column("kernel_name", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("triton_version", sa.Text, nullable=False),
        sa.Column("create_time_us", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
        if_not_exists=if_not_exists,
    )
    op.create_index("ix_failures_skill_name", "failures", ["skill_name"], if_not_exists=if_not_exists)
    op.create_index("failures_by_candidate", "failures", ["kernel_digest", "task_digest"], if_not_exists=if_not_exists)


def _make_outcomes(*, if_not_exists: bool) -> None:
    op.create_table(
        "outcomes",
        sa.Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("request_id", sa.String(128), nullable=False, unique=True),
        sa.Column("failed", sa.Boolean, nullable=False),
        sa.Column("kernel_digest", sa.String(128), nullable=False),
        sa.Column("task_digest", sa.String(128), nullable=False),
        sa.Column("create_time_us", sa.BigInteger, nullable=False),
        if_not_exists=if_not_exists,
    )
    op.create_index("outcomes_by_candidate", "outcomes", ["kernel_digest", "task_digest"], if_not_exists=if_not_exists)
    outcome = sa.ForeignKey("outcomes.request_id", ondelete="CASCADE")
    op.create_table(
        "outcome_skills",
        sa.Column("request_id", sa.String(128), outcome, primary_key=True),
        _skill_name(primary_key=True),
        sa.Column("respected", sa.Boolean, nullable=False),
        sa.Column("broken", sa.Boolean, nullable=False),
        if_not_exists=if_not_exists,
    )


def _skill_name(*, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    skill = sa.ForeignKey("skills.name", ondelete="CASCADE")
    return sa.Column("skill_name", sa.String(64), skill, primary_key=primary_key, nullable=nullable)
