"""Finds the services: running ones by address, or local ones started for this command."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from adaexplore.cli.failures import CliError
from adaexplore.cli.local import SERVICES, LocalFleet, local_fleet
from adaexplore.client.base import AsyncClient
from adaexplore.client.security import PLAINTEXT, ChannelSecurity, security_from

ClientT = TypeVar("ClientT", bound=AsyncClient)
_NOBODY = "127.0.0.1:1"  # an address at which nothing answers
DEFAULT_STATE_DIR = Path("~/.local/share/adaexplore").expanduser()


class Check(Protocol):
    """Asks a local service at its address something before the command goes on; raises what the command is to end with."""

    async def __call__(self, address: str, security: ChannelSecurity) -> None:
        """Ask."""


@dataclass(frozen=True)
class Reached:
    """The services a command can call.

    Attributes:
        at: Address by name.
        fleet: The local services among them, none if all run elsewhere.
        security: How to call those that run elsewhere.
        local: How to call the local ones.

    """

    at: Mapping[str, str]
    fleet: LocalFleet
    security: ChannelSecurity = PLAINTEXT
    local: ChannelSecurity = PLAINTEXT

    def client(self, kind: type[ClientT]) -> ClientT:
        """Return a client of a service.

        Raises:
            CredentialError: A certificate, key or token cannot be used.

        """
        started = kind.api in self.fleet.services
        return kind(self.fleet.address(kind.api), self.local) if started else kind(self.at[kind.api], self.security)

    def lost(self) -> str:
        """Return what is known of a local service that has ended by itself, empty while all run."""
        dead = self.fleet.dead()
        return f"the {dead[0].name} service ended by itself; see {dead[0].log}" if dead else ""


def address_variable(name: str) -> str:
    """Return the environment variable that names a running service."""
    return f"ADAEXPLORE_ADDRESS_{name.upper()}"


@contextlib.asynccontextmanager
async def addresses(
    needed: Sequence[str],
    state_dir: Path,
    flags: Mapping[str, Sequence[str]] | None = None,
    *,
    alone: bool = False,
    checks: Mapping[str, Check] | None = None,
) -> AsyncIterator[Reached]:
    """Yield the services the command calls.

    A service is a running one if its variable (`ADAEXPLORE_ADDRESS_CONTROLLER`, …) is set; otherwise it is started on loopback for as
    long as the context lasts. With a controller that runs elsewhere nothing is started: it knows its own peers.

    Args:
        needed: Services the command itself calls.
        state_dir: Folder for the state of local services.
        flags: Further flags of local services.
        alone: True if the controller is only asked about searches, so that a local one needs no peers.
        checks: What to ask a local service as soon as it runs; the others, which may still be starting, end with the command if it raises.

    """
    security = security_from()
    given = {name: os.environ[address_variable(name)] for name in SERVICES if os.environ.get(address_variable(name))}
    missing = [name for name in needed if name not in given]
    if not missing:
        yield Reached(given, LocalFleet(), security)
        return
    if "controller" in needed and "controller" in given:
        raise CliError(f"set {address_variable(missing[0])} too: the controller runs elsewhere, so nothing is started here")
    start = list(SERVICES) if "controller" in missing and not alone else missing
    partly = [name for name in SERVICES if name in given]
    if partly and "controller" in missing:
        raise CliError(
            f"set {address_variable('controller')} or unset {address_variable(partly[0])}: a fleet is either local or running elsewhere"
        )
    own = dict(flags or {})
    if alone:
        absent = [part for name in SERVICES if name != "controller" for part in (f"--{name}-address", _NOBODY)]
        own["controller"] = [*own.get("controller", ()), *absent]
    with _closed_to_others(own) as (closed, local):
        asked = {name: partial(check, security=local) for name, check in (checks or {}).items()}
        async with local_fleet(start, state_dir, closed, revive=True, checks=asked) as fleet:
            yield Reached({name: given.get(name) or fleet.address(name) for name in needed}, fleet, security, local)


@contextlib.contextmanager
def _closed_to_others(flags: Mapping[str, Sequence[str]]) -> Iterator[tuple[Mapping[str, Sequence[str]], ChannelSecurity]]:
    """Yield flags by which local services demand a token, and what sends it: loopback is open to every user of the machine."""
    with tempfile.TemporaryDirectory(prefix="adaexplore-") as folder:
        token, callers, secret = Path(folder, "token"), Path(folder, "tokens"), secrets.token_hex(32)
        for path, text in ((token, secret), (callers, f"local:{secret}")):
            path.touch(mode=0o600)
            path.write_text(text)
        peers = {"controller": ("--peer-token-file", str(token))}
        demanded = {name: ["--tokens-file", str(callers), *peers.get(name, ()), *flags.get(name, ())] for name in SERVICES}
        yield demanded, ChannelSecurity(token_file=token)
