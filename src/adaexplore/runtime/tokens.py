"""Who may call a service: bearer tokens from a file."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from adaexplore.runtime.credentials import CredentialError, Reloading, is_token, read_secret
from adaexplore.runtime.errors import UnauthenticatedError

_SHORTEST_TOKEN = 16
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGEST_MARK = "sha256:"
_SCHEME = "bearer "


@dataclass(frozen=True)
class Caller:
    """A caller that a tokens file names.

    Attributes:
        name: For logs.
        digest: SHA-256 of the token.

    """

    name: str
    digest: bytes


def read_callers(path: Path) -> tuple[Caller, ...]:
    """Return the callers in a tokens file: a line `name:token` or `name:sha256:HEX` each; `#` begins a comment.

    A name may stand on several lines, so that an old and a new token hold side by side while callers change over.

    Raises:
        CredentialError: It cannot be read, others can read it too, or a line is malformed; lines are named by number, never quoted.

    """
    callers: list[Caller] = []
    problems: list[str] = []
    for number, line in enumerate(read_secret(path).decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            callers.append(_caller(text))
        except ValueError as problem:
            problems.append(f"line {number} {problem}")
    if problems:
        raise CredentialError(f"{path}: {'; '.join(problems)}")
    if not callers:
        raise CredentialError(f"{path}: holds no line NAME:TOKEN, so nobody could call; make a token with: openssl rand -hex 32")
    return tuple(callers)


def _caller(text: str) -> Caller:
    name, separator, token = text.partition(":")
    if not separator or not _NAME.fullmatch(name):
        raise ValueError("must be NAME:TOKEN or NAME:sha256:HEX, the name of letters, digits, dots, dashes and underscores")
    if token.startswith(_DIGEST_MARK):
        digest = token.removeprefix(_DIGEST_MARK).lower()
        if not _DIGEST.fullmatch(digest):
            raise ValueError("must have 64 hexadecimal digits after sha256:")
        return Caller(name, bytes.fromhex(digest))
    if not is_token(token) or len(token) < _SHORTEST_TOKEN:
        raise ValueError(f"must have a token of at least {_SHORTEST_TOKEN} printable characters without spaces: openssl rand -hex 32")
    return Caller(name, hashlib.sha256(token.encode()).digest())


class Callers:
    """Tells callers by their tokens; the file is read again when it changes.

    Args:
        path: The tokens file.
        refused: Hears of a changed file that cannot be used; the former one stays in force.

    Raises:
        CredentialError: The file cannot be used.

    """

    def __init__(self, path: Path, refused: Callable[[str], None]) -> None:
        self._file = Reloading([path], lambda: read_callers(path), refused)

    def name_of(self, metadata: Iterable[tuple[str, str | bytes]]) -> str:
        """Return the name of the caller.

        Args:
            metadata: The call's.

        Raises:
            UnauthenticatedError: It holds no token (TOKEN_MISSING) or one that is not in the file (TOKEN_WRONG).

        """
        given = [value for key, value in metadata if key == "authorization"]
        if not given:
            raise UnauthenticatedError("the call has no token; send `authorization: Bearer TOKEN`", reason="TOKEN_MISSING")
        token = _bearer(given)
        self._file.refresh()
        found = None
        for caller in self._file.content:  # to the end: how long it takes must not tell where it matched
            if hmac.compare_digest(caller.digest, token):
                found = caller
        if found is None:
            raise UnauthenticatedError("the service does not know this token; ask its operator for one", reason="TOKEN_WRONG")
        return found.name


def _bearer(given: list[str | bytes]) -> bytes:
    value = given[0] if len(given) == 1 else ""
    if not isinstance(value, str) or not value.lower().startswith(_SCHEME):
        raise UnauthenticatedError("the authorization must be one `Bearer TOKEN`", reason="TOKEN_WRONG")
    return hashlib.sha256(value[len(_SCHEME) :].strip().encode()).digest()
