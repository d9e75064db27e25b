"""How a client proves itself to a service and knows the service: TLS and a bearer token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import grpc
import structlog

from adaexplore.runtime.addresses import is_loopback
from adaexplore.runtime.credentials import CredentialError, Reloading, is_token, read_authorities, read_chain, read_key, read_token

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ChannelSecurity:
    """What a client needs to call a service; nothing of it means plaintext without a token, as on loopback.

    Attributes:
        ca_file: PEM file of the authorities that may have signed the service's certificate; TLS is spoken if it is set. Where the
            service has a certificate of a public authority: the system's own, for example /etc/ssl/certs/ca-certificates.crt.
        cert_file: PEM file of the client's certificate with its chain, where the service demands one.
        key_file: PEM file of that certificate's key, closed to others.
        server_name: Name to find in the service's certificate instead of the host in the address, for example behind a port forward.
        token_file: File that holds the token and nothing else, closed to others; read again when it changes.
        token: The token itself, where there is no file.
        insecure_call: `plaintext` lets the token go beyond loopback without TLS, where everybody on the way can read it.

    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""
    token_file: Path | None = None
    token: str = field(default="", repr=False)
    insecure_call: Literal["no", "plaintext"] = "no"

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return the TLS credentials of a channel, None for plaintext; the files are read now.

        Raises:
            CredentialError: A file cannot be used, or one that is needed beside another is missing.

        """
        if (self.cert_file is None) != (self.key_file is None):
            raise CredentialError("a client's certificate and its key (cert_file, key_file) need each other: set both or none")
        if self.ca_file is None:
            if self.cert_file or self.server_name:
                raise CredentialError("cert_file, key_file and server_name are for TLS: set ca_file too")
            return None
        roots = read_authorities(self.ca_file)
        if not (self.cert_file and self.key_file):
            return grpc.ssl_channel_credentials(roots)
        chain, _ = read_chain(self.cert_file, datetime.now(UTC))
        return grpc.ssl_channel_credentials(roots, read_key(self.key_file, chain), chain)

    def tls_files(self) -> list[Path]:
        """Return the files that `credentials` reads."""
        return [path for path in (self.ca_file, self.cert_file, self.key_file) if path]

    def options(self) -> list[tuple[str, Any]]:
        """Return the options of a channel."""
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []

    def bearer(self, address: str) -> Bearer:
        """Return what sends the token with each call to an address.

        Raises:
            CredentialError: The token cannot be used, or would travel beyond loopback in plaintext.

        """
        if not (self.token or self.token_file):
            return Bearer(None, "")
        if self.ca_file is None and not is_loopback(address) and self.insecure_call != "plaintext":
            raise CredentialError(
                f"the token is not sent to {address} in plaintext, where everybody on the way can read it; "
                "use TLS (ca_file), or say insecure_call plaintext"
            )
        if self.token_file is None and not is_token(self.token):
            raise CredentialError("the token must be printable ASCII characters, without spaces")
        return Bearer(self.token_file, self.token)


class Bearer:
    """Sends a token with each call.

    Args:
        path: File of the token, read again when it changes; a changed file that cannot be used is logged and the former token stays.
        token: The token, where there is no file; neither means that none is sent.

    Raises:
        CredentialError: The file cannot be used.

    """

    def __init__(self, path: Path | None, token: str) -> None:
        self._token = token
        self._file = Reloading([path], lambda: read_token(path), _refused) if path else None

    def metadata(self) -> Metadata:
        """Return the metadata of a call."""
        if self._file:
            self._file.refresh()
            return (("authorization", f"Bearer {self._file.content}"),)
        return (("authorization", f"Bearer {self._token}"),) if self._token else ()


PLAINTEXT = ChannelSecurity()
# Settings of whoever calls, by their environment variables; the token itself has no other place than a file or its variable.
VARIABLES: Mapping[str, str] = {name: f"ADAEXPLORE_{name.upper()}" for name in ChannelSecurity.__dataclass_fields__}


def security_from(environ: Mapping[str, str] | None = None) -> ChannelSecurity:
    """Return the security that the variables `ADAEXPLORE_CA_FILE`, `ADAEXPLORE_TOKEN_FILE` and so on describe; a file of a token wins.

    Args:
        environ: Environment; that of this process by default.

    Raises:
        CredentialError: A variable has a value that it cannot have.

    """
    environ = os.environ if environ is None else environ
    given = {name: environ[variable].strip() for name, variable in VARIABLES.items() if environ.get(variable, "").strip()}
    insecure = given.get("insecure_call", "no")
    if insecure not in ("no", "plaintext"):
        raise CredentialError(f"{VARIABLES['insecure_call']} must be `no` or `plaintext`")
    files = {name: Path(value).expanduser() for name, value in given.items() if name.endswith("_file")}
    return ChannelSecurity(
        **files,
        server_name=given.get("server_name", ""),
        token=given.get("token", ""),
        insecure_call=cast(Literal["no", "plaintext"], insecure),
    )


def _refused(problem: str) -> None:
    structlog.get_logger().error("changed token file not used; the former token stays", problem=problem)
