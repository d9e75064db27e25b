"""The server that tests start from this machine's own binaries."""

import pytest
from sqlalchemy import text

from adaexplore.runtime.errors import UnavailableError
from adaexplore.runtime.sql import postgres_engine, transaction
from adaexplore.testing.postgres import PostgresMissingError, running_postgres


@pytest.fixture
async def connect():
    engines = []

    def connect(url):
        engines.append(postgres_engine(url, application="tests"))
        return engines[-1]

    yield connect
    for engine in engines:
        await engine.dispose()


async def test_loopback_asks_for_the_password_and_no_error_repeats_it(own_postgres, connect):
    async with transaction(connect(own_postgres.loopback_url())):
        pass
    with pytest.raises(UnavailableError, match="check the user and the password") as caught:
        async with transaction(connect(own_postgres.loopback_url().replace(own_postgres.password, "wr0ng"))):
            pass
    assert "wr0ng" not in str(caught.value)


async def test_a_server_without_a_free_connection_says_what_to_change(own_postgres, connect):
    async with transaction(connect(own_postgres.url())) as connection:
        await connection.execute(text("CREATE ROLE guest LOGIN CONNECTION LIMIT 1"))
    guest = own_postgres.url().replace("//adaexplore@", "//guest@")
    async with transaction(connect(guest)):
        with pytest.raises(UnavailableError, match="raise its max_connections or lower --database-pool-size"):
            async with transaction(connect(guest)):
                pass


def test_a_machine_without_binaries_is_told_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("adaexplore.testing.postgres._DEBIAN_BINARIES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresMissingError, match="apt-get install postgresql"), running_postgres():
        pass
