import asyncio
import importlib.util
from pathlib import Path

import alembic.command
import pytest
from adaexplore_controller.store import SCHEMA as CONTROLLER
from adaexplore_generator.replies import SCHEMA as GENERATOR
from adaexplore_memory.store import SCHEMA as MEMORY
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, String, Table, inspect, text
from sqlalchemy.exc import IntegrityError

from adaexplore.runtime.errors import UnavailableError
from adaexplore.runtime.migrations import Schema, SchemaOutdatedError, config_of, prepare, revisions, upgrade
from adaexplore.runtime.sql import transaction

SCHEMAS = [GENERATOR, MEMORY, CONTROLLER]
FIRST_TABLE = {"generator": "requests", "memory": MEMORY.metadata.sorted_tables[0].name, "controller": "searches"}
FIRST = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "1", None
def upgrade():
    op.create_table("things", sa.Column("id", sa.Integer, primary_key=True), if_not_exists=op.get_bind().dialect.name == "sqlite")
"""
SECOND = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "2", "1"
def upgrade():
    op.add_column("things", sa.Column("name", sa.String(10), nullable=False, server_default="none"))
"""


def schema_of(folder, *texts):
    """The schema of a version of a service that has these revisions."""
    folder.mkdir()
    for number, source in enumerate(texts):
        (folder / f"v{number}.py").write_text(source)
    metadata = MetaData()
    Table("things", metadata, Column("id", Integer, primary_key=True), Column("name", String(10), nullable=False, server_default="none"))
    return Schema("memory", "things.sqlite3", metadata, folder)


@pytest.fixture
def engine(blank):
    return blank()


@pytest.fixture(autouse=True)
async def closed(engine):
    yield
    await engine.dispose()


async def looked_at(engine, look):
    async with transaction(engine) as connection:
        return await connection.run_sync(look)


def differences(schema):
    def compare(connection):
        context = MigrationContext.configure(connection, opts={"version_table": schema.version_table, "compare_server_default": True})
        return compare_metadata(context, schema.metadata)

    return compare


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.service)
async def test_the_migrations_make_exactly_the_tables_that_the_code_uses(engine, schema):
    before = await upgrade(engine, schema)
    assert before.current is None
    assert await looked_at(engine, differences(schema)) == []
    assert (await revisions(engine, schema)).current == before.head


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.service)
async def test_they_make_the_same_keys_and_indexes_as_the_code_would(engine, schema, blank, tmp_path):
    def constraints(connection):
        found = inspect(connection)
        return {
            table.name: (
                found.get_pk_constraint(table.name)["constrained_columns"],
                sorted(str(sorted(unique["column_names"])) for unique in found.get_unique_constraints(table.name)),
                sorted(str((key["constrained_columns"], key["options"])) for key in found.get_foreign_keys(table.name)),
                sorted(str((index["name"], index["column_names"], index["unique"])) for index in found.get_indexes(table.name)),
            )
            for table in schema.metadata.sorted_tables
        }

    await upgrade(engine, schema)
    migrated = await looked_at(engine, constraints)
    await looked_at(engine, schema.metadata.drop_all)
    await looked_at(engine, schema.metadata.create_all)
    assert migrated == await looked_at(engine, constraints)


async def test_the_three_services_can_share_one_database(engine):
    for schema in SCHEMAS:
        await upgrade(engine, schema)
    for schema in SCHEMAS:
        await prepare(engine, schema)


async def test_several_processes_may_migrate_at_once(engine, blank):
    others = [blank() for _ in range(3)]
    before = await asyncio.gather(*(upgrade(one, CONTROLLER) for one in (engine, *others)))
    assert sorted(found.current is None for found in before) == [False, False, False, True]
    for other in others:
        await other.dispose()


async def test_a_migration_keeps_what_is_stored(engine, tmp_path):
    await upgrade(engine, schema_of(tmp_path / "old", FIRST))
    async with transaction(engine) as connection:
        await connection.execute(text("INSERT INTO things (id) VALUES (7)"))
    new = schema_of(tmp_path / "new", FIRST, SECOND)
    assert (await upgrade(engine, new)).current == "1"
    async with transaction(engine) as connection:
        assert (await connection.execute(text("SELECT id, name FROM things"))).all() == [(7, "none")]
    assert await looked_at(engine, differences(new)) == []


async def test_a_migration_that_fails_leaves_the_database_as_it_was(engine, tmp_path):
    await upgrade(engine, schema_of(tmp_path / "old", FIRST))
    broken = f"{SECOND}    op.execute(\"INSERT INTO things (id, name) VALUES (1, 'a'), (1, 'b')\")\n"
    new = schema_of(tmp_path / "new", FIRST, broken)
    with pytest.raises(IntegrityError):
        await upgrade(engine, new)
    assert (await revisions(engine, new)).current == "1"
    names = await looked_at(engine, lambda connection: [column["name"] for column in inspect(connection).get_columns("things")])
    assert names == ["id"]


