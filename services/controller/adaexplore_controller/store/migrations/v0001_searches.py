"""Searches with their nodes, steps in flight, events and leases."""

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
    op.create_table(
        "searches",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("request_id", sa.String(128), unique=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("facts", sa.Text),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("wish", sa.String(16), nullable=False),
        sa.Column("create_time", sa.Float, nullable=False),
        sa.Column("spent_s", sa.Float, nullable=False),
        sa.Column("last_sequence", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        if_not_exists=old_file,
    )
    op.create_index("ix_searches_state", "searches", ["state"], if_not_exists=old_file)
    op.create_table(
        "nodes",
        _of_search(),
        sa.Column("step", _NUMBER, primary_key=True),
        sa.Column("parent_step", _NUMBER, nullable=False),
        sa.Column("visits", _NUMBER, nullable=False),
        sa.Column("reward_sum", sa.Float, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        if_not_exists=old_file,
    )
    _make_what_follows_a_search(if_not_exists=old_file)


def _make_what_follows_a_search(*, if_not_exists: bool) -> None:
    op.create_table(
        "steps",
        _of_search(),
        sa.Column("step", _NUMBER, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        if_not_exists=if_not_exists,
    )
    op.create_table(
        "events",
        _of_search(),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Float, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        if_not_exists=if_not_exists,
    )
    op.create_table(
        "leases",
        _of_search(),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("host", sa.String(128), nullable=False),
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("expire_time", sa.Float, nullable=False),
        if_not_exists=if_not_exists,
    )


def _of_search() -> sa.Column[str]:
    return sa.Column("search_id", sa.String(64), sa.ForeignKey("searches.id"), primary_key=True)
