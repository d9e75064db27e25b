"""A real PostgreSQL from this machine's own binaries, for tests of what keeps its state there."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_DEBIAN_BINARIES = Path("/usr/lib/postgresql")
_START_LIMIT_S = 120.0
_USER = "adaexplore"
# A test's data may be lost, and many small servers may run side by side.
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
}


class PostgresMissingError(Exception):
    """There is no PostgreSQL on this machine; the message says what to install."""


@dataclass(frozen=True)
class PostgresServer:
    """A running server that answers on a socket of the file system without a password, and on loopback with one.

    Attributes:
        folder: Folder of the socket.
        port: Port on loopback; the socket is named after it too.
        password: What the server asks for on loopback.

    """

    folder: Path
    port: int
    password: str

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database through the socket, without a password."""
        return f"postgresql://{_USER}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def loopback_url(self, database: str = "postgres") -> str:
        """Return the URL of a database on loopback, with the password."""
        return f"postgresql://{_USER}:{self.password}@127.0.0.1:{self.port}/{database}"


@contextlib.contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a fresh server for as long as the context lasts; call it from the main thread, with whose end the server ends too.

    Raises:
        PostgresMissingError: There are no binaries.
        RuntimeError: The server does not start; the message is its own last line.

    """
    binaries = _binaries()
    folder = Path(tempfile.mkdtemp(prefix="adaexplore-pg-", dir=_searchable_folder()))
    try:
        server = PostgresServer(folder, _free_port(), secrets.token_hex(16))
        _initialise(binaries, server)
        process = _start(binaries, server)
        try:
            _wait_ready(binaries, server, process)
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)  # an immediate shutdown: nobody needs the data any more
            process.wait(timeout=_START_LIMIT_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    found = sorted(_DEBIAN_BINARIES.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3].partition(".")[0]))
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        raise PostgresMissingError("PostgreSQL is not installed; run: apt-get install postgresql (or put `postgres` on the PATH)")
    return found[-1].parent if found else Path(str(on_path)).resolve().parent


def _searchable_folder() -> Path:
    # The server's user must reach its data, and the name of a socket has at most 107 bytes.
    for folder in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - mkdtemp makes a private one in it
        if len(str(folder)) < 60 and all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents)):
            return folder
    raise RuntimeError("no folder for temporary files can be reached by every user; set TMPDIR to one")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(*command: str) -> list[str]:
    """Return a command that ends with this thread, as another user where this one is root, whom PostgreSQL refuses to serve."""
    user = _unprivileged()
    change = ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"] if user else []
    return ["setpriv", *change, "--pdeathsig", "INT", *command]


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`")


def _initialise(binaries: Path, server: PostgresServer) -> None:
    password_file = server.folder / "password"
    password_file.write_text(server.password)
    if user := _unprivileged():
        for path in (server.folder, password_file):
            os.chown(path, user.pw_uid, user.pw_gid)
    where = ["--pgdata", str(server.folder / "data"), "--username", _USER, "--pwfile", str(password_file)]
    how = ["--auth-local", "trust", "--auth-host", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
    done = subprocess.run(_command(str(binaries / "initdb"), *where, *how), capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        raise RuntimeError(f"initdb failed: {_last_line(done.stderr)}")


def _start(binaries: Path, server: PostgresServer) -> subprocess.Popen[bytes]:
    settings: Sequence[str] = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    where = ["-D", str(server.folder / "data"), "-k", str(server.folder), "-p", str(server.port)]
    with (server.folder / "log").open("wb") as log:
        return subprocess.Popen(
            _command(str(binaries / "postgres"), *where, *settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the tests, which then stop the server in order
        )


def _wait_ready(binaries: Path, server: PostgresServer, process: subprocess.Popen[bytes]) -> None:
    question = [str(binaries / "pg_isready"), "-q", "-h", str(server.folder), "-p", str(server.port)]
    end = time.monotonic() + _START_LIMIT_S
    while subprocess.run(question, check=False).returncode:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"PostgreSQL did not start: {_last_line((server.folder / 'log').read_text(errors='replace'))}")
        time.sleep(0.05)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
