"""A model that takes its time: speaks the OpenAI chat dialect, answers so much later, and says how long it took itself.

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
from typing import cast

import uvloop

PIECE_CHARS = 40
_SIZE, _WISHED = re.compile(rb"content-length: (\d+)", re.IGNORECASE), re.compile(rb"chars:(\d+)")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class LoadServer:
    """Answers requests; a prompt with `chars:NUMBER` gets a reply of that length instead of the usual one.

    Args:
        latency_s: Seconds until the reply, give or take a tenth: callers of a model that always takes the same time move in step.
        chars: Characters of a reply.

    """

    def __init__(self, latency_s: float, chars: int) -> None:
        self._latency_s, self.chars = latency_s, chars
        # A model elsewhere takes nothing of this machine, so the usual reply is put into words beforehand.
        self.usual = b"".join(map(_chunk, _pieces(chars)))
        self._draw = random.Random(0)
        self.arrivals: list[tuple[float, int]] = []

    async def serve(self) -> None:
        """Serve until the input ends."""
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=512)
        print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"}), flush=True)
        await asyncio.to_thread(sys.stdin.read)

    def latency_s(self) -> float:
        """Return how long the next reply takes."""
        return self._latency_s * self._draw.uniform(0.9, 1.1)


class _Connection(asyncio.Protocol):
    """Requests one after the other; asyncio's streams would take several times the processor time, which the generator then lacks."""

    def __init__(self, server: LoadServer) -> None:
        self._server, self._held = server, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its type

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, found, rest = self._held.partition(b"\r\n\r\n")
        if not found:
            return
        size = _SIZE.search(head)
        if size and len(rest) < int(size[1]):
            return
        self._held = b""
        if head.startswith(b"GET"):
            known = {"arrivals": self._server.arrivals} if b"/arrivals" in head else {"data": [{"id": "slow-1"}]}
            text = json.dumps(known).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))
        else:
            self._complete(rest)

    def _complete(self, body: bytes) -> None:
        came = time.perf_counter()
        prompt_tokens, wished = -(-len(body) // 4), _WISHED.search(body)
        chars = int(wished[1]) if wished else self._server.chars
        self._server.arrivals.append((came, prompt_tokens + chars // 4))
        asyncio.get_running_loop().call_later(self._server.latency_s(), self._reply, came, prompt_tokens, chars)

    def _reply(self, came: float, prompt_tokens: int, chars: int) -> None:
        text = self._server.usual if chars == self._server.chars else b"".join(map(_chunk, _pieces(chars)))
        took = f"# took {time.perf_counter() - came:.6f}\n```\n"
        ends = [
            _data({"choices": [{"index": 0, "delta": {"content": took}, "finish_reason": "stop"}]}),
            _data({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": chars // 4}}),
            b"data: [DONE]\n\n",
        ]
        self._transport.write(b"".join([_HEAD, text, *map(_chunk, ends), b"0\r\n\r\n"]))


def _pieces(chars: int) -> Iterator[bytes]:
    text = "Fuse it.\n```python\nclass ModelNew:\n    pass\n" + "# one more line of a kernel\n" * (chars // 27)
    for start in range(0, len(text), PIECE_CHARS):
        yield _data({"choices": [{"index": 0, "delta": {"content": text[start : start + PIECE_CHARS]}, "finish_reason": None}]})


def _data(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-s", type=float, default=0.3)
    parser.add_argument("--chars", type=int, default=400)
    options = parser.parse_args()
    uvloop.run(LoadServer(options.latency_s, options.chars).serve())


if __name__ == "__main__":
    main()
