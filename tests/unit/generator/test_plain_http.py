"""Plain HTTP over aiohttp: what went wrong is told as httpx would, for it decides whether a call is made again."""

import asyncio
import socket
from contextlib import asynccontextmanager

import httpx
import pytest
from adaexplore_generator.providers.plain_http import PlainClient

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@asynccontextmanager
async def answering(answer):
    """Yield the URL of a server that answers every request so, and then closes if it is told to."""

    async def connected(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


@pytest.fixture
async def client():
    client = PlainClient(60.0, 20.0, 20.0)
    yield client
    await client.close()


async def body(client, url):
    async with client.exchange("GET", url, {}) as answer:
        return b"".join([piece async for piece in answer.pieces()])


async def closes(writer):
    writer.close()


async def breaks_off(writer):
    writer.write(HEAD + b"5\r\nfirst\r\n")
    await writer.drain()
    writer.close()


async def babbles(writer):
    writer.write(b"nonsense\r\n\r\n")
    await writer.drain()


async def never(_writer):
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("answer", "error"),
    [(closes, httpx.ReadError), (breaks_off, httpx.ReadError), (babbles, httpx.RemoteProtocolError)],
)
async def test_what_breaks_after_a_request_was_sent_is_no_error_of_connecting(client, answer, error):
    async with answering(answer) as url:
        with pytest.raises(error):
            await body(client, url)


async def test_nobody_at_the_address_is_an_error_of_connecting(client):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(httpx.ConnectError):
            await body(client, f"http://127.0.0.1:{unused.getsockname()[1]}/")


async def test_silence_is_a_timeout_of_reading():
    impatient = PlainClient(60.0, 20.0, 0.05)
    async with answering(never) as url:
        with pytest.raises(httpx.ReadTimeout):
            await body(impatient, url)
    await impatient.close()


async def test_pieces_come_before_the_stream_has_ended(client):
    may_end = asyncio.Event()

    async def in_two(writer):
        writer.write(HEAD + b"5\r\nfirst\r\n")
        await may_end.wait()
        writer.write(b"6\r\nsecond\r\n0\r\n\r\n")

    async with answering(in_two) as url, client.exchange("GET", url, {}) as answer:
        pieces = answer.pieces()
        assert await anext(pieces) == b"first"
        may_end.set()
        assert [piece async for piece in pieces] == [b"second"]
        assert client.reusable


async def test_a_stream_that_is_left_is_closed_at_once(client):
    gone = asyncio.Event()

    async def endless(writer):
        writer.write(HEAD)
        try:
            while True:
                writer.write(b"5\r\nagain\r\n")
                await writer.drain()
                await asyncio.sleep(0.001)
        finally:
            gone.set()

    async with answering(endless) as url:
        async with client.exchange("GET", url, {}) as answer:
            assert (await anext(answer.pieces())).startswith(b"again")
        assert not client.reusable
        await asyncio.wait_for(gone.wait(), 20)
