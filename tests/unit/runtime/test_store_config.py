import sys

import pytest
from sqlalchemy import MetaData

from adaexplore.runtime.config import ConfigError, load_config
from adaexplore.runtime.migrations import Schema
from adaexplore.runtime.sql import place_of
from adaexplore.runtime.store_config import StoreConfig, engine_for

PASSWORD = "s3cr3t"
URL = f"postgresql://ada:{PASSWORD}@db.example:5433/kernels?sslmode=verify-full"


def load(argv=(), **settings):
    environ = {f"ADAEXPLORE_TEST_{name.upper()}": str(value) for name, value in settings.items()}
    return load_config(StoreConfig, "ADAEXPLORE_TEST_", argv, environ)


def schema(folder):
    return Schema("test", "test.sqlite3", MetaData(), folder)


@pytest.mark.parametrize(
    "url",
    [
        URL,
        URL.replace("postgresql:", "postgres:"),
        f"  {URL}\n",
        "postgresql:///kernels",
        "postgresql://ada@/kernels?host=%2Frun%2Fpostgresql",
        "postgresql://ada:p%40s%2Fs@one:5432,two/kernels",
        "postgresql://ada@[::1]:5432/kernels",
    ],
)
def test_a_url_of_postgresql_is_taken_without_surrounding_space(url):
    assert load(database_url=url).postgres_url() == url.strip()


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://ada:{PASSWORD}@host/kernels",
        f"postgresql+psycopg://ada:{PASSWORD}@host/kernels",
        f"ada:{PASSWORD}@host/kernels",
        f"postgresql:ada:{PASSWORD}",
        f"postgresql://ada:{PASSWORD}@host",
        f"postgresql://ada:{PASSWORD}@host/",
        f"postgresql://ada:{PASSWORD}@host:99999/kernels",
        f"postgresql://ada:{PASSWORD}@host:port/kernels",
        f"postgresql://ada:{PASSWORD}@[::1/kernels",
        f"postgresql://ada:1/{PASSWORD}@host/kernels",
        f"postgresql://ada:1#{PASSWORD}@host/kernels",
        f"postgresql://ada:1?{PASSWORD}@host/kernels",
    ],
)
@pytest.mark.parametrize("as_file", [False, True])
def test_anything_else_is_refused_in_one_line_that_does_not_repeat_it(tmp_path, url, as_file):
    url_file(tmp_path, url)
    settings = {"database_url_file": tmp_path / "url"} if as_file else {"database_url": url}
    with pytest.raises(ConfigError, match="must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE") as caught:
        load(**settings)
    assert len(caught.value.problems) == 1
    assert PASSWORD not in str(caught.value)
    assert ("--database-url-file" in str(caught.value)) == as_file


def url_file(folder, text):
    path = folder / "url"
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def test_a_file_that_others_can_read_is_refused(tmp_path):
    url_file(tmp_path, URL).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 0640") as caught:
        load(database_url_file=tmp_path / "url")
    assert PASSWORD not in str(caught.value)


def test_the_url_may_stand_in_a_file(tmp_path):
    url_file(tmp_path, f"{URL}\n")
    assert load(["--database-url-file", str(tmp_path / "url")]).postgres_url() == URL
    assert load(database_url_file="").postgres_url() == ""


@pytest.mark.parametrize(("content", "says"), [(None, "No such file"), ("", "the file is empty"), (b"\xff\xfe", "it is not text")])
def test_a_file_without_a_url_is_refused(tmp_path, content, says):
    if content is not None:
        url_file(tmp_path, "").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=says):
        load(database_url_file=tmp_path / "url")


def test_two_urls_are_one_too_many(tmp_path):
    url_file(tmp_path, URL)
    with pytest.raises(ConfigError, match="leave one of them out") as caught:
        load(database_url=URL, database_url_file=tmp_path / "url")
    assert PASSWORD not in str(caught.value)


def test_a_file_that_has_gone_since_is_an_error_of_the_configuration(tmp_path):
    url_file(tmp_path, URL)
    config = load(database_url_file=tmp_path / "url")
    (tmp_path / "url").unlink()
    with pytest.raises(ConfigError, match=r"--database-url-file: .*url: No such file"):
        config.postgres_url()


def test_without_a_url_the_store_is_a_file_in_the_state_folder(tmp_path):
    engine = engine_for(load(["--state-dir", str(tmp_path)]), schema(tmp_path))
    assert place_of(engine) == str(tmp_path / "test.sqlite3")


def test_neither_configuration_nor_engine_shows_the_password(tmp_path):
    config = load(database_url=URL)
    engine = engine_for(config, schema(tmp_path))
    assert engine.dialect.name == "postgresql"
    assert place_of(engine) == "kernels at db.example:5433"
    for text in (repr(config), str(config), repr(engine), str(engine.url), engine.url.render_as_string(hide_password=False)):
        assert PASSWORD not in text


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigError, match=r"pip install 'adaexplore\[postgres\]'"):
        engine_for(load(database_url=URL), schema(tmp_path))
