"""Cassettes: files that hold every reply of a run, so that the run can be repeated without a model.

JSON Lines: first the version, then one line for each reply. A line names its prompt by a digest alone; neither prompts nor keys are in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog

from adaexplore.runtime.errors import FailedPreconditionError
from adaexplore_generator.digests import sha256_of
from adaexplore_generator.domain import FinishReason, Prompt, Reply, Sampling, Usage
from adaexplore_generator.errors import PromptTooLongError

_VERSION = 1
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")


class CassetteError(FailedPreconditionError):
    """A cassette cannot be used.

    Args:
        message: Why, in one line, and what to do.

    """

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="PROVIDER_REFUSED_REQUEST")


@dataclass(frozen=True)
class Entry:
    """One answer: a reply, or what the endpoint said of a prompt that was too long for the model."""

    key: str
    loose_key: str
    provider: str
    asked_model: str
    reply: Reply | None
    too_long: str = ""

    def answer(self) -> Reply:
        """Return the reply, or raise PromptTooLongError as the endpoint did."""
        if self.reply is None:
            raise PromptTooLongError(self.too_long)
        return self.reply


def call_keys(provider: str, model: str, prompt: Prompt, sampling: Sampling) -> tuple[str, str]:
    """Return the SHA-256 over all that a reply depends on, and one that leaves out the numbers in the prompt; lower-case hex.

    A search that is repeated asks with other numbers where it says what was measured, or what came out for inputs that are drawn anew.

    Args:
        provider: Provider that is asked.
        model: What was asked for; may be empty.
        prompt: What it is asked.
        sampling: How; the seed differs from step to step of a search.

    """
    how = [sampling.temperature, sampling.max_output_tokens, sampling.seed, sampling.reasoning_effort]
    exact = [[message.role, message.content] for message in prompt.messages]
    loose = [[role, _NUMBER.sub("#", content)] for role, content in exact]
    return sha256_of([provider, model, exact, how]), sha256_of([provider, model, loose, how])


class CassetteWriter:
    """Appends answers to a cassette, each as soon as it is there.

    Args:
        path: The file; made if it is not there, gone on with if it is.

    Raises:
        CassetteError: It cannot be written, or is no cassette.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if path.exists() and path.stat().st_size:
                _check_version(path)
            # One write call for each line, at the end of the file: lines of several processes do not mix.
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            size = os.fstat(self._file).st_size
            if not size:
                self._write({"cassette": _VERSION})
            elif os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")  # a process was killed while it wrote the last line
        except OSError as error:
            raise CassetteError(f"cannot write {path}: {error.strerror}; name another file to record into") from error

    def append(self, entry: Entry) -> None:
        """Append one answer; OSError if it cannot be written."""
        line: dict[str, Any] = {
            "key": entry.key,
            "loose_key": entry.loose_key,
            "provider": entry.provider,
            "asked_model": entry.asked_model,
        }
        if entry.reply is None:
            line["too_long"] = entry.too_long
        else:
            line["reply"] = {**asdict(entry.reply), "finish": entry.reply.finish.value}
        self._write(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, line: dict[str, Any]) -> None:
        data = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        while data:
            data = data[os.write(self._file, data) :]


def read_cassette(path: Path) -> Iterator[Entry]:
    """Yield the answers of a cassette in their order; a line that was only half written is passed over with a warning.

    Raises:
        CassetteError: It cannot be read or is no cassette.

    """
    _check_version(path)
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if number > 1 and line.strip():
                    try:
                        yield _entry(line)
                    except (ValueError, KeyError, TypeError):
                        structlog.get_logger().warning("cassette_line_passed_over", path=str(path), line=number)
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}") from error


def _check_version(path: Path) -> None:
    try:
        with path.open("rb") as lines:
            first = lines.readline(1024)
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}; name a file that was recorded") from error
    try:
        version = json.loads(first)["cassette"]
    except (ValueError, KeyError, TypeError):
        raise CassetteError(f"{path} is no cassette: its first line names no version; name a file that was recorded") from None
    if version != _VERSION:
        raise CassetteError(f"{path} is a cassette of version {version}; this generator reads version {_VERSION}")


def _entry(line: bytes) -> Entry:
    data = json.loads(line)
    names = str(data["key"]), str(data["loose_key"]), str(data["provider"]), str(data["asked_model"])
    if "too_long" in data:
        return Entry(*names, None, str(data["too_long"]))
    reply = dict(data["reply"])
    usage = Usage(**reply.pop("usage"))
    return Entry(*names, Reply(**reply | {"usage": usage, "finish": FinishReason(reply["finish"])}))
