"""How an endpoint is reached, and how patient to be with it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from adaexplore_generator.providers.limits import Limits


@dataclass(frozen=True)
class EndpointSettings:
    """Where an endpoint is and how patient to be with it.

    Attributes:
        base_url: Base URL, for example `http://127.0.0.1:8000/v1`; empty means the vendor's own.
        api_key: Key; empty if there is none or if it is in a file.
        api_key_file: File of the key, read again when it changes.
        model: Default model; empty means the vendor's default at its own endpoint, elsewhere the first model that the endpoint lists.
        reasoning_effort: How much to think where a request does not say, for example `low`; empty leaves it to the model.
        connect_timeout_s: Longest time to connect, in seconds.
        idle_timeout_s: Longest silence of the endpoint, in seconds, the wait for the first token included.
        total_timeout_s: Longest time of one call with all its attempts and waits, in seconds.
        attempts: Most attempts of a call that is safe to repeat.
        longest_wait_s: Longest `Retry-After` that is waited for, in seconds.
        hedge_after_s: Seconds without a first token after which a second, equal request is sent; 0 for never.
        limits: How much may be asked at once and in a minute.

    """

    base_url: str = ""
    api_key: str = ""
    api_key_file: Path | None = None
    model: str = ""
    reasoning_effort: str = ""
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 600.0
    total_timeout_s: float = 1800.0
    attempts: int = 4
    longest_wait_s: float = 60.0
    hedge_after_s: float = 0.0
    limits: Limits = field(default_factory=Limits)


def host_of(url: str) -> str:
    """Return the host of a URL in lower case; empty if it has none."""
    return urlsplit(url).hostname or ""


def is_loopback(url: str) -> bool:
    """Return True if a URL names this machine."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
