"""The key of a model provider: from a variable, or from a file that is read again when it changes."""

from __future__ import annotations

from pathlib import Path

import structlog

from adaexplore.runtime.credentials import CredentialError, Reloading, read_secret


class ApiKey:
    """A key as it is now.

    Args:
        text: The key, where there is no file; empty if there is none.
        path: Its file, see `read_key`; a changed file that cannot be used is logged and the former key stays.

    Raises:
        CredentialError: The file cannot be used.

    """

    def __init__(self, text: str, path: Path | None = None) -> None:
        self._text = text
        self._file = Reloading([path], lambda: read_key(path), _refused) if path else None

    @property
    def now(self) -> str:
        """The key; empty if there is none."""
        if self._file is None:
            return self._text
        self._file.refresh()
        return self._file.content


def read_key(path: Path) -> str:
    """Return the key that a file holds; empty if the file is empty, or absent from a folder that is there, as optional secrets are mounted.

    Raises:
        CredentialError: It cannot be read, others can read it too, or what it holds is no key.

    """
    if not path.exists() and path.parent.is_dir():
        return ""
    try:
        return checked_key(read_secret(path).decode())
    except UnicodeDecodeError:
        raise CredentialError(f"{path}: holds no text; it must hold the key and nothing else") from None
    except CredentialError:
        raise
    except ValueError as error:
        raise CredentialError(f"{path}: {error}") from None


def checked_key(text: str) -> str:
    """Return a key without surrounding space; ValueError, which repeats nothing of it, if it cannot be one."""
    key = text.strip()
    if not all("!" <= character <= "~" for character in key):
        raise ValueError("holds characters that no key has, such as spaces or quotes of another alphabet")
    return key


def _refused(problem: str) -> None:
    structlog.get_logger().error("changed key file not used; the former key stays", problem=problem)
