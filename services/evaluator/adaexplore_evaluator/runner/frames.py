"""Frames of the runner protocol: a fixed header and one JSON object, over pipes or sockets."""

from __future__ import annotations

import json
import os
from typing import NoReturn

MAGIC = b"ADX1"
HEADER_BYTES = len(MAGIC) + 4
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024

JsonObject = dict[str, object]


class FrameError(Exception):
    """A frame breaks the protocol; a referee treats it as a forged result."""


def encode_frame(message: JsonObject) -> bytes:
    """Header and payload of one message; FrameError if it is larger than 16 MiB or not plain JSON."""
    try:
        payload = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise FrameError(f"the message is not plain JSON: {error}") from error
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise FrameError(f"the message has {len(payload)} bytes, more than {MAX_PAYLOAD_BYTES}")
    return MAGIC + len(payload).to_bytes(4, "little") + payload


def payload_length(header: bytes) -> int:
    """Length in bytes of the payload that follows an eight-byte header; FrameError if the header is not one."""
    if len(header) != HEADER_BYTES or not header.startswith(MAGIC):
        raise FrameError("the frame does not begin with the protocol's magic bytes")
    length = int.from_bytes(header[len(MAGIC) :], "little")
    if length > MAX_PAYLOAD_BYTES:
        raise FrameError(f"the frame announces {length} bytes, more than {MAX_PAYLOAD_BYTES}")
    return length


def decode_payload(payload: bytes) -> JsonObject:
    """The JSON object of a payload; FrameError if it is anything else."""
    try:
        message = json.loads(payload.decode(), parse_constant=_refuse_constant)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FrameError(f"the payload is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise FrameError("the payload is not a JSON object")
    return message


def read_frame(fd: int) -> JsonObject | None:
    """The next message from a blocking descriptor; None at a clean end, FrameError if the stream ends inside a frame."""
    header = _read_exactly(fd, HEADER_BYTES)
    if not header:
        return None
    length = payload_length(header)
    payload = _read_exactly(fd, length)
    if len(payload) != length:
        raise FrameError("the stream ended inside a frame")
    return decode_payload(payload)


def write_frame(fd: int, message: JsonObject) -> None:
    """Write one message whole to a blocking descriptor."""
    remaining = memoryview(encode_frame(message))
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


def _read_exactly(fd: int, size: int) -> bytes:
    chunks: list[bytes] = []
    missing = size
    while missing:
        chunk = os.read(fd, min(missing, 1 << 20))
        if not chunk:
            break
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
