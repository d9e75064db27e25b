"""Requests and the replies that were paid for them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the first tables, all but those that a SQLite file has from before there were revisions."""
    op.create_table(
        "requests",
        sa.Column("request_id", sa.String(128), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("create_time", sa.String(40), nullable=False),
        if_not_exists=op.get_bind().dialect.name == "sqlite",
    )
    op.create_table(
        "replies",
        sa.Column("request_id", sa.String(128), sa.ForeignKey("requests.request_id"), primary_key=True),
        sa.Column("call", _NUMBER, primary_key=True),
        sa.Column("reply", sa.Text, nullable=False),
        sa.Column("create_time", sa.String(40), nullable=False),
        if_not_exists=op.get_bind().dialect.name == "sqlite",
    )
