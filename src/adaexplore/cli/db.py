"""`adaexplore db …`: the tables of the services' stores."""

from __future__ import annotations

import asyncio
import enum
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from adaexplore.cli.failures import CliError, ExitCode
from adaexplore.cli.fleet import DEFAULT_STATE_DIR
from adaexplore.cli.output import print_json
from adaexplore.runtime.config import ConfigError, load_config

if TYPE_CHECKING:
    from adaexplore.runtime.migrations import Schema
    from adaexplore.runtime.store_config import StoreConfig

app = typer.Typer(help="Make and check the tables of the services' stores.", no_args_is_help=True)


class StoreChoice(enum.StrEnum):
    """Services that have a store."""

    GENERATOR = "generator"
    MEMORY = "memory"
    CONTROLLER = "controller"


_SERVICES = typer.Argument(help="Whose tables; their variables ADAEXPLORE_<SERVICE>_DATABASE_URL (or …_URL_FILE) name the databases.")
_STATE_DIR = typer.Option(DEFAULT_STATE_DIR, help="Folder of the SQLite files of services without a database URL.")
_JSON = typer.Option(False, "--json", help="Print one JSON object.")


@app.command("upgrade")
def upgrade(services: list[StoreChoice] = _SERVICES, state_dir: Path = _STATE_DIR, json_output: bool = _JSON) -> None:
    """Run the migrations that are missing; harmless where there are none, and when several do it at once."""
    _print([asyncio.run(_upgraded(name.value, state_dir)) for name in services], json_output)


@app.command("current")
def current(services: list[StoreChoice] = _SERVICES, state_dir: Path = _STATE_DIR, json_output: bool = _JSON) -> int:
    """Tell which revision the tables have; exit code 1 if a service would refuse them."""
    facts = [asyncio.run(_current(name.value, state_dir)) for name in services]
    _print(facts, json_output)
    return int(ExitCode.OK if all(fact["revision"] == fact["head"] for fact in facts) else ExitCode.INFRASTRUCTURE)


async def _upgraded(service: str, state_dir: Path) -> dict[str, Any]:
    from adaexplore.runtime import migrations, sql, store_config  # noqa: PLC0415 - there only with a service

    schema, config = _schema(service), _config(service, state_dir, os.environ)
    engine = store_config.engine_for(config, schema, migrating=True)
    try:
        before = await migrations.upgrade(engine, schema)
        return _facts(service, sql.place_of(engine), before.head, before.head) | {"revision_before": before.current}
    finally:
        await engine.dispose()


async def _current(service: str, state_dir: Path) -> dict[str, Any]:
    from adaexplore.runtime import migrations, sql, store_config  # noqa: PLC0415 - there only with a service

    schema, config = _schema(service), _config(service, state_dir, os.environ)
    path = config.state_dir / schema.file_name
    if not config.postgres_url() and not path.exists():  # a look must not make it
        return _facts(service, str(path), None, migrations.head_of(schema))
    engine = store_config.engine_for(config, schema)
    try:
        found = await migrations.revisions(engine, schema)
        return _facts(service, sql.place_of(engine), found.current, found.head)
    finally:
        await engine.dispose()


def _schema(service: str) -> Schema:
    found = [point for point in entry_points(group="adaexplore.schemas") if point.name == service]
    if not found:
        raise CliError(f"the {service} service is not installed; run: pip install 'adaexplore[{service}]'")
    schema: Schema = found[0].load()
    return schema


def _config(service: str, state_dir: Path, environ: Mapping[str, str]) -> StoreConfig:
    """Return what the service's variables say of its store; its other settings do not matter here."""
    from adaexplore.runtime.store_config import StoreConfig  # noqa: PLC0415 - there only with a service

    prefix = f"ADAEXPLORE_{service.upper()}_"
    names = {f"{prefix}{name.upper()}" for name in ("database_url", "database_url_file", "database_pool_size", "store_timeout_ms")}
    try:
        return load_config(StoreConfig, prefix, ["--state-dir", str(state_dir)], {key: environ[key] for key in names & environ.keys()})
    except ConfigError as error:
        raise CliError("; ".join(error.problems)) from error


def _facts(service: str, store: str, revision: str | None, head: str) -> dict[str, Any]:
    return {"service": service, "store": store, "revision": revision, "head": head}


def _print(facts: list[dict[str, Any]], json_output: bool) -> None:
    if json_output:
        print_json({"stores": facts})
        return
    for fact in facts:
        revision = fact["revision"] or "not migrated"
        state = "" if fact["revision"] == fact["head"] else f", needs {fact['head']}"
        was = f" (was: {fact['revision_before'] or 'not migrated'})" if "revision_before" in fact else ""
        typer.echo(f"{fact['service']}: {fact['store']}: {revision}{state}{was}")
