"""Calls that failed before any service could say why: what grpc's texts mean, and what to do."""

from __future__ import annotations

import enum
import re
from datetime import UTC, datetime

import grpc

from adaexplore.client.security import ChannelSecurity
from adaexplore.runtime.credentials import CredentialError, read_chain
from adaexplore.runtime.errors import ServiceError, from_rpc_error

DOMAIN = "client.adaexplore"


class ClientReason(enum.StrEnum):
    """Reasons of errors that no service could give, since the call did not reach it; their domain is `client.adaexplore`."""

    AUTHORITY_UNKNOWN = "AUTHORITY_UNKNOWN"
    CERTIFICATE_EXPIRED = "CERTIFICATE_EXPIRED"
    CERTIFICATE_NAME_WRONG = "CERTIFICATE_NAME_WRONG"
    CERTIFICATE_REFUSED = "CERTIFICATE_REFUSED"
    CLIENT_CERTIFICATE_REFUSED = "CLIENT_CERTIFICATE_REFUSED"
    TLS_EXPECTED = "TLS_EXPECTED"
    TLS_NOT_SPOKEN = "TLS_NOT_SPOKEN"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"


# grpc says what went wrong in a handshake by its text alone; the first that is found speaks.
_HANDSHAKES = (
    ("certificate has expired", ClientReason.CERTIFICATE_EXPIRED, "the service's certificate has expired; renew it where the service runs"),
    (
        "issuer certificate|self.signed certificate",
        ClientReason.AUTHORITY_UNKNOWN,
        "the service's certificate is not signed by an authority in {ca_file}; give the file of the authority that signed it (ca_file)",
    ),
    (
        "Hostname Verification Check failed",
        ClientReason.CERTIFICATE_NAME_WRONG,
        "the service's certificate is for another name; call it by a name that stands in it, or give that name (server_name)",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        ClientReason.CERTIFICATE_REFUSED,
        "the service's certificate cannot be verified; renew it where the service runs",
    ),
    ("WRONG_VERSION_NUMBER", ClientReason.TLS_NOT_SPOKEN, "the service does not speak TLS; set its certificate up, or leave ca_file out"),
)
_BROKEN_OFF = re.compile(
    "(?:failed to connect|all backends failing).*(Socket closed|Connection reset|End of TCP stream|Broken pipe)", re.DOTALL
)
_TOO_LARGE = re.compile(r"(\w+): (\w+) message larger than max \((\d+) vs\. (\d+)\)")


def explained(error: grpc.RpcError, peer: str, security: ChannelSecurity) -> ServiceError:
    """Return the typed error of a failed call, with the reason where grpc's text tells one.

    Args:
        error: What grpc raised.
        peer: Name and address of the service.
        security: How it was called.

    """
    found = from_rpc_error(error, peer)
    if found.reason:
        return found
    if found.code is grpc.StatusCode.RESOURCE_EXHAUSTED and (sizes := _TOO_LARGE.search(found.message)):
        return _too_large(type(found), peer, sizes)
    if found.code is not grpc.StatusCode.UNAVAILABLE:
        return found
    for text, reason, words in _HANDSHAKES:
        if re.search(text, found.message):
            return type(found)(f"{peer}: {words.format(ca_file=security.ca_file)}", reason=reason, domain=DOMAIN)
    if _BROKEN_OFF.search(found.message):
        reason, words = _broken_off(security)
        return type(found)(f"{peer}: {words}", reason=reason, domain=DOMAIN)
    return found


def _broken_off(security: ChannelSecurity) -> tuple[ClientReason, str]:
    """What a connection most likely means that the service closed before it answered: alerts of TLS do not reach us."""
    if security.ca_file is None:
        return (
            ClientReason.TLS_EXPECTED,
            "it closed the connection before it answered: it probably speaks TLS (ca_file)",
        )
    refused = ClientReason.CLIENT_CERTIFICATE_REFUSED
    if security.cert_file is None:
        return refused, "it closed the connection after the handshake: it probably demands a client certificate (cert_file, key_file)"
    try:
        read_chain(security.cert_file, datetime.now(UTC))
    except CredentialError as problem:
        return refused, str(problem)
    return refused, f"it probably refused the client certificate {security.cert_file}: no authority that it knows has signed it"


def _too_large(kind: type[ServiceError], peer: str, sizes: re.Match[str]) -> ServiceError:
    side, direction, size, limit = sizes.groups()
    what = "answer" if (side, direction) in (("CLIENT", "Received"), ("SERVER", "Sent")) else "request"
    return kind(
        f"{peer}: the {what} has {int(size):,} bytes, above the limit of {int(limit):,} bytes; make it smaller",
        reason=ClientReason.MESSAGE_TOO_LARGE,
        metadata={"size_bytes": size, "limit_bytes": limit},
        domain=DOMAIN,
    )
