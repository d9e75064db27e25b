"""Writes a service's next migration: `python scripts/migration.py SERVICE "what changes"`; read it before it is committed."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import alembic.command

from adaexplore.runtime.migrations import Schema, config_of, head_of, upgrade
from adaexplore.runtime.sql import sqlite_engine, transaction


async def write(schema: Schema, message: str) -> Path:
    """Write what leads from the tables that the migrations make to those of the code, and return the file."""
    number = f"{int(head_of(schema)) + 1:04}"
    with tempfile.TemporaryDirectory() as folder:
        engine = sqlite_engine(Path(folder) / schema.file_name)
        await upgrade(engine, schema)
        async with transaction(engine) as connection:

            def revise(link):
                config = config_of(schema, link)
                config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
                alembic.command.revision(config, message, autogenerate=True, rev_id=number)

            await connection.run_sync(revise)
        await engine.dispose()
    (written,) = schema.migrations.glob(f"v{number}_*.py")
    return written


if __name__ == "__main__":
    (found,) = [point for point in entry_points(group="adaexplore.schemas") if point.name == sys.argv[1]]
    print(asyncio.run(write(found.load(), sys.argv[2])))
