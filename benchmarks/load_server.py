"""A model that takes its time: speaks the OpenAI chat dialect, answers so many milliseconds later, and says how long it took itself.

    python -m benchmarks.load_server [--latency-s 0.3] [--chars 400]

Prints its base URL as a line of JSON. A reply ends in `# took SECONDS`, its own time from the whole request to the last piece.
`GET /v1/arrivals` tells when requests came, in seconds of a clock of its own, with their tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

PIECE_CHARS = 40
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class LoadServer:
    """Answers requests; a prompt with `chars:NUMBER` gets a reply of that length instead of the usual one.

    Args:
        latency_s: Seconds until the first piece, give or take a tenth.
        chars: Characters of a reply.

    """

    def __init__(self, latency_s: float, chars: int) -> None:
        self._latency_s, self._chars = latency_s, chars
        self._usual = list(_pieces(chars))
        self._draw = random.Random(0)
        self._arrivals: list[tuple[float, int]] = []

    async def serve(self) -> None:
        """Serve until the input ends."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 24, backlog=512)
        print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"}), flush=True)
        await asyncio.to_thread(sys.stdin.read)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(size[1])) if size else b""
                if head.startswith(b"GET"):
                    _whole(writer, {"arrivals": self._arrivals} if b"/arrivals" in head else {"data": [{"id": "slow-1"}]})
                else:
                    await self._complete(body, writer)
                await writer.drain()
        writer.close()

    async def _complete(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        came = time.perf_counter()
        prompt_tokens, wished = -(-len(body) // 4), re.search(rb"chars:(\d+)", body)
        chars = int(wished[1]) if wished else self._chars
        self._arrivals.append((came, prompt_tokens + chars // 4))
        # Give or take a tenth: callers of a model that always takes the same time move in step after the first hiccup.
        await asyncio.sleep(self._latency_s * self._draw.uniform(0.9, 1.1))
        writer.write(_HEAD)
        # A model elsewhere takes nothing of this machine, so the usual reply is put into words beforehand.
        for number, piece in enumerate(_pieces(chars) if wished else self._usual):
            _chunk(writer, piece)
            if number % 1000 == 0:
                await writer.drain()
        took = f"# took {time.perf_counter() - came:.6f}\n```\n"
        _event(writer, {"choices": [{"index": 0, "delta": {"content": took}, "finish_reason": "stop"}]})
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": chars // 4}
        _event(writer, {"choices": [], "usage": usage})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")


def _pieces(chars: int) -> Iterator[bytes]:
    text = "Fuse it.\n```python\nclass ModelNew:\n    pass\n" + "# one more line of a kernel\n" * (chars // 27)
    for start in range(0, len(text), PIECE_CHARS):
        yield _data({"choices": [{"index": 0, "delta": {"content": text[start : start + PIECE_CHARS]}, "finish_reason": None}]})


def _event(writer: asyncio.StreamWriter, value: object) -> None:
    _chunk(writer, _data(value))


def _data(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _whole(writer: asyncio.StreamWriter, value: object) -> None:
    text = json.dumps(value).encode()
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-s", type=float, default=0.3)
    parser.add_argument("--chars", type=int, default=400)
    options = parser.parse_args()
    asyncio.run(LoadServer(options.latency_s, options.chars).serve())


if __name__ == "__main__":
    main()
