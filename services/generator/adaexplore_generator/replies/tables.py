"""Tables of the store of paid replies. Instants are ISO 8601 in UTC."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, MetaData, String, Table, Text

from adaexplore.runtime.migrations import Schema

metadata = MetaData()

requests = Table(
    "requests",
    metadata,
    Column("request_id", String(128), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("create_time", String(40), nullable=False),
)

replies = Table(
    "replies",
    metadata,
    Column("request_id", String(128), ForeignKey("requests.request_id"), primary_key=True),
    Column("call", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("reply", Text, nullable=False),
    Column("create_time", String(40), nullable=False),
)

# Calls that were begun and whose reply is not among the kept ones: in flight, broken off, or beaten by another replica's.
attempts = Table(
    "attempts",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("request_id", String(128), ForeignKey("requests.request_id"), nullable=False, index=True),
    Column("usage", Text, nullable=False),
    Column("create_time", String(40), nullable=False),
)

# Prompts that somebody outside answers. Instants are seconds since the epoch; `seen` is when the generation last looked for its answer.
external_requests = Table(
    "external_requests",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("prompt", Text, nullable=False),
    Column("create_time", Float, nullable=False),
    Column("seen", Float, nullable=False),
    Column("claims", Integer, nullable=False),
    Column("lease_token", String(32), unique=True),
    Column("lease_expire", Float),
    Column("worker", String(128)),
    Column("reply", Text),
)

SCHEMA = Schema("generator", "generator.db", metadata, Path(__file__).parent / "migrations")
