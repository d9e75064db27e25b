"""Schemas of stores and the migrations that make them, by alembic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import alembic.command
import alembic.config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.errors import FailedPreconditionError
from adaexplore.runtime.sql import place_of, take_turn, transaction

_ENVIRONMENT = Path(__file__).parent / "alembic"


@dataclass(frozen=True)
class Schema:
    """The tables of one service.

    Attributes:
        service: Short name of the service.
        file_name: Name of the SQLite file in the state folder.
        metadata: The tables as they are now.
        migrations: Folder of the revisions that lead there, inside the service's package.

    """

    service: str
    file_name: str
    metadata: MetaData
    migrations: Path

    @property
    def version_table(self) -> str:
        """Table that holds the revision; services may share one database."""
        return f"{self.service}_alembic_version"


@dataclass(frozen=True)
class Revisions:
    """Which revision a database has, None for one without tables, and which one this version of the service needs."""

    current: str | None
    head: str


class SchemaOutdatedError(FailedPreconditionError):
    """A database does not have the tables that this version of a service needs; the message names the command to run."""


async def prepare(engine: AsyncEngine, schema: Schema) -> None:
    """Make sure that a service can work: a local file is brought up to date, a PostgreSQL database must be.

    A database that several processes share is migrated once, by whoever rolls a new version out.

    Raises:
        SchemaOutdatedError: The database is older than this version, or newer (STORE_UNAVAILABLE).
        UnavailableError: The database cannot be used (STORE_UNAVAILABLE).

    """
    if engine.dialect.name == "sqlite":
        await upgrade(engine, schema)
        return
    found = await revisions(engine, schema)
    if found.current != found.head:
        raise _outdated(engine, schema, found)


async def revisions(engine: AsyncEngine, schema: Schema) -> Revisions:
    """Return which revision a database has and which it needs; UnavailableError (STORE_UNAVAILABLE) if it cannot be used."""
    async with transaction(engine, read_only=True) as connection:
        return await connection.run_sync(lambda link: _revisions(link, schema))


async def upgrade(engine: AsyncEngine, schema: Schema) -> Revisions:
    """Run the migrations that are missing, in one transaction, and return the revisions as they were before.

    Several processes may call it at once; each process for one database at a time, since alembic has one global context.

    Raises:
        SchemaOutdatedError: The database is newer than this version knows (STORE_UNAVAILABLE).
        UnavailableError: The database cannot be used (STORE_UNAVAILABLE).

    """
    async with transaction(engine) as connection:
        await take_turn(connection, schema.version_table)
        found = await connection.run_sync(lambda link: _revisions(link, schema))
        if found.current == found.head:
            return found
        if found.current is not None and not _is_known(schema, found.current):
            raise _outdated(engine, schema, found)
        await connection.run_sync(lambda link: alembic.command.upgrade(config_of(schema, link), "head"))
    return found


def head_of(schema: Schema) -> str:
    """Return the newest revision, which this version of the service needs."""
    return str(_scripts(schema).get_current_head())


def config_of(schema: Schema, connection: Connection | None = None) -> alembic.config.Config:
    """Return alembic's configuration for a schema, over a connection that is inside a transaction."""
    config = alembic.config.Config(attributes={"schema": schema, "connection": connection})
    for name, value in (("script_location", _ENVIRONMENT), ("version_locations", schema.migrations), ("path_separator", "newline")):
        config.set_main_option(name, str(value).replace("%", "%%"))
    return config


def _revisions(connection: Connection, schema: Schema) -> Revisions:
    context = MigrationContext.configure(connection, opts={"version_table": schema.version_table})
    return Revisions(context.get_current_revision(), head_of(schema))


def _scripts(schema: Schema) -> ScriptDirectory:
    return ScriptDirectory.from_config(config_of(schema))


def _is_known(schema: Schema, revision: str) -> bool:
    return any(script.revision == revision for script in _scripts(schema).walk_revisions())


def _outdated(engine: AsyncEngine, schema: Schema, found: Revisions) -> SchemaOutdatedError:
    where = f"the {schema.service}'s store {place_of(engine)}"
    if found.current is not None and not _is_known(schema, found.current):
        message = f"{where} is at revision {found.current}, which this version does not know; run the version that made it, or a later one"
    else:
        state = f"is at revision {found.current}" if found.current else "has no tables"
        message = f"{where} {state}, and this version needs {found.head}; run: adaexplore db upgrade {schema.service}"
    return SchemaOutdatedError(message, reason="STORE_UNAVAILABLE")
