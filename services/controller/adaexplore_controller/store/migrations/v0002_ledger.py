"""Money that is reserved and spent, by generation, by search and by day."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the ledger and its sums."""
    op.create_table(
        "ledger",
        sa.Column("request_id", sa.String(128), primary_key=True),
        sa.Column("search_id", sa.String(64), sa.ForeignKey("searches.id"), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger),
        sa.Column("unconfirmed", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_ledger_search_id", "ledger", ["search_id"])
    op.create_table(
        "purses",
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("unconfirmed", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
    )
