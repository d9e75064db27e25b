"""Four services as processes, with PostgreSQL, TLS and tokens; those that only the controller calls demand its certificate."""

import os
import subprocess
import sys
from contextlib import contextmanager

from authorities import TOKEN, Authority, secret_file

from adaexplore.cli.local import SERVICES
from adaexplore.client.security import ChannelSecurity
from adaexplore.testing.servers import ServerProcess, stop_process

# A service that is restarted on a slow host is away for long.
PATIENCE = ["--peer-patience-s", "600"]
_STORED = ("generator", "memory", "controller")


class SecuredFleet:
    """The services, their files, and what a caller needs.

    Attributes:
        authority: What signed all certificates.
        security: How the controller is called.
        environ: The same as environment variables, for programs.
        inherited: This process's own variables, without settings of the product.

    """

    def __init__(self, folder, postgres):
        self.authority = Authority(folder)
        self._server, self._peer = self.authority.issue("server"), self.authority.issue("peer", "controller")
        self._token = secret_file(folder / "token", TOKEN)
        self._tokens = secret_file(folder / "tokens", f"tests:{TOKEN}")
        self.security = ChannelSecurity(ca_file=self.authority.file, token_file=self._token)
        self._environ = {
            name: {f"ADAEXPLORE_{name.upper()}_DATABASE_URL": postgres.fresh()} if name in _STORED else {} for name in SERVICES
        }
        self.servers = {}
        self._folder, self._processes = folder, {}
        self.inherited = _inherited()

    @property
    def environ(self):
        return {
            "ADAEXPLORE_ADDRESS_CONTROLLER": self.address("controller"),
            "ADAEXPLORE_ADDRESS_EVALUATOR": self.address("evaluator"),
            "ADAEXPLORE_CA_FILE": str(self.authority.file),
            "ADAEXPLORE_CERT_FILE": str(self._peer.cert),
            "ADAEXPLORE_KEY_FILE": str(self._peer.key),
            "ADAEXPLORE_TOKEN_FILE": str(self._token),
        }

    def address(self, name):
        return self.servers[name].address

    def migrate(self):
        command = [sys.executable, "-m", "adaexplore", "db", "upgrade", *_STORED]
        own = {key: value for values in self._environ.values() for key, value in values.items()}
        subprocess.run(command, env=self.inherited | own, check=True, capture_output=True, timeout=500)

    def start(self, name):
        """Start a service on a free port, or on the port that it had; the controller after the others, whose addresses it is given."""
        if name not in self.servers:
            self.servers[name] = self._described(name)
        self._processes[name] = self.servers[name].start(self.inherited | self._environ[name])

    def restart(self, name):
        """As a rolling restart does: the process is asked to end, and another one takes its address."""
        code = stop_process(self._processes[name])
        self.start(name)
        return code

    def stop(self):
        for process in self._processes.values():
            stop_process(process)

    def _described(self, name):
        flags = ["--tls-cert-file", self._server.cert, "--tls-key-file", self._server.key, "--tokens-file", self._tokens]
        if name != "controller":
            flags += ["--tls-client-ca-file", self.authority.file]
        else:
            addresses = [part for peer in SERVICES if peer != name for part in (f"--{peer}-address", self.address(peer))]
            flags += [*PATIENCE, *addresses, "--peer-ca-file", self.authority.file, "--peer-token-file", self._token]
            flags += ["--peer-cert-file", self._peer.cert, "--peer-key-file", self._peer.key]
        with_certificate = ChannelSecurity(
            ca_file=self.authority.file, cert_file=self._peer.cert, key_file=self._peer.key, token_file=self._token
        )
        return ServerProcess(name, self._folder / name, [str(flag) for flag in flags], security=with_certificate)


@contextmanager
def secured_fleet(folder, postgres):
    """Run the fleet for the body."""
    fleet = SecuredFleet(folder, postgres)
    try:
        fleet.migrate()
        for name in SERVICES:
            fleet.start(name)
        yield fleet
    finally:
        fleet.stop()


def _inherited():
    return {key: value for key, value in os.environ.items() if not key.startswith("ADAEXPLORE_")}
