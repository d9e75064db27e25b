"""Which skills changed, in the order of the writes, so that a process reads again only those."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NEXT = "(SELECT COALESCE(MAX(sequence), 0) + 1 FROM skill_changes)"


def upgrade() -> None:
    """Note every skill that exists, and let the database note every later write, by whichever version of the service."""
    op.create_table(
        "skill_changes", sa.Column("name", sa.String(64), primary_key=True), sa.Column("sequence", sa.BigInteger, nullable=False)
    )
    op.create_index("skill_changes_by_sequence", "skill_changes", ["sequence"])
    op.execute("INSERT INTO skill_changes (name, sequence) SELECT name, sequence FROM skills")
    if op.get_bind().dialect.name == "sqlite":
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            noted = f"INSERT OR REPLACE INTO skill_changes (name, sequence) VALUES ({row}.name, {_NEXT})"  # noqa: S608 - constants
            op.execute(f"CREATE TRIGGER skills_note_{event.lower()} AFTER {event} ON skills BEGIN {noted}; END")
        return
    noted = f"INSERT INTO skill_changes (name, sequence) VALUES (CASE TG_OP WHEN 'DELETE' THEN OLD.name ELSE NEW.name END, {_NEXT})"  # noqa: S608 - constants
    op.execute(
        "CREATE FUNCTION skills_note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"{noted} ON CONFLICT (name) DO UPDATE SET sequence = EXCLUDED.sequence; RETURN NULL; END $$"
    )
    op.execute(
        "CREATE TRIGGER skills_note_change AFTER INSERT OR UPDATE OR DELETE ON skills FOR EACH ROW EXECUTE FUNCTION skills_note_change()"
    )
