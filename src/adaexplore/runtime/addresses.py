"""Addresses of services: their form, and whether they stay on this machine."""

from __future__ import annotations

import ipaddress


def checked_address(value: str) -> str:
    """Return an address that a server can bind.

    Raises:
        ValueError: It is not HOST:PORT, or an IPv6 address without brackets.

    """
    host, separator, port = value.rpartition(":")
    if not (separator and host) or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError("must be HOST:PORT")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError("must be HOST:PORT, an IPv6 address in brackets")
    return value


def is_loopback(address: str) -> bool:
    """Return whether nothing that is sent to this HOST:PORT leaves the machine; a name other than `localhost` may point anywhere."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
