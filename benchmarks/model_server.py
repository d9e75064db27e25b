"""A local model that is paid for: speaks the OpenAI chat dialect, breaks in the ways that endpoints break, and keeps its own bill.

Replies are kernels of random length. What is generated is billed whether or not it arrives, as providers do.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

# Micro-USD per million tokens.
INPUT_RATE, CACHED_RATE, OUTPUT_RATE = 1_000_000, 100_000, 4_000_000
MODEL = "paid-1"
_PIECES = 8
FAULTS = ("429", "429 without Retry-After", "500", "503", "reset", "cut", "stall", "no usage", "bad json", "bad utf-8", "refused")


def price_file() -> str:
    """Text of a price file for the generator."""
    row = {"provider": "openai", "model": MODEL, "input": INPUT_RATE, "cached": CACHED_RATE, "output": OUTPUT_RATE}
    return json.dumps({"date": "2026-01-01", "source": "the local model's own list", "models": [row]})


@dataclass
class Bill:
    """What one call is charged for.

    Attributes:
        prompt: SHA-256 of the prompt.
        label: What the prompt says after `label:`; tells callers apart.
        input_tokens: Tokens of the prompt.
        cached_tokens: Of these, tokens from the cache.
        output_tokens: Tokens generated so far.
        told: Whether the whole reply with its usage went out.

    """

    prompt: str
    label: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int = 0
    told: bool = False

    @property
    def micro_usd(self) -> float:
        """What it costs, not rounded."""
        read = (self.input_tokens - self.cached_tokens) * INPUT_RATE + self.cached_tokens * CACHED_RATE
        return (read + self.output_tokens * OUTPUT_RATE) / 1e6


class _BrokenError(Exception):
    """The server breaks the connection off."""


@dataclass
class ModelServer:
    """Answers chat requests.

    Attributes:
        faults: Probability of each fault, by the names in `FAULTS`.
        latency_s: Seconds until the first token.
        piece_s: Seconds between two pieces of a reply; there are eight.
        seed: Seed of lengths and faults.

    """

    faults: Mapping[str, float] = field(default_factory=dict)
    latency_s: float = 0.0
    piece_s: float = 0.0
    seed: int = 0
    bills: list[Bill] = field(default_factory=list)
    refused: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @contextmanager
    def running(self) -> Iterator[ModelServer]:
        """Serve on a free port of loopback from a thread."""
        ready = threading.Event()
        thread = threading.Thread(target=asyncio.run, args=(self._serve(ready),), daemon=True)
        thread.start()
        ready.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(10)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, _BrokenError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            size = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            body = json.loads(await reader.readexactly(int(size[1]))) if size else {}
            if head.startswith("GET"):
                await _whole(writer, 200, {"data": [{"id": MODEL}]})
            else:
                await self._complete(body, writer)
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async def _complete(self, body: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        fault = self._drawn_fault()
        await asyncio.sleep(self.latency_s)
        if fault in ("429", "429 without Retry-After", "503", "refused"):
            self.refused += 1
            code = {"503": 503, "refused": 400}.get(fault, 429)
            headers = {"retry-after": "0"} if fault == "429" else {}
            await _whole(writer, code, {"error": {"message": f"injected: {fault}"}}, headers)
            return
        bill = self._bill(body)
        if fault == "500":
            await _whole(writer, 500, {"error": {"message": "injected: 500"}})
            return
        await self._stream(bill, body, writer, fault)

    def _drawn_fault(self) -> str:
        at = self._draw.random()
        for name, share in self.faults.items():
            at -= share
            if at < 0:
                return name
        return ""

    def _bill(self, body: Mapping[str, Any]) -> Bill:
        prompt = "".join(message["content"] for message in body["messages"])
        label = re.search(r"label:(\S+)", prompt)
        read = max(1, len(prompt.encode()) // self._draw.randint(2, 5))
        cached = self._draw.choice([0, read // 2, read])
        bill = Bill(hashlib.sha256(prompt.encode()).hexdigest(), label[1] if label else "", read, cached)
        self.bills.append(bill)
        return bill

    async def _stream(self, bill: Bill, body: Mapping[str, Any], writer: asyncio.StreamWriter, fault: str) -> None:
        limit = int(body.get("max_tokens") or body.get("max_completion_tokens") or 1000)
        tokens = self._draw.choice([limit, self._draw.randint(1, limit), self._draw.randint(1, max(1, limit // 4))])
        breaks_at = self._draw.randrange(_PIECES) if fault in ("reset", "cut", "stall", "bad json", "bad utf-8") else -1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        text = f"One kernel.\n```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    number = {self._draw.random()}\n```\n"
        for piece in range(_PIECES):
            if piece == breaks_at:
                await self._break(writer, fault)
            bill.output_tokens = tokens * (piece + 1) // _PIECES
            part = text[len(text) * piece // _PIECES : len(text) * (piece + 1) // _PIECES]
            await _event(writer, {"model": MODEL, "choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]})
            await asyncio.sleep(self.piece_s)
        await _event(writer, {"model": MODEL, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if fault != "no usage":
            await _event(writer, {"model": MODEL, "choices": [], "usage": _usage(bill)})
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        bill.told = fault != "no usage"

    async def _break(self, writer: asyncio.StreamWriter, fault: str) -> None:
        if fault == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif fault == "stall":
            await asyncio.sleep(60)
        elif fault == "bad json":
            writer.write(b'data: {"model": "paid-1", "choi\n\n')
        elif fault == "bad utf-8":
            writer.write(b"data: \xff\xfe\n\n")
        await writer.drain()
        raise _BrokenError


def _usage(bill: Bill) -> dict[str, Any]:
    return {
        "prompt_tokens": bill.input_tokens,
        "completion_tokens": bill.output_tokens,
        "prompt_tokens_details": {"cached_tokens": bill.cached_tokens},
    }


async def _event(writer: asyncio.StreamWriter, value: Mapping[str, Any]) -> None:
    writer.write(b"data: " + json.dumps(value).encode() + b"\n\n")
    await writer.drain()


async def _whole(writer: asyncio.StreamWriter, code: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
    text = json.dumps(value).encode()
    fields = {"content-type": "application/json", "content-length": str(len(text)), "connection": "close"} | dict(headers or {})
    head = "".join(f"{name}: {content}\r\n" for name, content in fields.items())
    writer.write(f"HTTP/1.1 {code} Answer\r\n{head}\r\n".encode() + text)
    await writer.drain()
