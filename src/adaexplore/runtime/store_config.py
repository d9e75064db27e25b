"""Settings of services that keep their state in SQL: a file of SQLite, or a database of PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pydantic
from pydantic import Field, SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from adaexplore.runtime.config import ConfigError, ServiceConfig
from adaexplore.runtime.credentials import read_secret
from adaexplore.runtime.migrations import Schema
from adaexplore.runtime.sql import postgres_engine, sqlite_engine

_FORM = "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_MAX_PORT = 65_535


class StoreConfig(ServiceConfig):
    """Settings of a service with a store; without a database URL it is a file in the state folder."""

    database_url: SecretStr = Field(SecretStr(""), description="URL of a PostgreSQL database; empty means SQLite in the state folder")
    database_url_file: Path | None = Field(None, description="file that holds the URL of a PostgreSQL database, for mounted secrets")
    database_pool_size: int = Field(5, ge=1, le=1000, description="most connections to PostgreSQL at once")
    store_timeout_ms: int = Field(15_000, ge=1, le=600_000, description="how long a write waits for another writer, in milliseconds")

    @pydantic.field_validator("database_url")
    @classmethod
    def _url(cls, value: SecretStr) -> SecretStr:
        return SecretStr(_checked(value.get_secret_value()))

    @pydantic.field_validator("database_url_file", mode="before")
    @classmethod
    def _no_file(cls, value: object) -> object:
        return Path(str(value)).expanduser() if value else None

    @pydantic.field_validator("database_url_file")
    @classmethod
    def _file(cls, value: Path | None, info: pydantic.ValidationInfo) -> Path | None:
        if value is None:
            return None
        given = info.data.get("database_url")
        if given and given.get_secret_value():
            raise ValueError("the URL is given by its own variable too; leave one of them out")
        if not _checked(_content(value)):
            raise ValueError("the file is empty; it must hold the URL of the database")
        return value

    def postgres_url(self) -> str:
        """Return the URL of the PostgreSQL database, empty for SQLite; ConfigError if its file is not what it was when it was checked."""
        if self.database_url_file is None:
            return self.database_url.get_secret_value()
        try:
            return _checked(_content(self.database_url_file))
        except ValueError as error:
            raise ConfigError([f"--database-url-file: {error}"]) from error


def engine_for(config: StoreConfig, schema: Schema, *, migrating: bool = False) -> AsyncEngine:
    """Return the engine over the store that a configuration names; a migrating one sets PostgreSQL's statements no limit.

    Raises:
        ConfigError: PostgreSQL is named and its driver is not installed.
        UnavailableError: The folder of the SQLite file cannot be made.

    """
    url = config.postgres_url()
    if not url:
        return sqlite_engine(config.state_dir / schema.file_name, busy_timeout_ms=config.store_timeout_ms)
    try:
        return postgres_engine(
            url,
            application=f"adaexplore-{schema.service}",
            lock_timeout_ms=config.store_timeout_ms,
            pool_size=config.database_pool_size,
            unhurried=migrating,
        )
    except ImportError as error:
        raise ConfigError(["a database URL is set, but PostgreSQL's driver is missing; run: pip install 'adaexplore[postgres]'"]) from error


def _content(path: Path) -> str:
    try:
        return read_secret(path).decode()
    except UnicodeDecodeError:
        raise ValueError("cannot be read: it is not text") from None


def _checked(url: str) -> str:
    """Return a URL without surrounding space; ValueError, which repeats nothing of it, if it is none of PostgreSQL."""
    url = url.strip()
    if not url:
        return ""
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in ("postgresql", "postgres"):
        raise ValueError(f"{_FORM}; nothing else is supported, and the driver is chosen by this program")
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2].split(",")
    except ValueError:
        raise ValueError(_FORM) from None
    # A password with / ? # or @ that is not encoded would end up in one of the other parts, and from there in messages.
    odd = parts.fragment or set("@/") & set(parts.path[1:]) or not all(map(_is_host, hosts))
    if odd or not parts.path[1:]:
        raise ValueError(f"{_FORM}, with special characters of user and password percent-encoded")
    return url


def _is_host(host: str) -> bool:
    port = host.rpartition("]")[2].partition(":")[2] if host.startswith("[") else host.partition(":")[2]
    return not port or (port.isdecimal() and 0 < int(port) <= _MAX_PORT)
