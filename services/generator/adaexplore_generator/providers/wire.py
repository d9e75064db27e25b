"""What every chat endpoint sends in one form or another: event streams, JSON objects, error bodies, counts of tokens."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from adaexplore_generator.domain import Prompt, Usage

_MAX_LINE_BYTES = 8 << 20
_MAX_REPLY_CHARS = 4 << 20
_BLOCK_CHARS = 16 << 10


class ProtocolError(Exception):
    """The endpoint answered something that is not its protocol; the text says what."""


class BrokenOffError(Exception):
    """The stream ended before the model said that it was done."""


class ReportedError(Exception):
    """The endpoint reported an error inside a stream.

    Args:
        message: Its message.
        unstarted: True if the endpoint said that it is too busy before it began to answer, so that nothing was generated.

    """

    def __init__(self, message: str, *, unstarted: bool = False) -> None:
        super().__init__(message)
        self.unstarted = unstarted


class EventDecoder:
    """Splits bytes of a `text/event-stream` into the data of its events; other fields and comments are passed over."""

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[str]:
        """Yield the data of every event that is complete.

        Raises:
            ProtocolError: A line is longer than 8 MiB or not UTF-8.

        """
        self._buffer += piece
        # Lines are split on bytes: a JSON string may hold separators such as U+2028 that text splitting would take for line ends.
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > _MAX_LINE_BYTES:
            raise ProtocolError("a line of the event stream is longer than 8 MiB")
        for line in lines:
            yield from self._line(line.rstrip(b"\r"))

    def end(self) -> Iterator[str]:
        """Yield what is left when the stream ends; some servers leave out the last empty line."""
        rest, self._buffer = self._buffer, b""
        yield from self._line(rest.rstrip(b"\r"))
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[str]:
        if not line:
            if self._data:
                yield "\n".join(self._data)
                self._data = []
        elif line.startswith(b"data:"):
            try:
                self._data.append(line[5:].removeprefix(b" ").decode())
            except UnicodeDecodeError as error:
                raise ProtocolError("a line of the event stream is not UTF-8") from error


class GrowingText:
    """Text that grows piece by piece and is held once: a list of its pieces would be many times as large, and joining it a second copy."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._chars = 0
        self._whole = _growing()
        next(self._whole)

    def add(self, piece: str) -> int:
        """Append a piece and return its number of characters."""
        # A lone surrogate can stand in JSON, but neither in UTF-8 nor in the messages of our API.
        self._pieces.append(piece if piece.isascii() else piece.encode("utf-8", "replace").decode())
        self._chars += len(piece)
        if self._chars >= _BLOCK_CHARS:
            self._flush()
        return len(piece)

    def __str__(self) -> str:
        return self._flush()

    def _flush(self) -> str:
        block = "".join(self._pieces)
        self._pieces.clear()
        self._chars = 0
        return self._whole.send(block)


def _growing() -> Generator[str, str, None]:
    """Append what is sent. CPython grows a text in place where a local variable is all that holds it, and copies it anywhere else."""
    whole = ""
    while True:
        block = yield whole
        whole += block


class ReplyBound:
    """Counts what arrives of one reply, thoughts included, up to 4 Mi characters."""

    def __init__(self) -> None:
        self.chars = 0

    def count(self, chars: int) -> int:
        """Count so many characters more and return them; ProtocolError if it is too much."""
        self.chars += chars
        if self.chars > _MAX_REPLY_CHARS:
            raise ProtocolError("the reply is longer than 4 MiB")
        return chars


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object that a text holds.

    Raises:
        ProtocolError: It holds something else.

    """
    shown = text[:80] if isinstance(text, str) else text[:80].decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the endpoint sent malformed JSON: {shown!r}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"the endpoint sent JSON that is not an object: {shown!r}")
    return value


def parse_error(text: str) -> dict[str, Any]:
    """Return the object that an error body holds, which some wrap in a list; empty if it holds none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else {}


def error_text(body: Mapping[str, Any]) -> str:
    """Return the message of an error body, in any of the usual forms; empty if there is none."""
    error = body.get("error", body.get("detail", body.get("message")))
    if isinstance(error, dict):
        error = error.get("message") or error.get("code") or error.get("type")
    return " ".join(str(error).split())[:300] if error else ""


def error_code(body: Mapping[str, Any]) -> str:
    """Return the code or type of an error body; empty if there is none."""
    error = body.get("error")
    return str((error.get("code") or error.get("type") or "") if isinstance(error, dict) else "")


def estimated_usage(prompt: Prompt, text: str) -> Usage:
    """Return an estimate of the usage at four bytes a token."""
    return Usage(estimated_tokens(prompt), 0, -(-_size(text) // 4), 0, calls=1, cost_micro_usd=None, estimated=True)


def estimated_tokens(prompt: Prompt) -> int:
    """Return the number of tokens that a prompt takes, estimated at four bytes a token."""
    return -(-sum(_size(message.content) for message in prompt.messages) // 4)


def count(source: object, key: str) -> int | None:
    """Return a count of an object, None if it has none that can be read."""
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def items(body: Mapping[str, Any], key: str) -> list[object]:
    """Return a list of an object, empty if it is absent; ProtocolError if it is something else."""
    value = body.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProtocolError(f"`{key}` of the reply is not a list")
    return value


def text_of(value: object) -> str:
    """Return the text of a content field, which may be text or a list of parts; ProtocolError if it is something else."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(text_of(item.get("text")) for item in value if isinstance(item, dict))
    raise ProtocolError("the content of the reply is not text")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
