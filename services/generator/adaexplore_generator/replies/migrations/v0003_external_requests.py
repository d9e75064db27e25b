"""Prompts that somebody outside answers."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of prompts that wait."""
    op.create_table(
        "external_requests",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("create_time", sa.Float, nullable=False),
        sa.Column("seen", sa.Float, nullable=False),
        sa.Column("claims", sa.Integer, nullable=False),
        sa.Column("lease_token", sa.String(32), unique=True),
        sa.Column("lease_expire", sa.Float),
        sa.Column("worker", sa.String(128)),
        sa.Column("reply", sa.Text),
    )
