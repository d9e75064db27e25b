"""Run by alembic, for every service alike: what to migrate comes with the configuration."""

from __future__ import annotations

from alembic import context

from adaexplore.runtime.migrations import Schema

schema: Schema = context.config.attributes["schema"]
context.configure(connection=context.config.attributes["connection"], target_metadata=schema.metadata, version_table=schema.version_table)
context.run_migrations()