async def test_a_database_of_a_newer_version_is_refused(engine, tmp_path):
    await upgrade(engine, schema_of(tmp_path / "new", FIRST, SECOND))
    old = schema_of(tmp_path / "old", FIRST)
    for attempt in (prepare, upgrade):
        with pytest.raises(SchemaOutdatedError, match="revision 2, which this version does not know; run the version that made it"):
            await attempt(engine, old)


@pytest.mark.parametrize("blank", ["postgresql"], indirect=True)
async def test_a_shared_database_that_was_not_migrated_is_refused_with_the_command_to_run(engine, tmp_path):
    old, new = schema_of(tmp_path / "old", FIRST), schema_of(tmp_path / "new", FIRST, SECOND)
    with pytest.raises(SchemaOutdatedError, match="has no tables, and this version needs 1; run: adaexplore db upgrade memory") as caught:
        await prepare(engine, old)
    assert caught.value.reason == "STORE_UNAVAILABLE"
    await upgrade(engine, old)
    await prepare(engine, old)
    with pytest.raises(SchemaOutdatedError, match="is at revision 1, and this version needs 2; run: adaexplore db upgrade memory"):
        await prepare(engine, new)


@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.service)
async def test_a_file_from_before_there_were_revisions_is_opened_and_keeps_what_it_has(engine, schema):
    table = schema.metadata.tables[FIRST_TABLE[schema.service]]
    await looked_at(engine, lambda connection: alembic.command.upgrade(config_of(schema, connection), "0001"))
    await looked_at(engine, lambda connection: connection.execute(text(f"DROP TABLE {schema.version_table}")))
    names = [column.name for column in table.columns if not column.nullable and column.name != "sequence"]
    row = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('1' for _ in names)})"
    async with transaction(engine) as connection:
        await connection.execute(text(row))
    assert (await revisions(engine, schema)).current is None
    await prepare(engine, schema)
    found = await revisions(engine, schema)
    assert found.current == found.head
    assert await looked_at(engine, differences(schema)) == []
    count = text(f"SELECT count(*) FROM {table.name}")
    async with transaction(engine) as connection:
        assert (await connection.execute(count)).scalar_one() == 1


@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
async def test_a_local_file_is_brought_up_to_date_when_it_is_opened(engine, tmp_path):
    await prepare(engine, schema_of(tmp_path / "old", FIRST))
    new = schema_of(tmp_path / "new", FIRST, SECOND)
    await prepare(engine, new)
    assert await looked_at(engine, differences(new)) == []


@pytest.mark.parametrize("blank", ["postgresql"], indirect=True)
async def test_a_table_of_somebody_else_is_not_taken_for_ours(engine):
    async with transaction(engine) as connection:
        await connection.execute(text("CREATE TABLE events (theirs INTEGER)"))
    with pytest.raises(UnavailableError, match=r"already exists; .* a database or a schema of its own"):
        await upgrade(engine, CONTROLLER)
    assert (await revisions(engine, CONTROLLER)).current is None


@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
async def test_the_next_migration_can_be_written_from_the_code(engine, tmp_path):
    script = importlib.util.spec_from_file_location("migration", Path(__file__).parents[3] / "scripts" / "migration.py")
    module = importlib.util.module_from_spec(script)
    script.loader.exec_module(module)
    schema = schema_of(tmp_path / "versions", FIRST)
    written = await module.write(schema, "Name the things")
    assert written.name == "v0002_name_the_things.py"
    await upgrade(engine, schema)
    assert await looked_at(engine, differences(schema)) == []


async def test_a_step_that_was_in_flight_before_several_could_be_is_in_flight_after_it(engine):
    def migrate(connection, revision):
        config = config_of(CONTROLLER)
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, revision)

    await looked_at(engine, lambda connection: migrate(connection, "0002"))
    columns = "number, id, spec, state, progress, wish, create_time, spent_s, last_sequence, version"
    async with transaction(engine) as connection:
        await connection.execute(text(f"INSERT INTO searches ({columns}) VALUES (1, 's', '{{}}', 'RUNNING', '{{}}', 'NONE', 0, 0, 0, 0)"))
        await connection.execute(text("INSERT INTO steps (search_id, step, phase, body) VALUES ('s', 4, 'PLANNED', '{}')"))
    await upgrade(engine, CONTROLLER)
    async with transaction(engine) as connection:
        assert (await connection.execute(text("SELECT search_id, step, phase FROM steps_in_flight"))).all() == [("s", 4, "PLANNED")]
