"""Tables of the controller's store. Instants are seconds since the epoch in UTC; bodies are JSON."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, MetaData, String, Table, Text

from adaexplore.runtime.migrations import Schema

metadata = MetaData()
# SQLite gives numbers of its own to INTEGER keys alone, and its INTEGER has 64 bits anyway.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

searches = Table(
    "searches",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("request_id", String(128), unique=True),
    Column("spec", Text, nullable=False),
    Column("facts", Text),
    Column("state", String(16), nullable=False, index=True),
    Column("progress", Text, nullable=False),
    Column("wish", String(16), nullable=False),
    Column("create_time", Float, nullable=False),
    Column("spent_s", Float, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("search_id", String(64), ForeignKey("searches.id"), primary_key=True),
    Column("step", _NUMBER, primary_key=True),
    Column("parent_step", _NUMBER, nullable=False),
    Column("visits", _NUMBER, nullable=False),
    Column("reward_sum", Float, nullable=False),
    Column("body", Text, nullable=False),
)

steps_in_flight = Table(
    "steps_in_flight",
    metadata,
    Column("search_id", String(64), ForeignKey("searches.id"), primary_key=True),
    Column("step", _NUMBER, primary_key=True),
    Column("phase", String(16), nullable=False),
    Column("body", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("search_id", String(64), ForeignKey("searches.id"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Float, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("body", Text, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("search_id", String(64), ForeignKey("searches.id"), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("host", String(128), nullable=False),
    Column("process", String(64), nullable=False),
    Column("expire_time", Float, nullable=False),
)

# One row a generation that money was reserved for or spent on, in micro-USD; `spent` is null while it is only reserved.
ledger = Table(
    "ledger",
    metadata,
    Column("request_id", String(128), primary_key=True),
    Column("search_id", String(64), ForeignKey("searches.id"), nullable=False, index=True),
    Column("day", String(10), nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("spent", BigInteger),
    Column("unconfirmed", BigInteger, nullable=False, default=0),
)

# The sums over the ledger's rows, by search and by day.
purses = Table(
    "purses",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("spent", BigInteger, nullable=False),
    Column("unconfirmed", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
)

SCHEMA = Schema("controller", "controller.sqlite3", metadata, Path(__file__).parent / "migrations")
