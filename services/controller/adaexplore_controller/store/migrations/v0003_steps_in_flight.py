"""Several steps of a search in flight, where there was one."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of steps in flight, and move what was in flight there."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "steps_in_flight",
        sa.Column("search_id", sa.String(64), sa.ForeignKey("searches.id"), primary_key=True),
        sa.Column("step", number, primary_key=True),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO steps_in_flight (search_id, step, phase, body) SELECT search_id, step, phase, body FROM steps")
    op.drop_table("steps")
