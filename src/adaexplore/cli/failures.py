"""Exit codes and the one way a command fails."""

from __future__ import annotations

import enum
import json
import re
import sys
import traceback
from typing import NoReturn

from adaexplore.runtime.credentials import CredentialError
from adaexplore.runtime.errors import ServiceError


class ExitCode(enum.IntEnum):
    """What the process says to its caller; documented in docs/operations.md."""

    OK = 0
    INFRASTRUCTURE = 1
    USAGE = 2
    TASK_INVALID = 3
    KERNEL_FAILED = 4
    INCONCLUSIVE = 5
    INTERRUPTED = 130


class CliError(Exception):
    """A command cannot go on; the message is one line that names the remedy.

    Args:
        message: The line.
        code: Exit code.
        json_printed: True if the command has printed its JSON object already.

    """

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE, *, json_printed: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.json_printed = json_printed


_FLAGS = {"device.kind": "--device", "device.target": "--target", "device.gpu": "--gpu"} | {
    "task.precision": "--precision",
    "task.track": "--track",
}
_USAGE_CODES = {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "PERMISSION_DENIED", "ALREADY_EXISTS", "UNAUTHENTICATED"}


# Whole words that are no part of a path.
_CONNECTION = re.compile(r"(?<![\w./-])(ca_file|cert_file|key_file|server_name|token_file|insecure_call)(?![\w./-])")


def in_flags(message: str) -> str:
    """Return a service's or client's message with this command's flags in place of the API's names."""
    for field, flag in _FLAGS.items():
        message = message.replace(field, flag)
    return _CONNECTION.sub(lambda found: f"--{found[0].replace('_', '-')}", message)


def exit_with(error: BaseException, *, debug: bool) -> NoReturn:
    """Print one line about an error, or one JSON object under `--json`, and exit with its code; the traceback only with `debug`."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    code, text, reason = _told(error)
    text = " ".join(text.split())
    if "--json" in sys.argv and not getattr(error, "json_printed", False):
        print_error(text, code, reason)
    print(f"error: {text}" + (f" [{reason}]" if reason else ""), file=sys.stderr)
    raise SystemExit(int(code))


def print_error(message: str, code: ExitCode, reason: str | None = None) -> None:
    """Print an error as the one JSON object of a command under `--json`."""
    print(json.dumps({"error": {"message": message, "reason": reason, "exit_code": int(code)}}, ensure_ascii=False))


def _told(error: BaseException) -> tuple[ExitCode, str, str | None]:
    if isinstance(error, CliError):
        return error.code, str(error), None
    if isinstance(error, CredentialError):
        return ExitCode.USAGE, in_flags(str(error)), None
    if isinstance(error, ServiceError):
        code = ExitCode.USAGE if error.code.name in _USAGE_CODES else ExitCode.INFRASTRUCTURE
        return code, in_flags(error.message), error.reason or error.code.name
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return ExitCode.INFRASTRUCTURE, f"{error.strerror or error}{place}; check the path, its permissions and the free space", None
    return ExitCode.INFRASTRUCTURE, f"{type(error).__name__}: {error}", None
