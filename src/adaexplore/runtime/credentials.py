"""Certificates, keys and tokens from files: checked when they are read, and read again when they change."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

ContentT = TypeVar("ContentT")
# Writing, and anything for others. Reading by the group is allowed: Kubernetes mounts secrets for a pod's group as 0440.
_TOO_OPEN = 0o037


class CredentialError(ValueError):
    """A certificate, key or token file cannot be used; the message is one line that names the file and what to do, never its content."""


def read_public(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        CredentialError: It cannot be read.

    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialError(f"{path}: {error.strerror}; give the path of a file that this process can read") from error


def read_secret(path: Path) -> bytes:
    """Return what a file holds that nobody but its owner, and perhaps a group, may read.

    Raises:
        CredentialError: It cannot be read, or others can read it too.

    """
    content = read_public(path)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise CredentialError(f"{path}: {error.strerror}; it was removed while it was read") from error
    if mode & _TOO_OPEN:
        raise CredentialError(f"{path}: others may read or change it (mode {mode:04o}); run: chmod {mode & ~_TOO_OPEN:04o} {path}")
    return content


def read_authorities(path: Path) -> bytes:
    """Return certificates of authorities, as PEM.

    Raises:
        CredentialError: It cannot be read or holds no certificate.

    """
    pem = read_public(path)
    _certificates(path, pem)
    return pem


def read_chain(path: Path, now: datetime) -> tuple[bytes, datetime]:
    """Return a certificate with its chain, as PEM, and the instant at which the certificate expires.

    Args:
        path: The file; the first certificate in it is the server's or client's own.
        now: The present instant.

    Raises:
        CredentialError: It cannot be read, holds no certificate, or the first one is expired or not valid yet.

    """
    pem = read_public(path)
    own = _certificates(path, pem)[0]
    if own.not_valid_after_utc <= now:
        raise CredentialError(f"{path}: the certificate expired on {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; renew it")
    if own.not_valid_before_utc > now:
        raise CredentialError(
            f"{path}: the certificate is not valid before {own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; renew it or set the clock"
        )
    return pem, own.not_valid_after_utc


def read_key(path: Path, chain: bytes | None = None) -> bytes:
    """Return a private key, as PEM.

    Args:
        path: The file.
        chain: The certificate that the key must belong to, as PEM; not checked if absent.

    Raises:
        CredentialError: It cannot be read, others can read it too, it is no key without a passphrase, or it belongs to another certificate.

    """
    pem = read_secret(path)
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise CredentialError(f"{path}: the key has a passphrase; give it without") from error
    except Exception as error:  # the library names several kinds of malformed files by as many classes
        raise CredentialError(f"{path}: no private key in PEM form; make one with openssl") from error
    if chain is not None and x509.load_pem_x509_certificates(chain)[0].public_key() != key.public_key():
        raise CredentialError(f"{path}: the key does not belong to the certificate; give the two that were made together")
    return pem


def read_token(path: Path) -> str:
    """Return the token of a client: the only line of a file.

    Raises:
        CredentialError: It cannot be read, others can read it too, or it holds something else than one token.

    """
    text = read_secret(path).decode("utf-8", "replace").strip()
    if not is_token(text):
        raise CredentialError(f"{path}: must hold one token of printable ASCII characters, without spaces, and nothing else")
    return text


def is_token(text: str) -> bool:
    """Return whether a text can be sent as a bearer token."""
    return bool(text) and all("!" <= character <= "~" for character in text)


def _certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CredentialError(f"{path}: no certificate in PEM form; make one with openssl") from error


class Reloading(Generic[ContentT]):
    """What files say now: read again when one of them changes; a change that cannot be used leaves the former in force.

    Args:
        paths: The files to look at.
        read: Reads and checks them; raises CredentialError.
        refused: Hears once of each change that cannot be used.

    Raises:
        CredentialError: They cannot be used from the start.

    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], ContentT], refused: Callable[[str], None]) -> None:
        self._paths, self._read, self._refused = tuple(paths), read, refused
        # Taken before reading: what changes while it is read is read once more.
        self._seen = self._stamp()
        self.content = read()

    def refresh(self) -> bool:
        """Look at the files and return whether their content was read anew."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen = stamp
        try:
            self.content = self._read()
        except CredentialError as error:
            self._refused(str(error))
            return False
        return True

    def _stamp(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
