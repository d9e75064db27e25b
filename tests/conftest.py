"""Marks every test by its folder, leaves no process behind, tables evaluated cases where asked, and runs one PostgreSQL for all."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from adaexplore_evaluator.groups import usable_groups

_ROOT = Path(__file__).parent
_GROUP = pytest.StashKey()
_MOST_TASKS = 4000
_UNIT_S = 200  # one that hangs must not cost a run what an end-to-end test may take
# What takes long comes first, so that no worker is left with a long file at the end while the others have nothing to do.
_ORDER = ("integration/evaluator/", "e2e/", "integration/", "contract/", "unit/", "")


def pytest_addoption(parser):
    parser.addoption("--case-table", metavar="FILE", help="append a row for each evaluated case: case, device, verdict, seconds")


def pytest_configure(config):
    """Put what the tests start into a control group of its own, where the host allows it, so that nothing outlives them or swarms."""
    runs_tests = hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None)
    if runs_tests and (groups := usable_groups()) is not None:
        config.stash[_GROUP] = groups.make(_MOST_TASKS)
        config.stash[_GROUP].entrance.write_text("0")


def pytest_unconfigure(config):
    group = config.stash.get(_GROUP, None)
    if group is not None:
        (group.folder.parent / group.entrance.name).write_text("0")
        group.remove()


def pytest_collection_modifyitems(items):
    for item in items:
        folder = item.path.relative_to(_ROOT).parts[0]
        item.add_marker(getattr(pytest.mark, folder))
        if folder == "unit":
            item.add_marker(pytest.mark.timeout(_UNIT_S))
    items.sort(key=_rank)


def _rank(item):
    place = item.path.relative_to(_ROOT).as_posix()
    return next(number for number, start in enumerate(_ORDER) if place.startswith(start))


@pytest.fixture
def case_row(request):
    """Adds a row to the table of cases; the seconds are those since the test began, unless they are given."""
    path, start_s = request.config.getoption("--case-table"), time.monotonic()

    def add(case, device, verdict, cause, seconds=None):
        seconds = time.monotonic() - start_s if seconds is None else seconds
        if path:
            with Path(path).open("a") as file:
                file.write(f"| {case} | {device} | {verdict} {'' if cause == 'UNSPECIFIED' else cause} | {seconds:.1f} |\n")

    return add


@pytest.fixture(scope="session")
def own_postgres():
    """A PostgreSQL server from this machine's own binaries."""
    from adaexplore.testing.postgres import PostgresMissingError, running_postgres

    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgres())
        except PostgresMissingError as missing:
            if os.environ.get("ADAEXPLORE_REQUIRE_POSTGRES") == "1":
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        yield server


@pytest.fixture(scope="session")
def postgres(request):
    """Databases of the server that ADAEXPLORE_TEST_POSTGRES_URL names, or of one from this machine's own binaries."""
    from databases import Databases

    given = os.environ.get("ADAEXPLORE_TEST_POSTGRES_URL")
    with Databases(given or request.getfixturevalue("own_postgres").url(), stays=bool(given)) as databases:
        yield databases
