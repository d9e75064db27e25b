"""Certificates of an authority of our own, as files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

TOKEN, OTHER_TOKEN = "a" * 31 + "1", "b" * 31 + "2"


@dataclass(frozen=True)
class Pair:
    cert: Path
    key: Path


class Authority:
    """Signs certificates and writes them to a folder."""

    def __init__(self, folder, name="ca"):
        self._ca, self._folder = trustme.CA(), folder
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, name, *hosts, days=90):
        """Sign a certificate for hosts, this machine by default; it ends so many days from now, and began a day before that or now."""
        end = datetime.now(UTC) + timedelta(days=days)
        start = min(datetime.now(UTC), end) - timedelta(days=1)
        issued = self._ca.issue_cert(*(hosts or ("127.0.0.1", "localhost")), not_before=start, not_after=end)
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.cert.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        secret_file(pair.key, issued.private_key_pem.bytes().decode())
        return pair


def secret_file(path, text):
    """Write a file as a careful operator does: whole at once, closed to others."""
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.rename(path)
    return path
