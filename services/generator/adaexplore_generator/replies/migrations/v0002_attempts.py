"""Calls that were begun and whose usage has not arrived."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of attempts."""
    op.create_table(
        "attempts",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("request_id", sa.String(128), sa.ForeignKey("requests.request_id"), nullable=False),
        sa.Column("usage", sa.Text, nullable=False),
        sa.Column("create_time", sa.String(40), nullable=False),
    )
    op.create_index("ix_attempts_request_id", "attempts", ["request_id"])
