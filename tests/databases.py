"""Databases of a PostgreSQL server for tests."""

import asyncio
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import asyncpg

from adaexplore.runtime.migrations import upgrade
from adaexplore.runtime.sql import postgres_engine


class Databases:
    """Makes databases.

    Args:
        url: URL of a database of the server; its user may create databases.
        stays: True if the server outlives the tests, so that what they made must be dropped at the end.

    """

    def __init__(self, url, *, stays):
        self.url, self._stays = url, stays
        self._made = []
        self._idle = defaultdict(list)
        self._thread = ThreadPoolExecutor(max_workers=1)  # with a loop of its own: tests ask from inside theirs

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        for url in self._made if self._stays else ():
            self.execute(f'DROP DATABASE "{urlsplit(url).path.strip("/")}" WITH (FORCE)')
        self._thread.shutdown()

    def fresh(self):
        """Return the URL of a new database without tables."""
        name = f"adaexplore_test_{uuid.uuid4().hex}"
        self.execute(f'CREATE DATABASE "{name}"')
        server = urlsplit(self.url)
        url = f"{server.scheme}://{server.netloc}/{name}?{server.query}"
        self._made.append(url)
        return url

    @contextmanager
    def lent(self, schema):
        """Lend a database with the tables of a schema, all empty; afterwards it is emptied for the next test."""
        idle = self._idle[schema.service]
        if idle:
            url = idle.pop()
        else:
            url = self.fresh()
            self._run(_migrate(url, schema))
        yield url
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        deletions = [f'DELETE FROM "{table.name}"' for table in reversed(schema.metadata.sorted_tables)]
        self.execute("; ".join([others, *deletions]), url)
        idle.append(url)

    def execute(self, script, url=None):
        """Run statements, by default in the server's own database."""
        self._run(_execute(url or self.url, script))

    def _run(self, work):
        return self._thread.submit(asyncio.run, work).result()


async def _execute(url, script):
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def _migrate(url, schema):
    engine = postgres_engine(url, application="tests")
    try:
        await upgrade(engine, schema)
    finally:
        await engine.dispose()
